"""Measures of embeddings: false negatives, similarity of candidates, neighborhoods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import torch
from jaxtyping import Float, Int
from torch import Tensor

from bayescl.estimation import measured_alpha, tau_plus_of_labels
from bayescl.functional import unit_vectors
from bayescl_lab._fields import at_least, checked
from bayescl_lab._types import Config

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_ITEMS = 4096
"""Largest number of items in the neighbor search. It takes seconds at this size."""

_SCORED = 1024
"""Largest number of items that are compared as anchors and candidates."""

_NEAREST = 10
"""Number of nearest neighbors."""

_MOST_SIMILAR = 0.04
"""Share of candidates in ``nearest_false``: 10 of 255."""

_BINS = 50

_CHUNK = 2**24
"""Number of distances that the neighbor search holds at a time."""


@dataclass(frozen=True)
class Neighborhood:
    """Geometry of embeddings.

    Attributes:
        variance: Variance of the unit vectors, in [0, 1]: 1 minus the squared length of their mean.
        effective_dim: Effective dimension, from 1 to the number of coordinates.
        hub_share: Fraction of all nearest neighbors that are among the 1 % most frequent ones.
        same_domain: Share of nearest neighbors in the item's domain; ``None`` without domains.
        by_chance: Share for random neighbors.
        knn: Accuracy of a vote of the 10 nearest labeled items; ``None`` without labels or domains.
        knn_domains: The same with neighbors from other domains only.
    """

    variance: float
    effective_dim: float
    hub_share: float
    same_domain: float | None = None
    by_chance: float = 0.0
    knn: float | None = None
    knn_domains: float | None = None

    @property
    def domain_explains(self) -> float:
        """Excess of ``same_domain`` over ``by_chance``, relative to its maximum, in [0, 1]."""
        same = self.same_domain or 0.0
        return max(0.0, (same - self.by_chance) / (1 - self.by_chance))


@dataclass(frozen=True)
class EmbeddingDiagnosis:
    """Measures of embeddings, as :func:`diagnose_embeddings` returns them.

    Attributes:
        items: Number of items.
        dim: Number of coordinates of an embedding.
        are_pairs: Whether items are pairs of a query and a document.
        batch_size: Number of items in a batch.
        candidates: Number of candidates of each anchor in a batch.
        labeled_items: Number of items with a known label.
        similarity: Counts of candidates by cosine, in 50 bins from -1 to 1: of "candidates", or of
            "true negatives" and "false negatives" if there are labels.
        neighborhood: Collapse, dimension, hubs and domains.
        agreement: Share of candidates that are less similar to the anchor than its positive.
            ``None`` for one view.
        tau_plus: Share of false negatives among the candidates. ``None`` without labels, like the
            following measures.
        nearest_false: Share of false negatives among the most similar 4 % of the candidates.
        alpha: ``alpha`` of the paper's generative model, from 0.5 to 1.
        rarest: Number of items of the smallest class, relative to the mean over classes.
    """

    items: int
    dim: int
    are_pairs: bool
    batch_size: int
    candidates: int
    labeled_items: int
    similarity: Mapping[str, Float[Tensor, " bins"]]
    neighborhood: Neighborhood
    agreement: float | None = None
    tau_plus: float | None = None
    nearest_false: float | None = None
    alpha: float | None = None
    rarest: float | None = None

    @property
    def false_negatives(self) -> float | None:
        """Number of false negatives of an anchor in a batch; ``None`` without labels."""
        return None if self.tau_plus is None else self.tau_plus * self.candidates

    def figures(self) -> Config:
        """Return values that can be written as JSON."""
        similarity = {name: counts.tolist() for name, counts in self.similarity.items()}
        own = {"false_negatives": self.false_negatives, "similarity": similarity}
        return {**asdict(self), **own}


@torch.no_grad()
def diagnose_embeddings(
    embeddings: Float[Tensor, "items dim"] | NDArray[np.generic],
    second_view: Float[Tensor, "items dim"] | NDArray[np.generic] | None = None,
    *,
    labels: Int[Tensor, " items"] | NDArray[np.generic] | None = None,
    groups: Int[Tensor, " items"] | NDArray[np.generic] | None = None,
    domains: Int[Tensor, " items"] | NDArray[np.generic] | None = None,
    are_pairs: bool = False,
    batch_size: int = 256,
) -> EmbeddingDiagnosis:
    """Measure how many false negatives a batch contains, and whether similarity finds them.

    Up to 1,024 random items are compared with each other. If only some labels are known, only
    labeled items are compared.

    Args:
        embeddings: One row per item. Rows are scaled to length 1.
        second_view: Another view of the same items, such as another augmentation or the matching
            document. Default: none; the items are compared with each other.
        labels: Class of each item, a non-negative integer, or -1 if it is unknown.
        groups: Id of the item that each row shows, such as a document. Rows with equal ids, except
            -1, are never each other's candidates.
        domains: Batch, speaker, device or other nuisance of each item, or -1 if it is unknown.
            Nearest neighbors are compared by domain.
        are_pairs: Whether anchors are queries with the other documents of the batch as candidates.
            Default: anchors are views with both views of the other items as candidates.
        batch_size: Number of items in a batch, at least 2. Default: 256.

    Returns:
        The diagnosis. Values that need labels are ``None`` without labels.

    Raises:
        ValueError: if there are fewer than 4 items, shapes do not fit, embeddings are not finite,
            or an argument is out of range.

    Example:
        >>> labels = torch.arange(64) % 4
        >>> embeddings = torch.eye(4)[labels] + 0.1 * torch.eye(64)[:, :4]
        >>> diagnosis = diagnose_embeddings(embeddings, labels=labels)
        >>> diagnosis.candidates, round(diagnosis.false_negatives, 2), diagnosis.nearest_false
        (126, 30.0, 1.0)

    See Also:
        ``bayescl inspect FILE``: the same for files, as one HTML page.
    """
    checked("batch_size", batch_size, Annotated[int, at_least(2)])
    first, second = sides_of(embeddings, second_view)
    if len(first) < 4:
        raise ValueError(f"embeddings must have at least 4 rows, got {len(first)}")
    classes, ids, nuisance = (
        None if codes is None else codes_of(name, codes, len(first))
        for name, codes in (("labels", labels), ("groups", groups), ("domains", domains))
    )
    order = torch.randperm(len(first), generator=torch.Generator().manual_seed(0))
    if classes is not None:
        order = order[classes[order] >= 0]
        if len(order) < 2:
            raise ValueError(f"labels must be known for at least 2 items, got {len(order)}")
    rows = order[:_SCORED]
    similarity = first[rows] @ second[rows].T
    valid = ~torch.eye(len(rows), dtype=torch.bool)
    if ids is not None:
        valid &= (ids[rows, None] != ids[rows]) | (ids[rows] < 0)
    kinds = {"candidates": valid}
    of_labels: dict[str, float] = {}
    if classes is not None:
        false = valid & (classes[rows, None] == classes[rows])
        kinds = {"true negatives": valid & ~false, "false negatives": false}
        most = max(1, round(_MOST_SIMILAR * int(valid.sum(dim=1).min())))
        nearest = similarity.masked_fill(~valid, -torch.inf).topk(most, dim=1).indices
        of_labels["tau_plus"] = tau_plus_of_labels(classes[order])
        counts = classes[order].unique(return_counts=True)[1].double()
        of_labels["rarest"] = float(counts.min() / counts.mean())
        of_labels["nearest_false"] = float(false.gather(1, nearest).double().mean())
        if false.any():
            of_labels["alpha"] = measured_alpha(first[rows], classes[rows]).model
    positive = similarity.diagonal()[:, None]
    size = min(batch_size, len(first))
    return EmbeddingDiagnosis(
        items=len(first),
        dim=first.shape[1],
        are_pairs=are_pairs,
        batch_size=size,
        candidates=size - 1 if are_pairs else 2 * size - 2,
        labeled_items=0 if classes is None else len(order),
        similarity={it: similarity[kinds[it]].histc(_BINS, -1, 1) for it in kinds},
        neighborhood=_neighbors(first, nuisance, classes),
        agreement=None
        if second_view is None
        else float((positive > similarity)[valid].double().mean()),
        **of_labels,
    )


def sides_of(
    embeddings: Tensor | NDArray[np.generic],
    second_view: Tensor | NDArray[np.generic] | None,
    *,
    name: str = "embeddings",
) -> tuple[Float[Tensor, "items dim"], Float[Tensor, "items dim"]]:
    """Return both views as unit vectors; raise on invalid ones. A single view is used as both."""
    first = _rows(name, embeddings)
    second = first if second_view is None else _rows("second_view", second_view)
    shape, other = list(first.shape), list(second.shape)
    if other != shape:
        raise ValueError(f"second_view must have shape {shape}, got {other}")
    return first, second


def _rows(name: str, values: Tensor | NDArray[np.generic]) -> Float[Tensor, "items dim"]:
    """Convert embeddings to a float32 matrix of unit vectors; raise on invalid ones."""
    tensor = torch.as_tensor(values).detach().cpu()
    if tensor.ndim != 2:
        raise ValueError(f"{name} must have shape [items, dim], got {list(tensor.shape)}")
    if tensor.dtype == torch.bool or tensor.is_complex():
        raise ValueError(f"{name} must contain real numbers, got {tensor.dtype}")
    if tensor.shape[1] == 0:
        raise ValueError(f"{name} must have at least one column, got none")
    tensor = tensor if tensor.dtype == torch.float64 else tensor.float()
    bad = (~torch.isfinite(tensor)).any(dim=1).nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"{name} must be finite, got NaN or infinity in {len(bad)} of {len(tensor)} rows "
            f"(first: row {bad[0]})"
        )
    return unit_vectors(tensor).float()


def codes_of(name: str, codes: Tensor | NDArray[np.generic], items: int) -> Int[Tensor, " items"]:
    """Return codes, such as labels, as one int64 value per item; raise on invalid ones."""
    tensor = torch.as_tensor(codes).detach().cpu()
    if tensor.is_floating_point() or tensor.is_complex():
        raise ValueError(f"{name} must contain integers, got {tensor.dtype}")
    if tensor.shape != (items,):
        raise ValueError(f"{name} must have shape [{items}], got {list(tensor.shape)}")
    if (tensor < -1).any():
        raise ValueError(f"{name} must be at least -1, which means unknown, got {tensor.min():d}")
    return tensor.long()


def nearest_rows(
    rows: Float[Tensor, "items dim"], count: int, groups: Int[Tensor, " items"] | None = None
) -> tuple[Float[Tensor, "items count"], Int[Tensor, "items count"]]:
    """Find the nearest other rows of each row.

    Distances are computed for some rows at a time.

    Args:
        rows: Rows to compare.
        count: Number of neighbors, at most the number of other rows.
        groups: Rows with equal groups, except -1, are not neighbors.

    Returns:
        Squared Euclidean distances, infinite if there are fewer neighbors, and the neighbors.
    """
    squares = rows.square().sum(dim=1)
    found = []
    for own in torch.arange(len(rows)).split(max(1, _CHUNK // len(rows))):
        closeness = torch.addmm(squares, rows[own], rows.T, beta=-0.5)
        closeness[torch.arange(len(own)), own] = -torch.inf
        if groups is not None:
            same = (groups[own, None] == groups) & (groups[own, None] >= 0)
            closeness.masked_fill_(same, -torch.inf)
        found.append(closeness.topk(count, dim=1))
    closeness, nearest = map(torch.cat, zip(*found, strict=True))
    return (squares[:, None] - 2 * closeness).clamp(min=0), nearest


def _neighbors(
    rows: Float[Tensor, "items dim"],
    domains: Int[Tensor, " items"] | None,
    labels: Int[Tensor, " items"] | None,
) -> Neighborhood:
    """Measure the geometry of a random sample."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    if domains is not None:
        order = order[domains[order] >= 0]
        if len(domains[order].unique()) < 2 or len(order) <= _NEAREST:
            raise ValueError(
                f"domains must be known for more than {_NEAREST} items and have two values or more"
            )
    order = order[:MOST_ITEMS]
    rows = rows[order]
    centered = (rows - rows.mean(dim=0)).double()
    variance = float(centered.square().sum()) / len(rows)
    # The sum of squared eigenvalues, from the smaller of the two products.
    products = centered.T @ centered if rows.shape[1] < len(rows) else centered @ centered.T
    squares = float((products / len(rows)).square().sum())
    count = min(_NEAREST, len(rows) - 1)
    nearest = nearest_rows(rows, count)[1]
    chosen = nearest.flatten().bincount(minlength=len(rows)).sort(descending=True).values
    hubs = chosen[: math.ceil(len(rows) / 100)].sum() / nearest.numel()
    found = Neighborhood(variance, variance**2 / squares if squares > 0 else 1.0, float(hubs))
    if domains is None:
        return found
    kinds = domains[order]
    same = float((kinds[nearest] == kinds[:, None]).double().mean())
    found = replace(found, same_domain=same, by_chance=tau_plus_of_labels(kinds))
    if labels is None:
        return found
    known = labels[order] >= 0
    rows, kinds, classes = rows[known], kinds[known], labels[order][known]
    similarity = (rows @ rows.T).fill_diagonal_(-torch.inf)
    is_other = kinds[:, None] != kinds
    if int(is_other.sum(dim=1).min()) < _NEAREST:
        return found
    other = similarity.masked_fill(~is_other, -torch.inf)
    return replace(found, knn=_vote(similarity, classes), knn_domains=_vote(other, classes))


def _vote(similarity: Float[Tensor, "items items"], labels: Int[Tensor, " items"]) -> float:
    """Return the accuracy of a vote of the nearest items. Ties go to the smaller label."""
    votes = torch.zeros(len(labels), int(labels.max()) + 1)
    nearest = labels[similarity.topk(_NEAREST, dim=1).indices]
    votes.scatter_add_(1, nearest, torch.ones(nearest.shape))
    return float((votes.argmax(dim=1) == labels).double().mean())
