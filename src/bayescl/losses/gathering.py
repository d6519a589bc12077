"""Agreement between the processes of one call, and the candidates of all of them.

A :class:`Gathering` is made once per call. If nothing is gathered it does nothing, so a loss uses
it whether it runs alone or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import torch

from bayescl import distributed
from bayescl.axes import Tensor
from bayescl.engines import ContrastiveBatch, Labels, SpreadBatch


@dataclass(frozen=True)
class Gathering:
    """One call of a loss, on one process or on all of the default process group.

    Attributes:
        call: name of the layout, so that processes that call different layouts raise.
        active: whether there are other processes to gather from.
        candidates: whether candidates are gathered too; otherwise all processes hold the same ones.
        in_rounds: whether an engine fetches them, one process's at a time.
    """

    call: str
    active: bool
    candidates: bool = True
    in_rounds: bool = False

    @classmethod
    def of(cls, call: str, gather: bool, *, candidates: bool = True) -> Gathering:
        """Return the gathering of a call; a group of one process has nothing to gather.

        Raises:
            RuntimeError: if there is no process group to gather from.
        """
        return cls(call, gather and distributed.world_size() > 1, candidates)

    def refusals(self) -> AbstractContextManager[None]:
        """Make every process raise if one raises while it checks its own input."""
        return distributed.shared_refusals(self.active)

    def go_on(self) -> None:
        """Raise if another process has refused its input."""
        if self.active:
            distributed.exchange({"call": self.call})

    def rows_of_all(self, *parts: Tensor, calls: int) -> list[Tensor]:
        """Replace this process's rows with those of all processes, by rank. Without gradient.

        Args:
            *parts: tensors of equally many rows.
            calls: number of earlier calls, on which the processes must agree.

        Raises:
            ValueError: on every process, if rows or numbers of calls do not match.
        """
        if not self.active:
            return list(parts)
        rows = [part.detach() for part in parts]
        notes = distributed.exchange(
            {
                "call": self.call,
                "calls": calls,
                "parts": [distributed.describe(part) for part in rows],
            }
        )
        _agree_on_call(notes)
        distributed.agreed("the number of calls remembered", [note["calls"] for note in notes])
        distributed.agreed("the number of tensors", [len(note["parts"]) for note in notes])
        sizes = [
            distributed.agreed_sizes([note["parts"][which] for note in notes])
            for which in range(len(rows))
        ]
        return [distributed.gather_rows(*pair) for pair in zip(rows, sizes, strict=True)]

    def candidates_of_all(
        self, batches: Sequence[ContrastiveBatch]
    ) -> tuple[list[ContrastiveBatch], float]:
        """Replace this process's candidates with those of all processes.

        Columns are in the order of processes. An anchor's own candidates stay as they are, and so
        do candidates that are the same in all processes.

        Args:
            batches: this process's part of the call, as described by the layouts.

        Returns:
            This process's anchors against the candidates of all, and its
            :meth:`share of the mean <mean_share>`.

        Raises:
            ValueError: on every process, if the parts do not match.
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
        agreed = [_agreed_sizes(notes, which) for which in range(len(batches))]
        labelled = any(part["labels"] for note in notes for part in note["batches"])
        gathered: list[ContrastiveBatch] = []
        for batch, sizes in zip(batches, agreed, strict=True):
            batch = _with_labels(batch) if labelled else batch
            if self.in_rounds:
                gathered.append(SpreadBatch(**vars(batch), sizes=tuple(sizes)))
            else:
                gathered.append(_with_all_candidates(batch, sizes))
        return gathered, share

    def mean_share(self, anchors: int) -> float:
        """The factor that turns the average of the processes' means into the mean of all anchors.

        Distributed training averages gradients over processes with equal weight, however many
        anchors each holds. A process with twice the average number of anchors has a factor of 2.

        Args:
            anchors: number of anchors on this process.
        """
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
        "groups": batch.rule.num_keys > 0,
        "keys": batch.rule.num_keys,
        "valid": None if valid is None else list(valid.shape),
        "components": None if known is None else known.anchors.shape[1],
        "labels": batch.labels is not None,
    }


def _agreed_sizes(notes: Sequence[dict[str, Any]], which: int) -> list[int]:
    """The number of candidates on each process, after all have read the same notes."""
    parts = [note["batches"][which] for note in notes]
    sizes = distributed.agreed_sizes(parts)
    distributed.agreed("whether groups are given", [part["groups"] for part in parts])
    distributed.agreed("the number of groups per row", [part["keys"] for part in parts])
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
    groups = rule.candidate_groups
    if groups is not None:
        groups = distributed.gather_rows(groups.long(), sizes)
    rule = replace(
        rule,
        own=None if rule.own is None else rule.own + start,
        positive=None if rule.positive is None else rule.positive + start,
        candidate_groups=groups,
    )
    known = batch.same_class
    if known is not None:
        known = replace(known, candidates=distributed.gather_rows(known.candidates, sizes))
    labels = batch.labels
    if labels is not None:
        labels = replace(labels, candidates=distributed.gather_rows(labels.candidates, sizes))
    candidates = distributed.gather_rows(batch.candidates, sizes)
    return replace(batch, candidates=candidates, rule=rule, same_class=known, labels=labels)


def _with_labels(batch: ContrastiveBatch) -> ContrastiveBatch:
    """The same batch; if this process knows no labels, but another does, all are unknown here."""
    if batch.labels is not None:
        return batch
    rows, columns = (
        torch.full(some.shape[:-1], -1, device=some.device)
        for some in (batch.anchors, batch.candidates)
    )
    return replace(batch, labels=Labels(rows, columns))
