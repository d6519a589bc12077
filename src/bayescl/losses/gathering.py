"""Agreement between the processes of one call, and the candidates of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import torch

from bayescl import distributed
from bayescl.axes import Tensor
from bayescl.batch import UNKNOWN, Batch, Rows

_TEMPERATURE = (
    "the temperature (a learnable one belongs to the module that DistributedDataParallel wraps, or "
    "processes drift apart)"
)


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
            distributed.exchange({})

    def rows_of_all(self, *held: Tensor, calls: int) -> list[Tensor]:
        """The rows of all processes, by rank, without gradient, after as many calls on each."""
        if not self.active:
            return list(held)
        rows = [part.detach() for part in held]
        same = [
            *self._same(is_training=True),
            ("the number of calls remembered", calls),
            ("the number of tensors", len(rows)),
            *chain.from_iterable(map(distributed.kind_of, rows)),
        ]
        notes = distributed.exchange({"rows": [len(part) for part in rows]}, same)
        sizes = zip(*(note["rows"] for note in notes), strict=True)
        return [distributed.gather_rows(*pair) for pair in zip(rows, sizes, strict=True)]

    def gather_candidates(
        self, batches: Sequence[Batch], weight: float, temperature: float | Tensor
    ) -> tuple[list[Batch], float]:
        """The batches with the candidates of all processes, and :meth:`mean_share` of ``weight``.

        The columns of a block are ordered by rank. An anchor's own candidates stay as they are, and
        so do those that are the same everywhere.
        """
        shared = [not block.are_own for block in batches[0].columns]
        if not self.candidates or not any(shared):
            call = f"{self.call} with {'the same' if any(shared) else 'own'} candidates"
            return list(batches), replace(self, call=call).mean_share(weight)
        scale = torch.as_tensor(temperature).detach().item()
        same = [
            *self._same(),
            (_TEMPERATURE, f"{scale:.4g}"),
            ("the number of directions", len(batches)),
            *chain.from_iterable(map(_kind, batches)),
        ]
        # All that processes may disagree about is compared before the first rows are sent.
        notes = distributed.exchange({"weight": weight, "parts": list(map(_note, batches))}, same)
        labelled = any(part["labels"] for note in notes for part in note["parts"])
        gathered = []
        for place, batch in enumerate(batches):
            parts = [note["parts"][place] for note in notes]
            sizes = [list(of_block) for of_block in zip(*(p["rows"] for p in parts), strict=True)]
            total = sum(map(sum, sizes))
            for rank, part in enumerate(parts):
                if part["columns"] not in (None, total):
                    raise ValueError(
                        f"valid must have {total} shared columns on rank {rank} (the candidates "
                        f"of all processes in their order), got {part['columns']}"
                    )
            if labelled and batch.anchors.labels is None:  # another process knows some
                batch = batch.map_rows(_with_unknown_labels)
            starts = [sum(of_block[: distributed.rank()]) for of_block in sizes]

            def fetch(part: Tensor, block: int, sizes: list[list[int]] = sizes) -> Tensor:
                return distributed.gather_rows(part, sizes[block])

            gathered.append(batch.gathered(fetch, starts))
        return gathered, _share(notes)

    def mean_share(self, weight: float) -> float:
        """The factor that turns the average of the processes' means into that of all pairs."""
        if not self.active:
            return 1.0
        return _share(distributed.exchange({"weight": weight}, self._same()))

    def _same(self, *, is_training: bool = False) -> list[tuple[str, Any]]:
        """What processes at the same place in their calls agree on."""
        return [("the layout", self.call), ("whether the loss is training", is_training)]


def _share(notes: Sequence[dict[str, Any]]) -> float:
    """This process's share of the weight of all pairs, times the number of processes."""
    weights = [float(note["weight"]) for note in notes]
    return len(weights) * weights[distributed.rank()] / sum(weights)


def _kind(batch: Batch) -> list[tuple[str, Any]]:
    """What must be the same of a batch's parts on all processes."""

    def width(part: Tensor | None) -> int:
        return 0 if part is None else part.shape[1]

    mine = batch.anchors
    kinds = (distributed.kind_of(block.embeddings.flatten(0, -2)) for block in batch.columns)
    return [
        ("whether extra is given", len(batch.columns) > 1),
        ("which candidates are an anchor's own", [block.are_own for block in batch.columns]),
        ("the number of groups per row", width(mine.groups)),
        ("the number of domains per row", width(mine.domains)),
        ("whether log_q is given", batch.positives.log_q is not None),
        ("what is known of pairs", width(mine.factors)),
        *chain.from_iterable(kinds),
    ]


def _note(batch: Batch) -> dict[str, Any]:
    """What other processes must know of this process's part."""
    own = sum(block.embeddings.shape[1] for block in batch.columns if block.are_own)
    return {
        "rows": [0 if block.are_own else len(block.embeddings) for block in batch.columns],
        "columns": None if batch.valid is None else batch.valid.shape[1] - own,
        "labels": batch.anchors.labels is not None,
    }


def _with_unknown_labels(rows: Rows) -> Rows:
    shape, device = rows.embeddings.shape[:-1], rows.embeddings.device
    return replace(rows, labels=torch.full(shape, UNKNOWN, device=device))
