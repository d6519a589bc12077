"""Three layouts of a batch, each turned into anchors, positives, candidates and a rule.

Embeddings arrive checked for dtype and emptiness, in one precision, and scaled; what is checked
here is how they fit together. Where the candidates of all ranks are to be gathered, a layout first
describes this rank's rows alone, with ``gather=True`` for what cannot be checked alone, and
:func:`across_ranks` then puts the candidates of all ranks in place of this rank's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from bayescl import distributed
from bayescl._axes import Bool, Float, Int, Tensor
from bayescl._checks import check_mask, check_shape
from bayescl.engines.batch import CandidateRule, ContrastiveBatch

_NO_GROUP = torch.iinfo(torch.int64).min
"""The group of rows that belong to none."""


def two_views(
    view_1: Float[Tensor, "batch dim"],
    view_2: Float[Tensor, "batch dim"],
    *,
    groups: Int[Tensor, "batch"] | None = None,
    valid: Bool[Tensor, "rows columns"] | None = None,
    gather: bool = False,
    scale: Callable[[Tensor], Tensor] = lambda rows: rows,
) -> ContrastiveBatch:
    """Every row of either view is an anchor, its other view the positive.

    ``scale`` is applied to the rows of both views at once.
    """
    check_shape("view_2", view_2, view_1.shape)
    batch = view_1.shape[0]
    if batch < 2 and not gather:
        raise ValueError("view_1 must hold at least 2 rows, got 1: a lone item has no candidates")
    check_groups("groups", groups, (batch,))
    check_valid(valid, (2 * batch, 2 * batch), gather)
    rows = scale(torch.cat([view_1, view_2]))
    own = torch.arange(2 * batch, device=rows.device)
    both = None if groups is None else groups.repeat(2)
    rule = CandidateRule(own, own.roll(batch), both, both, valid)
    return ContrastiveBatch(rows, rows.roll(batch, 0), rows, rule)


def pairs(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "batch dim"],
    *,
    extra: Float[Tensor, "extra dim"] | None = None,
    groups: Int[Tensor, "batch"] | None = None,
    extra_groups: Int[Tensor, "extra"] | None = None,
    valid: Bool[Tensor, "batch columns"] | None = None,
    gather: bool = False,
) -> ContrastiveBatch:
    """The other pairs' positives are the candidates, and ``extra`` besides."""
    check_shape("positives", positives, anchors.shape)
    batch = anchors.shape[0]
    if batch < 2 and extra is None and not gather:
        raise ValueError("anchors must hold at least 2 rows, got 1: a lone pair has no candidates")
    check_groups("groups", groups, (batch,))
    columns, column_groups = positives, groups
    if extra is not None:
        check_shape("extra", extra, ("extra", anchors.shape[1]))
        columns = torch.cat([positives, extra])
    if extra_groups is not None and (groups is None or extra is None):
        raise ValueError("extra_groups says nothing without groups and extra beside it")
    if groups is not None and extra is not None:
        check_groups("extra_groups", extra_groups, (extra.shape[0],))
        if extra_groups is None:  # then they belong to no anchor's group, on this rank or another
            extra_groups = groups.new_full((extra.shape[0],), _NO_GROUP, dtype=torch.int64)
        column_groups = torch.cat([groups, extra_groups])
    check_valid(valid, (batch, columns.shape[0]), gather)
    own = torch.arange(batch, device=anchors.device)
    rule = CandidateRule(None, own, groups, column_groups, valid)
    return ContrastiveBatch(anchors, positives, columns, rule)


def drawn(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "batch dim"],
    candidates: Float[Tensor, "*own candidates dim"],
    *,
    groups: Int[Tensor, "batch"] | None = None,
    candidate_groups: Int[Tensor, "*own candidates"] | None = None,
    valid: Bool[Tensor, "batch candidates"] | None = None,
    gather: bool = False,
) -> ContrastiveBatch:
    """The candidates were drawn: for all anchors together, or for each its own."""
    check_shape("positives", positives, anchors.shape)
    batch, dim = anchors.shape
    own = () if candidates.ndim == 2 else (batch,)
    check_shape("candidates", candidates, (*own, "candidates", dim))
    check_groups("groups", groups, (batch,))
    check_groups("candidate_groups", candidate_groups, candidates.shape[:-1])
    if (groups is None) != (candidate_groups is None):
        raise ValueError("groups and candidate_groups must be given together")
    check_valid(valid, (batch, candidates.shape[-2]), gather and candidates.ndim == 2)
    rule = CandidateRule(None, None, groups, candidate_groups, valid)
    return ContrastiveBatch(anchors, positives, candidates, rule)


def turned_mask(
    valid: Bool[Tensor, "batch columns"] | None, batch: int, gather: bool
) -> Bool[Tensor, "batch batch"] | None:
    """Turn a mask of pairs around, for positives as anchors; ``extra`` does not take part."""
    if valid is None:
        return None
    if gather:
        raise ValueError(
            "valid must be None where both_directions and gather are set: this rank's mask does "
            "not say which anchors of other ranks its positives may be scored against; mark "
            "pairs with groups instead"
        )
    return valid[:, :batch].T


def across_ranks(
    call: str, batches: Sequence[ContrastiveBatch]
) -> tuple[list[ContrastiveBatch], float]:
    """Put the candidates of all ranks in place of this rank's, in batches of one call.

    Columns are in the order of ranks. Where every anchor has its own candidates they stay.

    Args:
        call: what was called, so that ranks which call different layouts find out.
        batches: this rank's part, as the layouts above describe it.

    Returns:
        This rank's anchors against the candidates of all ranks, and its
        :func:`share of the mean <mean_share>`.

    Raises:
        ValueError: on every rank alike, if the parts do not fit together.
    """
    own = batches[0].candidates.ndim == 3
    anchors = sum(batch.num_anchors for batch in batches)
    if own:
        return list(batches), mean_share(f"{call} with own candidates", anchors)
    notes = distributed.exchange(
        {"call": call, "anchors": anchors, "batches": [_note(batch) for batch in batches]}
    )
    share = _share(notes)
    distributed.agreed("the number of directions", [len(note["batches"]) for note in notes])
    # All that ranks may disagree about is checked before the first rows are sent.
    agreed = [_agreed_sizes(notes, which) for which in range(len(batches))]
    spread = [_with_all_candidates(*pair) for pair in zip(batches, agreed, strict=True)]
    return spread, share


def mean_share(call: str, anchors: int) -> float:
    """The factor that makes the average over ranks of their means the mean over all anchors.

    Distributed training averages gradients over ranks with equal weight, however many anchors a
    rank holds. A rank with twice the average number of anchors has the factor 2.

    Args:
        call: what was called.
        anchors: number of this rank's anchors.
    """
    return _share(distributed.exchange({"call": call, "anchors": anchors}))


def _share(notes: Sequence[dict[str, Any]]) -> float:
    """This rank's share of the anchors, times the number of ranks."""
    distributed.agreed("the layout", [note["call"] for note in notes])
    anchors = [int(note["anchors"]) for note in notes]
    return len(anchors) * anchors[distributed.rank()] / sum(anchors)


def _note(batch: ContrastiveBatch) -> dict[str, Any]:
    """What the other ranks must know of this rank's part."""
    valid = batch.rule.valid
    return {
        **distributed.describe(batch.candidates),
        "anchors": batch.num_anchors,
        "groups": batch.rule.candidate_groups is not None,
        "valid": None if valid is None else list(valid.shape),
    }


def _agreed_sizes(notes: Sequence[dict[str, Any]], which: int) -> list[int]:
    """The number of candidates on each rank, after all ranks have read the same notes."""
    parts = [note["batches"][which] for note in notes]
    sizes = distributed.agreed_sizes(parts)
    distributed.agreed("whether groups are given", [part["groups"] for part in parts])
    for rank, part in enumerate(parts):
        wanted = [part["anchors"], sum(sizes)]
        if part["valid"] not in (None, wanted):
            raise ValueError(
                f"valid must have shape {wanted} on rank {rank} (its anchors, the candidates of "
                f"all ranks in their order), got {part['valid']}"
            )
    return sizes


def _with_all_candidates(batch: ContrastiveBatch, sizes: Sequence[int]) -> ContrastiveBatch:
    """Gather candidates and their groups; this rank's columns move behind those of lower ranks."""
    rule, start = batch.rule, sum(sizes[: distributed.rank()])
    groups = rule.candidate_groups
    if groups is not None:
        groups = distributed.gather_rows(groups.to(torch.int64), sizes)
    rule = replace(
        rule,
        own=None if rule.own is None else rule.own + start,
        positive=None if rule.positive is None else rule.positive + start,
        candidate_groups=groups,
    )
    return replace(batch, candidates=distributed.gather_rows(batch.candidates, sizes), rule=rule)


def check_valid(valid: Tensor | None, shape: tuple[int, int], gather: bool) -> None:
    """Refuse a mask of another shape; how many columns all ranks have is not known here."""
    if valid is not None:
        check_mask("valid", valid, (shape[0], "candidates of all ranks") if gather else shape)


def check_groups(name: str, groups: Tensor | None, shape: tuple[int, ...]) -> None:
    """Refuse groups that are no integers or have another shape."""
    if groups is None:
        return
    if not isinstance(groups, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(groups).__name__}")
    if groups.is_floating_point() or groups.is_complex():
        raise ValueError(f"{name} must hold integers, got {groups.dtype}")
    check_shape(name, groups, shape)
