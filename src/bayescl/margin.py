"""Margins: candidates that score like the positive are excluded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch.linalg import vecdot

from bayescl._checks import check_finite_number, check_positive, is_eager_cpu
from bayescl._types import Float, Tensor
from bayescl.batch import Batch
from bayescl.rows import Rows


@dataclass(frozen=True)
class Margin:
    r"""Rule that excludes candidates that score like the positive, or higher.

    With the similarity :math:`s^+` of an anchor's positive, a candidate is excluded if its own
    similarity is above :math:`s^+ + m`, or above :math:`s^+ - |s^+|\,(1 - r)`. Such candidates are
    often false negatives. Similarities are taken before the temperature and ``log_q``. If an anchor
    has several positives, the highest one counts.

    Args:
        absolute: Offset :math:`m`, any number. Negative values exclude more candidates.
        relative: Ratio :math:`r`, positive. With 0.95, candidates that score above 95 % of the
            positive are excluded.
        extra: Whether ``extra`` candidates, such as curated hard negatives, can be excluded.
            Default: False.
        by_teacher: Whether to compare similarities of the teacher's embeddings instead of the
            model's own. Candidates without a teacher are then kept. If both sides of a pair have
            the same teacher embedding, the positive's similarity is 1: use a negative ``absolute``
            or a ``relative`` below 1. Default: False.

    Raises:
        ValueError: if both or none of ``absolute`` and ``relative`` are given.

    Example:
        >>> Margin(relative=0.95).limit(torch.tensor([0.8, -0.8]))
        tensor([ 0.7600, -0.8400])

    Reference:
        de Souza P. Moreira et al., "NV-Retriever: Improving Text Embedding Models with Effective
        Hard-Negative Mining", 2024, for relative and absolute margins; Solatorio, "GISTEmbed",
        2024, for the comparison by another model.
    """

    absolute: float | None = None
    relative: float | None = None
    extra: bool = False
    by_teacher: bool = False

    def __post_init__(self) -> None:
        if (self.absolute is None) == (self.relative is None):
            raise ValueError("Margin needs either absolute or relative, not both")
        if self.absolute is not None:
            check_finite_number("absolute", self.absolute)
        if self.relative is not None:
            check_positive("relative", self.relative)

    def limit(self, positive: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """Return the largest similarity at which a candidate counts."""
        if self.absolute is not None:
            return positive + self.absolute
        assert self.relative is not None
        return positive - positive.abs() * (1 - self.relative)


def check_margin(margin: Margin, batches: Sequence[Batch]) -> None:
    """Check the type of ``margin``, and with ``by_teacher`` that it can exclude candidates."""
    if not isinstance(margin, Margin):
        raise TypeError(f"margin must be a Margin, got {type(margin).__name__}")
    if not margin.by_teacher:
        return
    for batch in batches:
        anchors, positives = batch.pair_anchors.teacher, batch.pair_positives.teacher
        if anchors is None or positives is None:
            raise ValueError("Margin(by_teacher=True) needs a teacher for anchors and positives")
        similarity = vecdot(anchors, positives)
        limit = margin.limit(similarity.new_ones(()))
        if is_eager_cpu(limit) and float(limit) >= 1 and bool((similarity > 1 - 1e-5).all()):
            raise ValueError(
                f"{margin} excludes nothing: anchors and positives have the same teacher "
                "embeddings, so the similarity of each positive is 1. Pass absolute below 0, "
                "relative below 1, or a teacher for each side: Rows(..., teacher=...)"
            )


@torch.no_grad()
def within_margin(batch: Batch, margin: Margin) -> Batch:
    """Exclude candidates that score like the positive, or higher.

    With ``by_teacher``, rows without a teacher exclude nothing and are not excluded.
    """

    def compared(rows: Rows) -> Tensor | None:
        return rows.teacher if margin.by_teacher else rows.embeddings

    anchors, positives = compared(batch.anchors), compared(batch.pair_positives)
    assert anchors is not None  # ensured by check_margin
    assert positives is not None
    anchor_of = batch.anchor_of
    pair_anchors = anchors if anchor_of is None else anchors[anchor_of]
    positive = vecdot(pair_anchors, positives)
    if margin.by_teacher:
        # The teacher's rows have length 1, or 0 for items without one.
        is_absent = (vecdot(pair_anchors, pair_anchors) < 0.5) | (
            vecdot(positives, positives) < 0.5
        )
        positive = positive.masked_fill(is_absent, -torch.inf)
    if anchor_of is not None:
        lowest = positive.new_full((len(anchors),), -torch.inf)
        positive = lowest.scatter_reduce(0, anchor_of, positive, "amax")
    limit, parts = margin.limit(positive)[:, None], []
    if margin.by_teacher:  # infinite without a known positive
        limit = limit.masked_fill(positive[:, None] == -torch.inf, torch.inf)
    for number, block in enumerate(batch.columns):
        columns = compared(block)
        is_exempt = batch.layout == "in_batch" and number > 0 and not margin.extra
        if is_exempt or columns is None:
            parts.append(torch.ones_like(limit, dtype=torch.bool).expand(-1, len(block)))
            continue
        if block.are_own:
            similarity = torch.einsum("ad,and->an", anchors, columns)
        else:
            similarity = anchors @ columns.T
        # The comparison keeps a NaN candidate, which makes the loss NaN.
        kept = ~(similarity > limit)
        parts.append(kept | (vecdot(columns, columns) < 0.5) if margin.by_teacher else kept)
    kept = torch.cat(parts, dim=1)
    return replace(batch, valid=kept if batch.valid is None else batch.valid & kept)
