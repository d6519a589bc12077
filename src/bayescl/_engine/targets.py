"""Target probabilities of some anchors of a batch, from teacher embeddings and labels."""

from __future__ import annotations

import torch
from torch.linalg import vecdot

from bayescl._checks import is_eager_cpu
from bayescl._ops.target import shared_probability
from bayescl._types import Float, Tensor
from bayescl.batch import Batch, Excluded, TargetRule
from bayescl.rows import Rows, class_similarity


@torch.no_grad()
def target_rows(
    batch: Batch, rule: Tensor | TargetRule, rows: slice, excluded: Excluded
) -> Float[Tensor, "rows candidates"]:
    """Return the target probabilities of some anchors' candidates.

    They are given, dense or sparse, or computed by a rule: a candidate with the anchor's label
    counts as identical to it (similarity 1). The probability is 0 for a candidate with another
    known label, for an excluded candidate, and for a candidate without teacher and label.
    """
    if isinstance(rule, Tensor):
        target = rule.narrow_copy(0, rows.start, rows.stop - rows.start)
        target = target.to_dense() if target.is_sparse else target
        excluded.fill_(target, 0.0)
        return target
    temperature = rule.temperature
    if isinstance(temperature, Tensor):
        temperature = temperature.detach()
    same = 1 / temperature  # logit of a candidate that is identical to the anchor
    count, columns, copies = len(batch.anchors.embeddings), batch.columns, 1
    is_whole = rows.stop - rows.start == count
    is_square = columns[0] is batch.anchors  # False with the columns of several processes
    if batch.layout == "two_views" and is_square and is_whole and batch.valid is None:
        # Both views of an item have the same target, which takes a quarter of the time.
        rows, copies = slice(0, count // 2), 2
        labels, teacher = batch.anchors.labels, batch.anchors.teacher
        labels = None if labels is None else labels[rows]
        teacher = None if teacher is None else teacher[rows]
        columns = (Rows(batch.anchors.embeddings[rows], labels=labels, teacher=teacher),)
        if excluded.mask is not None:
            excluded = Excluded(mask=excluded.mask[rows, rows])
        elif batch.own is not None:
            excluded = Excluded(columns=batch.own[rows, None])
    tiles = []
    for block in columns:
        tiles.append(_teacher_logits(batch, block, rows, temperature))
        if batch.anchors.labels is not None:
            _settle_by_labels(batch.anchors.labels[rows], block, tiles[-1], rows, same)
    logits = tiles[0] if len(tiles) == 1 else torch.cat(tiles, dim=1)
    excluded.fill_(logits, -torch.inf)
    target = shared_probability(logits, rule.positive_share, same, copies)
    return target if copies == 1 else target.repeat(2, 2)


def _teacher_logits(
    batch: Batch, block: Rows, rows: slice, temperature: float | Tensor
) -> Float[Tensor, "rows candidates"]:
    """Compute the teacher's logits of a block's candidates; -inf without a teacher.

    The teacher's row has length 1, or 0 for an item without one.
    """
    mine, theirs = batch.anchors.teacher, block.teacher
    if mine is None or theirs is None:
        shape = rows.stop - rows.start, len(block)
        return batch.anchors.embeddings.new_full(shape, -torch.inf)
    are_own = theirs.ndim == 3
    mine, theirs = mine[rows], theirs[rows] if are_own else theirs
    scaled = mine / temperature
    logits = torch.einsum("ad,and->an", scaled, theirs) if are_own else scaled @ theirs.T
    absent = (vecdot(mine, mine) < 0.5)[:, None] | (vecdot(theirs, theirs) < 0.5)
    if is_eager_cpu(logits) and not absent.any():
        return logits
    return logits.masked_fill_(absent, -torch.inf)


def _settle_by_labels(
    mine: Tensor, block: Rows, logits: Tensor, rows: slice, same: float | Tensor
) -> None:
    """Overwrite the logits of pairs with two known labels, in place."""
    if block.labels is None:
        return
    theirs = block.labels[rows] if block.are_own else block.labels[None]
    likeness = class_similarity(mine, theirs)
    logits.masked_fill_(likeness == 0, -torch.inf)
    logits.copy_(torch.where(likeness > 0, likeness.to(logits.dtype) * same, logits))
