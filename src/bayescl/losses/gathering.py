"""Agreement between the processes of one call, and the candidates of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from bayescl import distributed
from bayescl.axes import Tensor
from bayescl.engines import ContrastiveBatch, Labels, SpreadBatch


@dataclass(frozen=True)
class Gathering:
    """One call of a loss, on one process, where it does nothing, or on all of the default group."""

    call: str  # name of the layout, which must be the same on all processes
    active: bool  # whether there are other processes to gather from
    candidates: bool = True  # whether candidates are gathered too; else all hold the same ones
    in_rounds: bool = False  # whether an engine fetches them, one process's at a time

    @classmethod
    def of(cls, call: str, gather: bool, *, candidates: bool = True) -> Gathering:
        """Return the gathering of a call; a group of one process has nothing to gather."""
        return cls(call, gather and distributed.world_size() > 1, candidates)

    def refusals(self) -> AbstractContextManager[None]:
        """Make every process raise if one raises while it checks its own input."""
        return distributed.shared_refusals() if self.active else nullcontext()

    def go_on(self) -> None:
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

    def candidates_of_all(
        self, batches: Sequence[ContrastiveBatch]
    ) -> tuple[list[ContrastiveBatch], float]:
        """The batches with the candidates of all processes, by rank, and :meth:`mean_share`.

        An anchor's own candidates stay as they are, and so do those that are the same everywhere.
        """
        if not self.active:
            return list(batches), 1.0
        anchors = sum(batch.num_anchors for batch in batches)
        own = batches[0].candidates.ndim == 3
        if own or not self.candidates:
            call = f"{self.call} with {'own' if own else 'the same'} candidates"
            return list(batches), replace(self, call=call).mean_share(anchors)
        notes = distributed.exchange(
            {"call": self.call, "anchors": anchors, "batches": [_note(batch) for batch in batches]}
        )
        share = _share(notes)
        distributed.agreed("the number of directions", [len(note["batches"]) for note in notes])
        # All that processes may disagree about is checked before the first rows are sent.
        every = [[note["batches"][which] for note in notes] for which in range(len(batches))]
        agreed = [_agreed_sizes(parts) for parts in every]
        labelled = any(part["labels"] for parts in every for part in parts)
        gathered: list[ContrastiveBatch] = []
        for batch, sizes in zip(batches, agreed, strict=True):
            if labelled and batch.labels is None:  # another process knows some
                unknown = (
                    torch.full(rows.shape[:-1], -1, device=rows.device)
                    for rows in (batch.anchors, batch.candidates)
                )
                batch = replace(batch, labels=Labels(*unknown))
            if self.in_rounds:
                gathered.append(SpreadBatch(**vars(batch), sizes=tuple(sizes)))
            else:
                gathered.append(_with_all_candidates(batch, sizes))
        return gathered, share

    def mean_share(self, anchors: int) -> float:
        """The factor that turns the average of the processes' means into that of all anchors."""
        if not self.active:
            return 1.0
        return _share(distributed.exchange({"call": self.call, "anchors": anchors}))


def _agree_on_call(notes: Sequence[dict[str, Any]]) -> None:
    """Refuse processes that are at different places in their calls."""
    distributed.agreed("the layout", [note["call"] for note in notes])
    distributed.agreed("whether the loss is training", ["calls" in note for note in notes])


def _share(notes: Sequence[dict[str, Any]]) -> float:
    """This process's share of the anchors, times the number of processes."""
    _agree_on_call(notes)
    anchors = [int(note["anchors"]) for note in notes]
    return len(anchors) * anchors[distributed.rank()] / sum(anchors)


def _note(batch: ContrastiveBatch) -> dict[str, Any]:
    """What other processes must know of this process's part."""
    valid, known = batch.rule.valid, batch.same_class
    return {
        **distributed.describe(batch.candidates),
        "anchors": batch.num_anchors,
        "groups": batch.rule.num_keys,
        "valid": None if valid is None else list(valid.shape),
        "components": None if known is None else known.anchors.shape[1],
        "labels": batch.labels is not None,
    }


def _agreed_sizes(parts: Sequence[dict[str, Any]]) -> list[int]:
    """The number of candidates on each process, after all have read the same notes."""
    sizes = distributed.agreed_sizes(parts)
    distributed.agreed("the number of groups per row", [part["groups"] for part in parts])
    distributed.agreed("what is known of pairs", [part["components"] for part in parts])
    for rank, part in enumerate(parts):
        wanted = [part["anchors"], sum(sizes)]
        if part["valid"] not in (None, wanted):
            raise ValueError(
                f"valid must have shape {wanted} on rank {rank} (its anchors, the candidates of "
                f"all processes in their order), got {part['valid']}"
            )
    return sizes


def _with_all_candidates(batch: ContrastiveBatch, sizes: Sequence[int]) -> ContrastiveBatch:
    """Gather candidates and their groups; this process's columns follow those of lower ranks."""
    rule, start = batch.rule, sum(sizes[: distributed.rank()])
    own, positive = (
        None if places is None else places + start for places in (rule.own, rule.positive)
    )
    rule = replace(rule, own=own, positive=positive)
    return batch.with_candidates(lambda rows: distributed.gather_rows(rows, sizes), rule)
