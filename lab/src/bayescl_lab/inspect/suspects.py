"""Suspected false negatives of embeddings, most suspicious first."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import numpy as np
import polars as pl
import torch
from jaxtyping import Float, Int
from sklearn.isotonic import IsotonicRegression
from torch import Tensor

from bayescl_lab.inspect.files import EmbeddingArrays
from bayescl_lab.inspect.measures import codes_of, nearest_rows, sides_of
from bayescl_lab.report.tables import ReportTable

MOST_LINES = 10_000
"""Largest number of suspects in a list."""

_PER_ITEM = 10
"""Number of most suspicious candidates of each item in the search."""

_ENOUGH = 100
"""Number of suspects with known labels from which labels calibrate the probability."""

_ENOUGH_COPIES = 20
"""Number of known duplicates from which duplicates, not positives, are the reference."""


@dataclass(frozen=True)
class Suspects:
    """Suspected false negatives, most suspicious first.

    Attributes:
        anchors: Row of each anchor, such as a query.
        candidates: Row of each candidate, such as a document.
        similarity: Cosine similarity of anchor and candidate.
        positive_similarity: Cosine similarity of the anchor and its positive. NaN for one view.
        probability: Probability that the candidate is a false negative. NaN if ``rule`` is "none".
        rule: What the probability is computed from: "labels", "ids", "positives" or "none".
        is_false: 1 if the labels of both are known and equal, 0 if they differ, -1 otherwise.
    """

    anchors: Int[Tensor, " suspects"]
    candidates: Int[Tensor, " suspects"]
    similarity: Float[Tensor, " suspects"]
    positive_similarity: Float[Tensor, " suspects"]
    probability: Float[Tensor, " suspects"]
    rule: str
    is_false: Int[Tensor, " suspects"]

    def __len__(self) -> int:
        """Return the number of suspects."""
        return len(self.anchors)

    def frame(self, arrays: EmbeddingArrays) -> pl.DataFrame:
        """Return the suspects as a table, with the ids and texts of the embeddings."""
        names = ("query", "document") if arrays.are_pairs else ("anchor", "candidate")
        own = arrays.texts, arrays.texts if arrays.second_texts is None else arrays.second_texts
        columns: dict[str, object] = {}
        for name, rows, texts in zip(names, (self.anchors, self.candidates), own, strict=True):
            columns[name] = rows.numpy()
            for what, values in (("id", arrays.ids), ("text", texts)):
                if values is not None:
                    columns[f"{name}_{what}"] = np.asarray(values)[rows.numpy()].astype(str)
        numbers = ("similarity", "positive_similarity", "probability")
        columns |= {name: getattr(self, name).double().numpy() for name in numbers}
        columns["rule"] = [self.rule] * len(self)
        if (self.is_false >= 0).any():
            known = ("no", "yes", "")  # the last one for -1
            columns["same_label"] = [known[it] for it in self.is_false.tolist()]
        return pl.DataFrame(columns).with_columns(pl.col(numbers).fill_nan(None).round(4))


@torch.no_grad()
def find_suspects(
    arrays: EmbeddingArrays, *, teacher: EmbeddingArrays | None = None, most: int = MOST_LINES
) -> Suspects:
    r"""List the candidates that are probably false negatives.

    Each item, such as a pair of a query and a document, is represented by the mean :math:`m_i` of
    its two unit vectors. Items are compared by the distance :math:`d_{ij} = 2 |m_i - m_j|^2`. If
    two items have the same meaning and embeddings have independent noise, :math:`d_{ij}` has the
    expectation of :math:`d_i`, the squared distance of the two unit vectors of one item. Items with
    equal ids are not candidates of each other. The ten nearest items of each item are searched.
    Two items appear once, in the direction with the larger similarity.

    The probability decreases with the distance. Its rule is the first one that applies:

    - "labels": share of equal labels at this distance, by isotonic regression, if the labels of at
      least 100 suspects are known. Known labels do not replace the probability.
    - "ids": share of items with a copy (equal ids) at a distance of at least :math:`d_{ij}`, if
      there are at least 20 copies. This is a p-value of the hypothesis that both items are the
      same, not a calibrated probability.
    - "positives": share of items with :math:`d_i \ge d_{ij}`. It is also a p-value.
    - "none": NaN, for one view without labels and ids.

    Args:
        arrays: Embeddings that the loss compares. They define the similarities.
        teacher: Embeddings of the same items by another model, for distances and probabilities.
            Default: the embeddings that the loss compares.
        most: Largest number of suspects, at least 1.

    Raises:
        ValueError: if shapes do not fit or embeddings are not finite.

    Example:
        >>> rows = np.eye(5)[[0, 1, 2, 3, 0]] + 0.1 * np.eye(5)
        >>> found = find_suspects(EmbeddingArrays(rows, rows), most=1)
        >>> found.anchors.tolist(), found.candidates.tolist(), found.rule
        ([0], [4], 'positives')
    """
    first, second = sides_of(arrays.embeddings, arrays.second_view)
    judge = (first, second)
    if teacher is not None:
        judge = sides_of(teacher.embeddings, teacher.second_view, name="teacher")
        if len(judge[0]) != len(first):
            raise ValueError(
                f"teacher must have {len(first)} rows, one per item, got {len(judge[0])}"
            )
    labels, groups = (
        None if codes is None else codes_of(name, codes, len(first))
        for name, codes in (("labels", arrays.labels), ("groups", arrays.groups))
    )
    means = (judge[0] + judge[1]) / 2
    distances, nearest = nearest_rows(means, min(_PER_ITEM, len(means) - 1), groups)
    anchors = torch.arange(len(means))[:, None].expand_as(nearest)
    low, high = torch.minimum(anchors, nearest), torch.maximum(anchors, nearest)
    order = distances.flatten().argsort(stable=True)
    order = order[distances.flatten()[order].isfinite()]
    couples = (low * len(means) + high).flatten()[order].numpy()
    order = order[torch.from_numpy(np.sort(np.unique(couples, return_index=True)[1]))][:most]
    anchors, candidates = low.flatten()[order], high.flatten()[order]
    similarity, other = (
        _cosines(first[it], second[to]) for it, to in ((anchors, candidates), (candidates, anchors))
    )
    anchors, candidates = (
        torch.where(other > similarity, *pair)
        for pair in ((candidates, anchors), (anchors, candidates))
    )
    is_false = torch.full_like(anchors, -1)
    if labels is not None:
        of_both = torch.stack([labels[anchors], labels[candidates]])
        is_false = torch.where((of_both >= 0).all(dim=0), of_both[0] == of_both[1], -1).long()
    distance = 2 * distances.flatten()[order]
    rule, probability = _probability(distance, is_false, judge, groups)
    has_positives = arrays.second_view is not None
    positive = _cosines(first, second) if has_positives else torch.full((len(first),), torch.nan)
    return Suspects(
        anchors,
        candidates,
        torch.maximum(similarity, other),
        positive[anchors],
        probability,
        rule,
        is_false,
    )


def _probability(
    distance: Float[Tensor, " suspects"],
    is_false: Int[Tensor, " suspects"],
    judge: tuple[Tensor, Tensor],
    groups: Int[Tensor, " items"] | None,
) -> tuple[str, Float[Tensor, " suspects"]]:
    """Return the rule and the probability of each suspect; see :func:`find_suspects`."""
    known = is_false >= 0
    if known.sum() >= _ENOUGH:
        curve = IsotonicRegression(y_min=0, y_max=1, increasing=False, out_of_bounds="clip")
        curve.fit(distance[known].numpy(), is_false[known].numpy())
        return "labels", torch.from_numpy(curve.predict(distance.numpy())).float()
    rule, reference = "positives", (judge[0] - judge[1]).square().sum(dim=1)
    if groups is not None:
        order = groups.argsort(stable=True)
        rows, copies = order[:-1], order[1:]
        same = (groups[rows] == groups[copies]) & (groups[rows] >= 0)
        if same.sum() >= _ENOUGH_COPIES:
            means = (judge[0] + judge[1]) / 2
            rule = "ids"
            reference = 2 * (means[rows[same]] - means[copies[same]]).square().sum(dim=1)
    if rule == "positives" and judge[0] is judge[1]:
        return "none", torch.full_like(distance, torch.nan)
    farther = len(reference) - torch.searchsorted(reference.sort().values, distance)
    return rule, farther.float() / len(reference)


def _cosines(first: Float[Tensor, "rows dim"], second: Float[Tensor, "rows dim"]) -> Tensor:
    return (first * second).sum(dim=1)


def suspects_table(frame: pl.DataFrame) -> ReportTable:
    """Return a table for the terminal, with rounded numbers and shortened texts."""
    records = [
        {name: _cell(value) for name, value in row.items() if name != "rule"}
        for row in frame.iter_rows(named=True)
    ]
    return ReportTable(records, numeric=False)


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    return "" if value is None else textwrap.shorten(str(value), 40, placeholder="...")
