"""A process's batch in each of three layouts: anchors, positives, candidates and their rule.

Embeddings arrive in one precision, scaled (two views excepted), and checked but for their shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_floating, check_mask, check_shape, check_tensor
from bayescl.engines import CandidateRule, ContrastiveBatch, Labels
from bayescl.functional.sorting import is_eager_cpu

_NO_GROUP = torch.iinfo(torch.int64).min  # of rows that belong to none


def check_log_q(name: str, log_q: Tensor, rows: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse log probabilities that are not floating-point, of this shape and beside the rows."""
    check_floating(name, log_q, rows.device)
    check_shape(name, log_q, shape)


def checked_log_q(
    positive_log_q: Tensor | None, log_q: Tensor | None, rows: Tensor, shape: tuple[int, ...]
) -> tuple[Tensor, Tensor] | None:
    """Check and return log probabilities of the rows' positives and of candidates; None if none."""
    if positive_log_q is None and log_q is None:
        return None
    if positive_log_q is None or log_q is None:
        raise ValueError("log_q and positive_log_q must be given together")
    check_log_q("log_q", log_q, rows, shape)
    check_log_q("positive_log_q", positive_log_q, rows, rows.shape[:1])
    return positive_log_q.detach(), log_q.detach()


def corrected(batch: ContrastiveBatch, temperature: float | Tensor) -> ContrastiveBatch:
    """The batch with one more coordinate, through which each logit loses its row's ``log_q``."""
    if batch.log_q is None:
        return batch
    # (a . c + t * -log_q) / t = s - log_q, in every engine, and with the right gradient for t.
    scale = torch.as_tensor(temperature, device=batch.anchors.device)
    return with_coordinate(batch, scale, *(-log_q for log_q in batch.log_q))


def with_coordinate(
    batch: ContrastiveBatch, anchors: Tensor, positives: Tensor, candidates: Tensor
) -> ContrastiveBatch:
    """The batch with one more coordinate: a number of each row, or one for all. Differentiated."""
    # In half precision a logarithm would have three digits.
    dtype = torch.promote_types(batch.anchors.dtype, torch.float32)

    def joined(rows: Tensor, numbers: Tensor) -> Tensor:
        return torch.cat([rows, numbers.to(dtype).expand(rows.shape[:-1])[..., None]], dim=-1)

    return replace(
        batch,
        anchors=joined(batch.anchors, anchors),
        positives=joined(batch.positives, positives),
        candidates=joined(batch.candidates, candidates),
        log_q=None,
    )


def two_views(
    view_1: Float[Tensor, "batch dim"],
    view_2: Float[Tensor, "batch dim"],
    *,
    groups: Int[Tensor, " batch *keys"] | None = None,
    labels: Int[Tensor, " batch"] | None = None,
    valid: Bool[Tensor, "rows columns"] | None = None,
    gather: bool = False,
    scale: Callable[[Tensor], Tensor] = lambda rows: rows,
) -> ContrastiveBatch:
    """Every row of both views, scaled at once, is an anchor; its other view is the positive."""
    check_shape("view_2", view_2, view_1.shape)
    batch = view_1.shape[0]
    if batch < 2 and not gather:
        raise ValueError("view_1 must hold at least 2 rows, got 1: a single item has no candidates")
    check_groups("groups", groups, (batch,), view_1.device, keys=True)
    check_labels("labels", labels, (batch,), view_1.device)
    check_valid(valid, (2 * batch, 2 * batch), view_1.device, gather)
    rows = scale(torch.cat([view_1, view_2]))
    if groups is None and valid is None and is_eager_cpu(rows):
        rule = _rule_of_two_views(batch)
    else:
        own = torch.arange(2 * batch, device=rows.device)
        both = None if groups is None else torch.cat([groups, groups])
        rule = CandidateRule(own, own.roll(batch), both, both, valid)
    known = None if labels is None else torch.cat([labels, labels])
    labels_of_rows = None if known is None else _some_known(known, known)
    return ContrastiveBatch(rows, rows.roll(batch, 0), rows, rule, labels=labels_of_rows)


@lru_cache(maxsize=8)
def _rule_of_two_views(batch: int) -> CandidateRule:
    """The rule of two views on the CPU without groups or a mask; the same for every step."""
    with torch.inference_mode(mode=False):  # else autograd could not keep the indices
        own = torch.arange(2 * batch)
        rule = CandidateRule(own, own.roll(batch))
        rule.excluded(slice(0, 2 * batch))  # which the rule remembers
    return rule


def pairs(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "batch dim"],
    *,
    extra: Float[Tensor, "extra dim"] | None = None,
    groups: Int[Tensor, " batch *keys"] | None = None,
    extra_groups: Int[Tensor, " extra *keys"] | None = None,
    labels: Int[Tensor, " batch"] | None = None,
    extra_labels: Int[Tensor, " extra"] | None = None,
    valid: Bool[Tensor, "batch columns"] | None = None,
    log_q: Float[Tensor, " columns"] | None = None,
    gather: bool = False,
) -> ContrastiveBatch:
    """The candidates are the other pairs' positives and ``extra``."""
    check_shape("positives", positives, anchors.shape)
    batch = anchors.shape[0]
    if batch < 2 and extra is None and not gather:
        raise ValueError(
            "anchors must hold at least 2 rows, got 1: a single pair has no candidates"
        )
    check_groups("groups", groups, (batch,), anchors.device, keys=True)
    columns, column_groups = positives, groups
    if extra_groups is not None and (groups is None or extra is None):
        raise ValueError("extra_groups needs both groups and extra")
    if extra is not None:
        check_shape("extra", extra, ("extra", anchors.shape[1]))
        columns = torch.cat([positives, extra])
        if groups is not None:
            shape = (extra.shape[0], *groups.shape[1:])
            check_groups("extra_groups", extra_groups, shape, extra.device)
            if extra_groups is None:  # of no anchor's group, on this process or another
                extra_groups = groups.new_full(shape, _NO_GROUP, dtype=torch.int64)
            column_groups = torch.cat([groups, extra_groups])
    check_valid(valid, (batch, columns.shape[0]), anchors.device, gather)
    own = torch.arange(batch, device=anchors.device)
    rule = CandidateRule(None, own, groups, column_groups, valid)
    shape = (columns.shape[0] - batch,)
    known = _labels_of(anchors, labels, "extra_labels", extra_labels, shape)
    if known is not None:  # candidates are the positives, then extra
        known = replace(known, candidates=torch.cat([known.anchors, known.candidates]))
    of_positives = log_q[:batch] if isinstance(log_q, Tensor) and log_q.ndim else log_q
    log_qs = checked_log_q(of_positives, log_q, anchors, columns.shape[:1])
    return ContrastiveBatch(anchors, positives, columns, rule, labels=known, log_q=log_qs)


def drawn(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "batch dim"],
    candidates: Float[Tensor, "*own candidates dim"],
    *,
    groups: Int[Tensor, " batch *keys"] | None = None,
    candidate_groups: Int[Tensor, "*own_candidates_keys"] | None = None,
    labels: Int[Tensor, " batch"] | None = None,
    candidate_labels: Int[Tensor, "*own candidates"] | None = None,
    valid: Bool[Tensor, "batch candidates"] | None = None,
    log_q: Float[Tensor, "*own candidates"] | None = None,
    positive_log_q: Float[Tensor, " batch"] | None = None,
    gather: bool = False,
    gather_candidates: bool = True,
) -> ContrastiveBatch:
    """The candidates were drawn, for all anchors together or for each its own."""
    check_shape("positives", positives, anchors.shape)
    batch, dim = anchors.shape
    own = () if candidates.ndim == 2 else (batch,)
    check_shape("candidates", candidates, (*own, "candidates", dim))
    check_groups("groups", groups, (batch,), anchors.device, keys=True)
    if (groups is None) != (candidate_groups is None):
        raise ValueError("groups and candidate_groups must be given together")
    keys = () if groups is None else groups.shape[1:]
    shape = (*candidates.shape[:-1], *keys)
    check_groups("candidate_groups", candidate_groups, shape, candidates.device)
    shape = candidates.shape[:-1]
    known = _labels_of(anchors, labels, "candidate_labels", candidate_labels, shape)
    shape = (batch, candidates.shape[-2])
    spread = gather_candidates and candidates.ndim == 2
    check_valid(valid, shape, anchors.device, gather, spread=spread)
    rule = CandidateRule(None, None, groups, candidate_groups, valid)
    log_qs = checked_log_q(positive_log_q, log_q, anchors, candidates.shape[:-1])
    return ContrastiveBatch(anchors, positives, candidates, rule, labels=known, log_q=log_qs)


def _labels_of(
    anchors: Tensor, labels: Tensor | None, name: str, others: Tensor | None, shape: tuple[int, ...]
) -> Labels | None:
    """Labels of anchors and of candidates without a positive among them; -1 where not given."""
    check_labels("labels", labels, anchors.shape[:1], anchors.device)
    if labels is None:
        if others is not None:
            raise ValueError(f"{name} needs labels")
        return None
    check_labels(name, others, shape, anchors.device)
    return _some_known(labels, labels.new_full(shape, -1) if others is None else others)


def _some_known(anchors: Tensor, candidates: Tensor) -> Labels | None:
    """Labels, or None if surely none is known: the loss is then as without, bit for bit."""
    if is_eager_cpu(anchors) and not (bool((anchors >= 0).any()) or bool((candidates >= 0).any())):
        return None
    return Labels(anchors.long(), candidates.long())


def check_valid(
    valid: Tensor | None,
    shape: tuple[int, ...],
    device: torch.device,
    gather: bool,
    *,
    spread: bool = True,
) -> None:
    """Refuse a mask of the wrong shape; that of other processes' candidates is unknown here."""
    if valid is not None:
        columns = "candidates of all processes" if gather and spread else shape[1]
        check_mask("valid", valid, (shape[0], columns), device)
        if not gather and is_eager_cpu(valid) and not valid.numpy().any():
            raise ValueError("valid must leave at least one row a candidate, got False everywhere")


def check_groups(
    name: str,
    groups: Tensor | None,
    shape: tuple[int, ...],
    device: torch.device | None = None,
    *,
    keys: bool = False,
) -> None:
    """Refuse groups that are not integers or have another shape; keys are one more axis."""
    if groups is None:
        return
    check_tensor(name, groups, device)
    if groups.is_floating_point() or groups.is_complex():
        raise ValueError(f"{name} must hold integers, got {groups.dtype}")
    if keys and groups.ndim == len(shape) + 1 and groups.shape[-1] > 0:
        shape = (*shape, groups.shape[-1])
    check_shape(name, groups, shape)


def check_labels(
    name: str, labels: Tensor | None, shape: tuple[int, ...], device: torch.device
) -> None:
    """Refuse labels that are not integers from -1 up, or have another shape."""
    if labels is None:
        return
    check_groups(name, labels, shape, device)
    if is_eager_cpu(labels) and labels.numel() and int(labels.min()) < -1:
        raise ValueError(f"{name} must be at least -1, which means unknown, got {labels.min():d}")
