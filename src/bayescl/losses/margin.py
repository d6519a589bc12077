"""Masks by margin: candidates that score like the positive are left out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from bayescl.axes import Float, Tensor
from bayescl.batch import Batch
from bayescl.checks import check_finite_number, check_positive, check_shape
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
    judge = batch if guide is None else _seen_by(batch, guide)
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
            parts.append(torch.einsum("ad,and->an", anchors, columns) <= limit)
        else:
            parts.append(anchors @ columns.T <= limit)
    kept = torch.cat(parts, dim=1)
    return replace(batch, valid=kept if batch.valid is None else batch.valid & kept)


def _seen_by(batch: Batch, guide: Guide) -> Batch:
    """The same batch with a guide's embeddings; of two views, both in order."""
    rows = [unit_vectors(part.detach().float()) for part in guide]
    if batch.layout == "two_views":
        both = torch.cat(rows)
        rows = [both, both.roll(len(rows[0]), 0)]
    anchors, positives, *others = rows
    check_shape("guide", anchors, (batch.num_anchors, "dim"))
    check_shape("guide", positives, (len(batch.positives), anchors.shape[1]))
    seen = replace(batch.anchors, embeddings=anchors)
    of_pairs = replace(batch.positives, embeddings=positives)
    if batch.layout == "two_views":
        return replace(batch, anchors=seen, positives=of_pairs, columns=(seen,))
    columns = [positives, *others] if batch.layout == "in_batch" else others
    if len(columns) < len(batch.columns):  # extra candidates are exempt
        columns += [block.embeddings[..., :1] for block in batch.columns[len(columns) :]]
    blocks = zip(batch.columns, columns, strict=True)
    judged = tuple(replace(block, embeddings=part) for block, part in blocks)
    return replace(batch, anchors=seen, positives=of_pairs, columns=judged)
