"""Masks by margin: candidates that score like the positive are left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from bayescl.axes import Float, Tensor
from bayescl.batch import Batch
from bayescl.checks import check_finite_number, check_floating, check_positive, check_shape
from bayescl.functional.similarity import unit_vectors

Guide = tuple[Tensor, ...]
"""Embeddings of another model, for anchors, for positives, and for drawn or extra candidates."""


@dataclass(frozen=True)
class Margin:
    r"""A rule that leaves out candidates that score like the positive, or higher.

    With the similarity :math:`s^+` of an anchor's positive, a candidate does not count if its own
    similarity is above :math:`s^+ + m`, or above :math:`s^+ - |s^+|\,(1 - r)`. Such candidates are
    often false negatives. Similarities are those before the temperature and ``log_q``. Of several
    positives of an anchor, the highest counts.

    Args:
        absolute: :math:`m`, any number; negative ones leave out more.
        relative: :math:`r`, positive; 0.95 leaves out what scores above 95 % of the positive.
        extra: whether ``extra`` candidates, such as curated hard negatives, are judged, too.

    Raises:
        ValueError: unless exactly one of ``absolute`` and ``relative`` is given.

    Example:
        >>> Margin(relative=0.95).limit(torch.tensor([0.8, -0.8]))
        tensor([ 0.7600, -0.8400])

    Reference:
        de Souza P. Moreira et al., "NV-Retriever: Improving Text Embedding Models with Effective
        Hard-Negative Mining", 2024, for relative and absolute margins; Solatorio, "GISTEmbed",
        2024, for a guide.
    """

    absolute: float | None = None
    relative: float | None = None
    extra: bool = False

    def __post_init__(self) -> None:
        if (self.absolute is None) == (self.relative is None):
            raise ValueError("Margin needs either absolute or relative, and not both")
        if self.absolute is not None:
            check_finite_number("absolute", self.absolute)
        if self.relative is not None:
            check_positive("relative", self.relative)

    def limit(self, positive: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
        """Return the similarity up to which candidates count."""
        if self.absolute is not None:
            return positive + self.absolute
        assert self.relative is not None
        return positive - positive.abs() * (1 - self.relative)


@torch.no_grad()
def within_margin(batch: Batch, margin: Margin, guide: Guide | None) -> Batch:
    """The batch without candidates that score like the positive, as the guide judges if given."""
    judge = batch if guide is None else _seen_by(batch, guide, margin.extra)
    anchors, place = judge.anchors.embeddings, batch.anchor_of
    of_pairs = torch.linalg.vecdot(judge.pair_anchors.embeddings, judge.positives.embeddings)
    positive = of_pairs
    if place is not None:
        lowest = of_pairs.new_full((len(anchors),), -torch.inf)
        positive = lowest.scatter_reduce(0, place, of_pairs, "amax")
    limit, parts = margin.limit(positive)[:, None], []
    for number, block in enumerate(judge.columns):
        is_exempt = batch.layout == "in_batch" and number > 0 and not margin.extra
        columns = block.embeddings
        if is_exempt:
            parts.append(torch.ones_like(limit, dtype=torch.bool).expand(-1, len(block)))
        elif block.are_own:
            parts.append(~(torch.einsum("ad,and->an", anchors, columns) > limit))
        else:
            parts.append(~(anchors @ columns.T > limit))  # NaN stays, and makes NaN
    kept = torch.cat(parts, dim=1)
    return replace(batch, valid=kept if batch.valid is None else batch.valid & kept)


def _seen_by(batch: Batch, guide: Guide, with_extra: bool) -> Batch:
    """The same batch with a guide's embeddings; of two views, both in order."""
    shapes = [rows.embeddings.shape[:-1] for rows in (batch.anchors, batch.positives)]
    if batch.layout == "two_views":
        shapes = [torch.Size([batch.num_anchors // 2])] * 2
    elif batch.layout == "sampled":
        shapes += [batch.columns[0].embeddings.shape[:-1]]
    else:  # the positives are the first columns; in the second direction, the anchors
        shapes = [shapes[0], *(block.embeddings.shape[:-1] for block in batch.columns)]
        if len(guide) < len(shapes) and not with_extra:
            shapes = shapes[:2]  # extra candidates are exempt
    if len(guide) != len(shapes):
        raise ValueError(f"guide must hold {len(shapes)} tensors of embeddings, got {len(guide)}")
    width: int | str = "dim"
    for part, shape in zip(guide, shapes, strict=True):
        check_floating("guide", part, batch.anchors.embeddings.device)
        check_shape("guide", part, (*shape, width))
        width = part.shape[-1]
    anchors, *others = (unit_vectors(part.detach().float()) for part in guide)
    if batch.layout == "two_views":
        anchors = torch.cat([anchors, *others])
        positives, others = anchors.roll(shapes[0][0], 0), [anchors]
    elif batch.layout == "sampled":
        positives, *others = others
    else:
        positives = others[0] if batch.positive is None else others[0][batch.positive]
        others += [block.embeddings for block in batch.columns[len(others) :]]
    blocks = zip(batch.columns, others, strict=True)
    return replace(
        batch,
        anchors=replace(batch.anchors, embeddings=anchors),
        positives=replace(batch.positives, embeddings=positives),
        columns=tuple(replace(block, embeddings=rows) for block, rows in blocks),
    )
