"""Target probabilities of some anchors of a batch, from teacher embeddings and labels."""

from __future__ import annotations

import math

import torch

from bayescl._ops.similarity import candidate_logits
from bayescl._ops.target import LOWEST, shared_probability
from bayescl._types import Float, Tensor
from bayescl.batch import Batch, Excluded, TargetRule
from bayescl.rows import Rows, class_similarity


@torch.no_grad()
def target_rows(
    batch: Batch, rule: Tensor | TargetRule, rows: slice, excluded: Excluded, sign: float = 1.0
) -> Float[Tensor, "rows candidates"]:
    """Return the target probabilities of some anchors' candidates, times ``sign``.

    They are given, dense or sparse, or computed by a rule: a candidate with the anchor's label
    counts as identical to it (similarity 1). The probability is 0 for a candidate with another
    known label, for an excluded candidate, and for a candidate without teacher and label.
    """
    if isinstance(rule, Tensor):
        target = rule.narrow_copy(0, rows.start, rows.stop - rows.start)
        target = target.to_dense() if target.is_sparse else target
        excluded.fill_(target, 0.0)
        return target if sign == 1 else target.mul_(sign)
    temperature, share = rule.temperature, rule.positive_share
    if isinstance(temperature, Tensor):
        temperature = temperature.detach()
    same = 1 / temperature  # logit of a candidate that is identical to the anchor
    anchors, columns, left = batch.anchors, batch.columns, sign * (1 - (share or 0))
    count = len(anchors.embeddings)
    is_whole = rows.stop - rows.start == count
    is_square = columns[0] is anchors  # False with the columns of several processes
    if batch.layout == "two_views" and is_square and is_whole and batch.valid is None:
        # Both views of an item have the same target, which takes a quarter of the time.
        items = slice(0, count // 2)
        labels = None if anchors.labels is None else anchors.labels[items]
        teacher = None if anchors.teacher is None else anchors.teacher[items]
        mine = Rows(anchors.embeddings[items], labels=labels, teacher=teacher)
        logits = _target_logits(mine, mine, temperature, same)
        if excluded.mask is not None:
            logits.masked_fill_(excluded.mask[items, items], -torch.inf)
        # An item itself is not a candidate, so its entry is free for the positive.
        logits.diagonal().fill_(same - math.log(2) if share is None else LOWEST)
        target = logits.softmax(dim=1).fill_diagonal_(0.0)
        whole = target.new_empty(2, len(target), 2, len(target))
        torch.mul(target[:, None].expand_as(whole), left / 2, out=whole)
        return whole.view(count, count)
    tiles, mine = [], anchors[rows]
    for block in columns:
        theirs = block[rows] if block.are_own else block
        tiles.append(_target_logits(mine, theirs, temperature, same))
    logits = tiles[0] if len(tiles) == 1 else torch.cat(tiles, dim=1)
    excluded.fill_(logits, -torch.inf)
    return shared_probability(logits, share, same) * sign


def _target_logits(
    mine: Rows, theirs: Rows, temperature: float | Tensor, same: float | Tensor
) -> Float[Tensor, "rows candidates"]:
    """Compute logits of candidates by teacher and labels; -inf without either.

    A pair of known labels overrides the teacher.
    """
    if mine.teacher is None or theirs.teacher is None:
        shape = len(mine), len(theirs)
        logits = mine.embeddings.new_full(shape, -torch.inf)
    else:
        presence = _log_presence(mine.teacher)
        others = presence if theirs is mine else _log_presence(theirs.teacher)
        if theirs.are_own or isinstance(temperature, Tensor):
            logits = candidate_logits(mine.teacher, theirs.teacher, temperature) + others
        else:
            logits = torch.addmm(others, mine.teacher, theirs.teacher.T, alpha=1 / temperature)
        logits += presence[:, None]
    if mine.labels is not None and theirs.labels is not None:
        others = theirs.labels if theirs.are_own else theirs.labels[None]
        likeness = class_similarity(mine.labels, others)
        logits.masked_fill_(likeness == 0, -torch.inf)
        logits = torch.where(likeness > 0, likeness.to(logits.dtype) * same, logits)
    return logits


def _log_presence(teacher: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows"]:
    """Return 0 for rows of length 1; -inf for rows without a teacher, where squares underflow."""
    return torch.einsum("...d,...d->...", teacher, teacher).log()
