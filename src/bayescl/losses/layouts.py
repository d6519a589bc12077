"""Three layouts of a batch, each turned into anchors, positives, candidates and a rule.

Embeddings arrive checked for dtype and emptiness, in one precision, and scaled; what is checked
here is how they fit together.
"""

from __future__ import annotations

import torch

from bayescl._axes import Bool, Float, Int, Tensor
from bayescl._checks import check_mask, check_shape
from bayescl.functional.candidates import CandidateRule, ContrastiveBatch


def two_views(
    view_1: Float[Tensor, "batch dim"],
    view_2: Float[Tensor, "batch dim"],
    *,
    groups: Int[Tensor, "batch"] | None = None,
    valid: Bool[Tensor, "rows rows"] | None = None,
) -> ContrastiveBatch:
    """Every row of either view is an anchor, its other view the positive."""
    check_shape("view_2", view_2, view_1.shape)
    batch = view_1.shape[0]
    if batch < 2:
        raise ValueError("view_1 must hold at least 2 rows, got 1: a lone item has no candidates")
    check_groups("groups", groups, (batch,))
    if valid is not None:
        check_mask("valid", valid, (2 * batch, 2 * batch))
    rows = torch.cat([view_1, view_2])
    own = torch.arange(2 * batch, device=rows.device)
    both = None if groups is None else groups.repeat(2)
    rule = CandidateRule(own, own.roll(batch), both, both, valid)
    return ContrastiveBatch(rows, torch.cat([view_2, view_1]), rows, rule)


def pairs(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "batch dim"],
    *,
    extra: Float[Tensor, "extra dim"] | None = None,
    groups: Int[Tensor, "batch"] | None = None,
    extra_groups: Int[Tensor, "extra"] | None = None,
    valid: Bool[Tensor, "batch columns"] | None = None,
) -> ContrastiveBatch:
    """The other pairs' positives are the candidates, and ``extra`` besides."""
    check_shape("positives", positives, anchors.shape)
    batch = anchors.shape[0]
    if batch < 2 and extra is None:
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
        if extra_groups is None:  # then they belong to no anchor's group
            extra_groups = (groups.min() - 1).expand(extra.shape[0])
        column_groups = torch.cat([groups, extra_groups])
    if valid is not None:
        check_mask("valid", valid, (batch, columns.shape[0]))
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
    if valid is not None:
        check_mask("valid", valid, (batch, candidates.shape[-2]))
    rule = CandidateRule(None, None, groups, candidate_groups, valid)
    return ContrastiveBatch(anchors, positives, candidates, rule)


def check_groups(name: str, groups: Tensor | None, shape: tuple[int, ...]) -> None:
    """Refuse groups that are no integers or have another shape."""
    if groups is None:
        return
    if not isinstance(groups, Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(groups).__name__}")
    if groups.is_floating_point() or groups.is_complex():
        raise ValueError(f"{name} must hold integers, got {groups.dtype}")
    check_shape(name, groups, shape)
