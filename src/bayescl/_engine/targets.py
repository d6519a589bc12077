"""Target probabilities of some anchors of a batch, from teacher embeddings and labels."""

from __future__ import annotations

import torch

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
        columns = (_first_view(batch.anchors, rows),)
        if excluded.mask is not None:
            excluded = Excluded(mask=excluded.mask[rows, rows])
        elif batch.own is not None:
            excluded = Excluded(columns=batch.own[rows, None])
    tiles = [_teacher_logits(batch, block, rows, temperature) for block in columns]
    if batch.anchors.labels is not None:
        for block, tile in zip(columns, tiles, strict=True):
            _settle_by_labels(batch.anchors.labels[rows], block, tile, rows, same)
    logits = tiles[0] if len(tiles) == 1 else torch.cat(tiles, dim=1)
    excluded.fill_(logits, -torch.inf)
    target = shared_probability(logits, rule.positive_share, same, copies)
    return target if copies == 1 else target.repeat(2, 2)


def _first_view(anchors: Rows, items: slice) -> Rows:
    """Return the rows of the first view with the metadata that a target depends on."""
    known = {"labels": anchors.labels, "teacher": anchors.teacher}
    parts = {name: part[items] for name, part in known.items() if part is not None}
    return Rows(anchors.embeddings[items], **parts)


def _teacher_logits(
    batch: Batch, block: Rows, rows: slice, temperature: float | Tensor
) -> Float[Tensor, "rows candidates"]:
    """Compute the teacher's logits of a block's candidates; -inf without a teacher.

    A row of zeros is the teacher's row of an item without one.
    """
    mine, theirs = batch.anchors.teacher, block.teacher
    if mine is None or theirs is None:
        shape = rows.stop - rows.start, len(block)
        return batch.anchors.embeddings.new_full(shape, -torch.inf)
    mine, theirs = mine[rows], theirs[rows] if block.are_own else theirs
    scaled = mine / temperature
    logits = torch.einsum("ad,and->an", scaled, theirs) if block.are_own else scaled @ theirs.T
    is_absent = ~mine.any(dim=-1), ~theirs.any(dim=-1)
    if not is_eager_cpu(logits) or any(bool(part.any()) for part in is_absent):
        logits = logits.masked_fill(is_absent[0][:, None] | is_absent[1], -torch.inf)
    return logits


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
