"""Target probabilities of some anchors of a batch, from teacher embeddings and labels."""

from __future__ import annotations

import torch

from bayescl.axes import Float, Tensor
from bayescl.batch import UNKNOWN, Batch, Excluded, Rows, TargetRule
from bayescl.ops.target import shared_probability


@torch.no_grad()
def target_rows(
    batch: Batch, rule: TargetRule, rows: slice, excluded: Excluded
) -> Float[Tensor, "rows candidates"]:
    """Compute the target probabilities of some anchors' candidates.

    A candidate with the anchor's label counts as identical to it (similarity 1). The probability is
    0 for a candidate with another known label, for an excluded candidate, and for a candidate
    without teacher and label.
    """
    temperature = rule.temperature
    if isinstance(temperature, Tensor):
        temperature = temperature.detach()
    same = 1 / temperature  # logit of a candidate that is identical to the anchor
    items = _items_of_views(batch, rows)
    if items is not None:
        excluded = _without_itself(batch, excluded, items)
    columns = batch.columns if items is None else (batch.anchors[items],)
    mine = rows if items is None else items
    tiles = [_teacher_logits(batch, block, mine, temperature) for block in columns]
    if batch.anchors.labels is not None:
        for block, tile in zip(columns, tiles, strict=True):
            _settle_by_labels(batch.anchors.labels[mine], block, tile, mine, same)
    logits = tiles[0] if len(tiles) == 1 else torch.cat(tiles, dim=1)
    excluded.fill_(logits, -torch.inf)
    if items is None:
        return shared_probability(logits, rule.positive_share, same)
    target = shared_probability(logits, rule.positive_share, same, copies=2)
    return target.repeat(2, 2)


def _items_of_views(batch: Batch, rows: slice) -> slice | None:
    """Return the rows of the first view if the target is the same for both views of an item.

    This takes a quarter of the time. Both views have the same target if there is no ``valid``.
    """
    is_whole = rows.stop - rows.start == batch.num_anchors
    if batch.layout == "two_views" and batch.is_square and is_whole and batch.valid is None:
        return slice(0, batch.num_anchors // 2)
    return None


def _without_itself(batch: Batch, excluded: Excluded, items: slice) -> Excluded:
    """Return the items that are not candidates of an item, itself included."""
    if excluded.mask is not None:
        return Excluded(mask=excluded.mask[items, items])
    assert batch.own is not None
    return Excluded(columns=batch.own[items, None])


def _teacher_logits(
    batch: Batch, block: Rows, rows: slice, temperature: float | Tensor
) -> Float[Tensor, "rows candidates"]:
    """Compute the teacher's logits of a block's candidates; -inf without a teacher."""
    mine, theirs = batch.anchors.teacher, block.teacher
    if mine is None or theirs is None:
        shape, embeddings = (rows.stop - rows.start, len(block)), batch.anchors.embeddings
        dtype = torch.promote_types(embeddings.dtype, torch.float32)
        return embeddings.new_full(shape, -torch.inf, dtype=dtype)
    scaled = mine[rows] / temperature
    if block.are_own:
        return torch.einsum("ad,and->an", scaled, theirs[rows])
    return scaled @ theirs.T


def _settle_by_labels(
    mine: Tensor, block: Rows, logits: Tensor, rows: slice, same: float | Tensor
) -> None:
    """Overwrite the logits of pairs with two known labels, in place."""
    if block.labels is None:
        return
    theirs = block.labels[rows] if block.are_own else block.labels[None]
    mine = mine[:, None]
    is_known = (mine != UNKNOWN) & (theirs != UNKNOWN)
    logits.masked_fill_(is_known & (mine != theirs), -torch.inf)
    logits.masked_fill_(is_known & (mine == theirs), same)
