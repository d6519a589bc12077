"""Target probabilities of some anchors of a batch, from teacher embeddings and labels."""

from __future__ import annotations

import torch

from bayescl.axes import Float, Tensor
from bayescl.batch import UNKNOWN, Batch, Excluded, Rows
from bayescl.functional.target import shared_probability


@torch.no_grad()
def target_rows(
    batch: Batch, rows: slice, excluded: Excluded, dtype: torch.dtype
) -> Float[Tensor, "rows candidates"] | None:
    """Return the target probabilities of some anchors' candidates; ``None`` without a target.

    A candidate with the anchor's label counts as identical to it (similarity 1). A candidate with
    another known label, one that is excluded, and one without teacher or label get probability 0.
    """
    rule = batch.target
    if rule is None:
        return None
    temperature = rule.temperature
    if isinstance(temperature, Tensor):
        temperature = temperature.detach()
    same = 1 / temperature  # logit of a candidate that is identical to the anchor
    tiles = [_teacher_logits(batch, block, rows, temperature) for block in batch.columns]
    if batch.anchors.labels is not None:
        for block, tile in zip(batch.columns, tiles, strict=True):
            _settle_by_labels(batch.anchors.labels[rows], block, tile, rows, same)
    logits = tiles[0] if len(tiles) == 1 else torch.cat(tiles, dim=1)
    excluded.fill_(logits, -torch.inf)
    return shared_probability(logits, rule.positive_share, same).to(dtype)


def _teacher_logits(
    batch: Batch, block: Rows, rows: slice, temperature: float | Tensor
) -> Float[Tensor, "rows candidates"]:
    """Teacher's logits of a block's candidates; -inf without a teacher."""
    mine, theirs = batch.anchors.teacher, block.teacher
    if mine is None or theirs is None:
        shape = rows.stop - rows.start, len(block)
        embeddings = batch.anchors.embeddings
        return embeddings.new_full(
            shape, -torch.inf, dtype=torch.promote_types(embeddings.dtype, torch.float32)
        )
    if block.are_own:
        return torch.einsum("ad,and->an", mine[rows] / temperature, theirs[rows])
    items = len(mine) // 2
    if batch.is_square and batch.layout == "two_views" and rows.stop - rows.start == len(mine):
        # Both views have the same teacher: a quarter of the products is enough.
        return ((mine[:items] / temperature) @ mine[:items].T).repeat(2, 2)
    return (mine[rows] / temperature) @ theirs.T


def _settle_by_labels(
    mine: Tensor, block: Rows, logits: Tensor, rows: slice, same: float | Tensor
) -> None:
    """Overwrite the logits of pairs whose labels are both known, in place."""
    if block.labels is None:
        return
    theirs = block.labels[rows] if block.are_own else block.labels[None]
    mine = mine[:, None]
    is_known = (mine != UNKNOWN) & (theirs != UNKNOWN)
    logits.masked_fill_(is_known & (mine != theirs), -torch.inf)
    logits.masked_fill_(is_known & (mine == theirs), same)
