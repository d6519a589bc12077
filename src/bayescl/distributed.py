"""Gathering of rows from all processes, with gradients.

Processes may have unequal numbers of rows. Before anything large is sent, every process sends a
short note with its sizes. All processes read the same notes, so either all continue or all raise
the same error. This covers checks of settings and of input. Code that raises on one process
elsewhere, such as an encoder or an objective of your own, does not inform the others: they wait
until the process group ends.

Reading the notes blocks the host, which must know the sizes of unequal batches. With NCCL alone,
this synchronizes with the GPU once per call. A group made with
``init_process_group("cpu:gloo,cuda:nccl")`` sends notes from CPU to CPU while the GPU keeps
working.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import Any

import torch
from torch import distributed as dist

from bayescl._types import Float, Tensor

NOTE_BYTES = 4096
_REFUSAL_CHARACTERS = 600
_RANKS_NAMED = 8


def is_initialized() -> bool:
    """Return whether there is a process group."""
    return dist.is_available() and dist.is_initialized()


def world_size() -> int:
    """Return the number of processes of torch's default group, at least 1.

    Raises:
        RuntimeError: if ``torch.distributed`` has no process group yet.
    """
    if not is_initialized():
        raise RuntimeError(
            "gathering needs an initialized process group: call "
            "torch.distributed.init_process_group first, or use gather=False in a single process"
        )
    return dist.get_world_size()


def rank() -> int:
    """Return the rank of this process in the group."""
    return dist.get_rank()


def gather(rows: Float[Tensor, " rows *shape"]) -> Float[Tensor, " all_rows *shape"]:
    """Return the rows of all processes, ordered by rank, with gradients.

    The gradient of a row is the sum of its gradients on all processes. The result can be
    differentiated any number of times, but not by ``torch.func``. All processes of the group must
    call this function.

    Args:
        rows: Rows of this process, one or more. The number may differ between processes. Integers
            and booleans, such as labels and masks, are gathered without gradient.

    Returns:
        All rows, on every process. ``rows`` itself if the group has only one process.

    Raises:
        ValueError: on every process, if a process has no rows, or if rows differ between processes
            in shape, dtype, type of device or ``requires_grad``.
        RuntimeError: if ``torch.distributed`` has no process group yet.

    Example:
        With ``[2, dim]`` on rank 0 and ``[3, dim]`` on rank 1, both ranks get ``[5, dim]``::

            everyone = gather(embeddings)
    """
    if world_size() == 1:
        return rows
    with shared_refusals():
        if rows.ndim == 0:
            raise ValueError("rows must have at least one axis, got a scalar")
    notes = exchange({"rows": len(rows)}, [("the call", "gather"), *kind_of(rows)])
    return gather_rows(rows, [note["rows"] for note in notes])


def kind_of(rows: Tensor) -> list[tuple[str, Any]]:
    """Return what must be identical on all processes that gather rows, as names and values."""
    return [
        ("the shape of a row", list(rows.shape[1:])),
        ("dtype", str(rows.dtype).removeprefix("torch.")),
        ("the kind of device", rows.device.type),
        # Summing gradients is a collective operation: if one process skips it, the others hang.
        ("requires_grad", rows.requires_grad and torch.is_grad_enabled()),
    ]


def by_rank(values: Mapping[int, Any]) -> str:
    """Format values by rank, as in ``8 on rank 0, 2; 6 on rank 1``, for the first few ranks."""
    ranks_of: dict[str, list[str]] = {}
    for rank, value in values.items():
        ranks_of.setdefault(str(value), []).append(str(rank))
    return "; ".join(
        f"{value} on rank {', '.join(ranks[:_RANKS_NAMED])}{', ...' * (len(ranks) > _RANKS_NAMED)}"
        for value, ranks in ranks_of.items()
    )


def exchange(note: Mapping[str, Any], same: Sequence[tuple[str, Any]] = ()) -> list[dict[str, Any]]:
    """Exchange a small JSON object of each process, and return all, ordered by rank.

    Args:
        note: JSON-serializable note of this process. At most 4 KB including ``same``.
        same: Names and values that must be identical on all processes, compared in this order.
            Default: none.

    Returns:
        The notes of all processes.

    Raises:
        ValueError: on every process, if values differ or the input of a process is invalid; see
            :func:`shared_refusals`.
    """
    notes = _exchange({**note, "same": [value for _, value in same]})
    if refusal := _refusal(notes):
        raise ValueError(refusal)
    every = zip_longest(*(note["same"] for note in notes))
    for (name, _), values in zip(same, every, strict=False):
        if any(value != values[0] for value in values):
            who = by_rank(dict(enumerate(values)))
            raise ValueError(f"{name} must be the same on every process, got {who}")
    return notes


@contextmanager
def shared_refusals() -> Iterator[None]:
    """Make every process raise if one process raises, so that no process hangs.

    Code inside this context checks the input of this process and must not communicate. If it
    raises, the other processes raise a ``ValueError`` with the same message in :func:`exchange`.
    """
    try:
        yield
    except Exception as error:
        text = str(error).encode("ascii", "replace").decode()[:_REFUSAL_CHARACTERS]
        notes = _exchange({"refusal": text or type(error).__name__})
        for kind in (TypeError, ValueError):
            if isinstance(error, kind):
                raise kind(_refusal(notes)) from error
        raise


def _refusal(notes: Sequence[Mapping[str, Any]]) -> str:
    """Return the error messages of all processes, or an empty string."""
    return by_rank({rank: note["refusal"] for rank, note in enumerate(notes) if "refusal" in note})


def _exchange(note: Mapping[str, Any]) -> list[dict[str, Any]]:
    text = json.dumps(note).encode()
    if len(text) > NOTE_BYTES:
        raise RuntimeError(
            f"settings exchanged between processes need {len(text)} bytes, more than {NOTE_BYTES}"
        )
    # Use the CPU if the backend supports it, else the backend's current device.
    kinds = [pair.partition(":")[0] for pair in dist.get_backend_config().split(",")]
    mine = torch.frombuffer(bytearray(text.ljust(NOTE_BYTES)), dtype=torch.uint8)
    mine = mine.to("cpu" if "cpu" in kinds else kinds[0])
    everyone = mine.new_empty(dist.get_world_size() * NOTE_BYTES)
    dist.all_gather_into_tensor(everyone, mine)
    raw = everyone.cpu().numpy().tobytes()
    return [json.loads(raw[i : i + NOTE_BYTES]) for i in range(0, len(raw), NOTE_BYTES)]


def gather_rows(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """Gather rows, given the number of rows of each process. Dtypes must agree."""
    if min(sizes) == 0:
        who = by_rank(dict(enumerate(sizes)))
        raise ValueError(f"every process must have at least one row, got {who}")
    largest = max(sizes)
    if len(rows) < largest:
        rows = torch.cat([rows, rows.new_zeros(largest - len(rows), *rows.shape[1:])])
    everyone: Tensor = _Gather.apply(rows, len(sizes), False)
    if min(sizes) == largest:
        return everyone
    blocks = everyone.split(largest)
    return torch.cat([block[:size] for block, size in zip(blocks, sizes, strict=True)])


class _Gather(torch.autograd.Function):
    """Gather equally many rows from each process; sum gradients in the backward pass."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, processes: int, back: bool) -> Tensor:
        ctx.others = processes, not back
        count = len(rows) // processes if back else len(rows) * processes
        result = rows.new_empty(count, *rows.shape[1:])
        collective = dist.reduce_scatter_tensor if back else dist.all_gather_into_tensor
        collective(result, rows.contiguous())
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return _Gather.apply(gradient, *ctx.others), None, None
