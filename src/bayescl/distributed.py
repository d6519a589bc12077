"""Rows of all processes on every process, with gradients flowing back to their owners.

Processes may hold unequal numbers of rows. Before anything large is sent, every process sends a
short note of what it holds. All processes read the same notes, so either all continue or all raise
the same error, and none waits for a process that gave up.

Reading the notes blocks; unequal batches need that, since sizes of tensors live on the host. With
NCCL alone, it costs one synchronisation with the GPU per call. A group made with
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

from bayescl.axes import Float, Tensor

NOTE_BYTES = 4096
_REFUSAL_CHARACTERS = 600
_RANKS_NAMED = 8


def is_initialized() -> bool:
    """Whether there is a process group."""
    return dist.is_available() and dist.is_initialized()


def world_size() -> int:
    """Return the number of processes of torch's default group, at least 1.

    Raises:
        RuntimeError: if ``torch.distributed`` has no process group yet.
    """
    if not is_initialized():
        raise RuntimeError(
            "gathering needs an initialised process group: call "
            "torch.distributed.init_process_group first, or use gather=False in a single process"
        )
    return dist.get_world_size()


def rank() -> int:
    """Return this process's number in the group, from 0."""
    return dist.get_rank()


def gather(rows: Float[Tensor, " rows *shape"]) -> Float[Tensor, " all_rows *shape"]:
    """Return the rows of all processes, by rank; gradients flow back to their owners.

    Every process receives all rows and may compute anything from them; the gradients of a row from
    all processes are added up on the process that owns it. It can be differentiated any number of
    times, but not by ``torch.func``. Every process of the group must call it.

    Args:
        rows: this process's rows, one or more; the number may differ between processes. Integers
            and booleans (labels, masks) are gathered too, without gradient.

    Returns:
        All rows on every process; ``rows`` itself if the group has only one process.

    Raises:
        ValueError: on every process, if a process holds no row or the processes' rows differ in
            shape, dtype, kind of device or in whether they need a gradient.
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
    """What must be the same of rows on all processes that gather them, as :func:`exchange` asks."""
    return [
        ("the shape of a row", list(rows.shape[1:])),
        ("dtype", str(rows.dtype).removeprefix("torch.")),
        ("the kind of device", rows.device.type),
        # Gradients are added up by all processes together: one that does not take part would leave
        # the others waiting.
        ("requires_grad", rows.requires_grad and torch.is_grad_enabled()),
    ]


def by_rank(held: Mapping[int, Any]) -> str:
    """Say who holds what, as in ``8 on rank 0, 2; 6 on rank 1``; of many ranks the first few."""
    holders: dict[str, list[str]] = {}
    for holder, value in held.items():
        holders.setdefault(str(value), []).append(str(holder))
    return "; ".join(
        f"{value} on rank {', '.join(ranks[:_RANKS_NAMED])}{', ...' * (len(ranks) > _RANKS_NAMED)}"
        for value, ranks in holders.items()
    )


def exchange(note: Mapping[str, Any], same: Sequence[tuple[str, Any]] = ()) -> list[dict[str, Any]]:
    """Send this process's note to all processes and return everybody's, by rank.

    Args:
        note: a few numbers and words, at most four kilobytes as JSON with the values below.
        same: names and values that must be the same on every process. The name of each is the same
            where the values before it are.

    Raises:
        ValueError: on every process, if values differ, naming who holds what, or if a process
            refused its input; see :func:`shared_refusals`.
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
    """Make every process raise if one refuses its input, instead of waiting for it forever.

    Code inside checks this process's input and sends nothing. If it raises, the other processes
    raise a ``ValueError`` with the same message in :func:`exchange`.
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
    """What processes refused, or an empty string."""
    return by_rank({rank: note["refusal"] for rank, note in enumerate(notes) if "refusal" in note})


def _exchange(note: Mapping[str, Any]) -> list[dict[str, Any]]:
    text = json.dumps(note).encode()
    if len(text) > NOTE_BYTES:
        raise RuntimeError(f"a note must fit into {NOTE_BYTES} bytes, got {len(text)}")
    # From the CPU if the group can send from it, else from the current device of its kind.
    kinds = [pair.partition(":")[0] for pair in dist.get_backend_config().split(",")]
    mine = torch.frombuffer(bytearray(text.ljust(NOTE_BYTES)), dtype=torch.uint8)
    mine = mine.to("cpu" if "cpu" in kinds else kinds[0])
    everyone = mine.new_empty(dist.get_world_size() * NOTE_BYTES)
    dist.all_gather_into_tensor(everyone, mine)
    raw = everyone.cpu().numpy().tobytes()
    return [json.loads(raw[i : i + NOTE_BYTES]) for i in range(0, len(raw), NOTE_BYTES)]


def gather_rows(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    """Gather rows whose number on each process is known and whose kind was compared."""
    if min(sizes) == 0:
        who = by_rank(dict(enumerate(sizes)))
        raise ValueError(f"every process must hold at least one row, got {who}")
    largest = max(sizes)
    if len(rows) < largest:
        rows = torch.cat([rows, rows.new_zeros(largest - len(rows), *rows.shape[1:])])
    everyone: Tensor = _Gather.apply(rows, len(sizes), False)
    if min(sizes) == largest:
        return everyone
    blocks = everyone.split(largest)
    return torch.cat([block[:size] for block, size in zip(blocks, sizes, strict=True)])


class _Gather(torch.autograd.Function):
    """All processes' rows, equally many; and the adjoint, the sum of their gradients of its own."""

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
