"""Agreement between the processes of one call, and the candidates of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from bayescl import distributed
from bayescl.axes import Tensor
from bayescl.batch import UNKNOWN, Batch, Rows


@dataclass(frozen=True)
class Gathering:
    """One call of a loss, on one process, where it does nothing, or on all of the default group."""

    call: str  # name of the layout, which must be the same on all processes
    active: bool  # whether there are other processes to gather from
    candidates: bool = True  # whether candidates are gathered too; else all hold the same ones

    @classmethod
    def of(cls, call: str, gather: bool, *, candidates: bool = True) -> Gathering:
        """Return the gathering of a call; a group of one process has nothing to gather."""
        return cls(call, gather and distributed.world_size() > 1, candidates)

    def synchronized_errors(self) -> AbstractContextManager[None]:
        """Make every process raise if one raises while it checks its own input."""
        return distributed.shared_refusals() if self.active else nullcontext()

    def raise_peer_errors(self) -> None:
        """Raise if another process has refused its input."""
        if self.active:
            distributed.exchange({"call": self.call})

    def rows_of_all(self, *held: Tensor, calls: int) -> list[Tensor]:
        """The rows of all processes, by rank, without gradient, after as many calls on each."""
        if not self.active:
            return list(held)
        rows = [part.detach() for part in held]
        parts = [distributed.describe(part) for part in rows]
        notes = distributed.exchange({"call": self.call, "calls": calls, "parts": parts})
        _agree_on_call(notes)
        distributed.agreed("the number of calls remembered", [note["calls"] for note in notes])
        distributed.agreed("the number of tensors", [len(note["parts"]) for note in notes])
        every = zip(*(note["parts"] for note in notes), strict=True)
        sizes = [distributed.agreed_sizes(of_part) for of_part in every]
        return [distributed.gather_rows(*pair) for pair in zip(rows, sizes, strict=True)]

    def gather_candidates(
        self, batches: Sequence[Batch], weight: float, temperature: float | Tensor
    ) -> tuple[list[Batch], float]:
        """The batches with the candidates of all processes, and :meth:`mean_share` of ``weight``.

        The columns of a block are ordered by rank. An anchor's own candidates stay as they are, and
        so do those that are the same everywhere.
        """
        if not self.active:
            return list(batches), 1.0
        shared = [not block.are_own for block in batches[0].columns]
        if not self.candidates or not any(shared):
            call = f"{self.call} with {'the same' if any(shared) else 'own'} candidates"
            return list(batches), replace(self, call=call).mean_share(weight)
        scale = torch.as_tensor(temperature).detach().item()
        parts = [_note(batch) for batch in batches]
        notes = distributed.exchange(
            {"call": self.call, "weight": weight, "temperature": f"{scale:.4g}", "batches": parts}
        )
        share = _share(notes)
        distributed.agreed(
            "the temperature (a learnable one belongs to the module that DistributedDataParallel "
            "wraps, or processes drift apart)",
            [note["temperature"] for note in notes],
        )
        distributed.agreed("the number of directions", [len(note["batches"]) for note in notes])
        # All that processes may disagree about is checked before the first rows are sent.
        every = [[note["batches"][which] for note in notes] for which in range(len(batches))]
        agreed = [_agreed_sizes(parts) for parts in every]
        labelled = any(part["labels"] for parts in every for part in parts)
        gathered = []
        for batch, sizes in zip(batches, agreed, strict=True):
            if labelled and batch.anchors.labels is None:  # another process knows some
                batch = _with_unknown_labels(batch)
            starts = [sum(of_block[: distributed.rank()]) for of_block in sizes]

            def fetch(part: Tensor, place: int, sizes: list[list[int]] = sizes) -> Tensor:
                return distributed.gather_rows(part, sizes[place])

            gathered.append(batch.gathered(fetch, starts))
        return gathered, share

    def mean_share(self, weight: float) -> float:
        """The factor that turns the average of the processes' means into that of all pairs."""
        if not self.active:
            return 1.0
        return _share(distributed.exchange({"call": self.call, "weight": weight}))


def _agree_on_call(notes: Sequence[dict[str, Any]]) -> None:
    """Refuse processes that are at different places in their calls."""
    distributed.agreed("the layout", [note["call"] for note in notes])
    distributed.agreed("whether the loss is training", ["calls" in note for note in notes])


def _share(notes: Sequence[dict[str, Any]]) -> float:
    """This process's share of the weight of all pairs, times the number of processes."""
    _agree_on_call(notes)
    weights = [float(note["weight"]) for note in notes]
    return len(weights) * weights[distributed.rank()] / sum(weights)


def _note(batch: Batch) -> dict[str, Any]:
    """What other processes must know of this process's part."""
    mine, valid = batch.anchors, batch.valid
    return {
        "blocks": [
            distributed.describe(block.embeddings.flatten(0, -2)) for block in batch.columns
        ],
        "extra": len(batch.columns) > 1,
        "own": [block.are_own for block in batch.columns],
        "anchors": batch.num_anchors,
        "groups": 0 if mine.groups is None else mine.groups.shape[1],
        "domains": 0 if mine.domains is None else mine.domains.shape[1],
        "log_q": batch.positives.log_q is not None,
        "valid": None if valid is None else list(valid.shape),
        "components": None if mine.factors is None else mine.factors.shape[1],
        "labels": mine.labels is not None,
    }


def _agreed_sizes(parts: Sequence[dict[str, Any]]) -> list[list[int]]:
    """The rows of each block on each process, after all have read the same notes."""
    for key, name in (
        ("extra", "whether extra is given"),
        ("own", "which candidates are an anchor's own"),
        ("groups", "the number of groups per row"),
        ("domains", "the number of domains per row"),
        ("log_q", "whether log_q is given"),
        ("components", "what is known of pairs"),
    ):
        distributed.agreed(name, [part[key] for part in parts])
    own = parts[0]["own"]
    every = zip(*(part["blocks"] for part in parts), strict=True)
    sizes = [distributed.agreed_sizes(blocks) for blocks in every]
    columns = sum(sum(of_block) for of_block, alone in zip(sizes, own, strict=True) if not alone)
    for rank, part in enumerate(parts):
        of_own = sum(
            of_block[rank] // part["anchors"]
            for of_block, alone in zip(sizes, own, strict=True)
            if alone
        )
        wanted = [part["anchors"], columns + of_own]
        if part["valid"] not in (None, wanted):
            raise ValueError(
                f"valid must have shape {wanted} on rank {rank} (its anchors, the candidates of "
                f"all processes in their order), got {part['valid']}"
            )
    return sizes


def _with_unknown_labels(batch: Batch) -> Batch:
    """The batch with labels, none of which is known."""

    def unknown(rows: Rows) -> Rows:
        shape, device = rows.embeddings.shape[:-1], rows.embeddings.device
        return replace(rows, labels=torch.full(shape, UNKNOWN, device=device))

    return batch.map_rows(unknown)
