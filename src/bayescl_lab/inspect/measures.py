"""Measures of embeddings: false negatives, weights of each loss, neighborhoods."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import torch

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_choice, check_count, check_interval, check_labels, check_shape
from bayescl.diagnostics import (
    Diagnosis,
    ScoredCandidates,
    WeightHistogram,
    diagnose,
    score_candidates,
)
from bayescl.diagnostics.candidates import joined
from bayescl.diagnostics.summary import histogram
from bayescl.estimation import tau_plus_of_labels
from bayescl.functional import unit_vectors
from bayescl.losses import (
    BayesianContrastiveLoss,
    ContrastiveLoss,
    HardContrastiveLoss,
    InfoNCELoss,
    OracleContrastiveLoss,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

EmbeddingLayout = Literal["two_views", "in_batch"]

_NEAREST = 10
"""Number of nearest neighbors, and of most similar candidates in ``nearest_false``."""

_MOST = 4096
"""Largest number of items in the neighbor search. It takes seconds at this size."""


class Neighborhood(NamedTuple):
    """Geometry of embeddings."""

    variance: float
    """Variance of the unit vectors, in [0, 1]: 1 minus the squared length of their mean."""

    effective_dim: float
    """Effective dimension, from 1 to the number of coordinates."""

    hub_share: float
    """Share of the most frequent 1 % of the items among all nearest neighbors."""

    same_domain: float | None = None
    """Share of nearest neighbors in the item's domain; ``None`` without domains."""

    by_chance: float = 0.0
    """Share for random neighbors."""

    @property
    def domain_explains(self) -> float:
        """Share of the neighborhood explained by domains beyond chance, at most 1; or 0."""
        same = self.same_domain or 0.0
        return max(0.0, (same - self.by_chance) / (1 - self.by_chance))


@dataclass(frozen=True)
class EmbeddingDiagnosis:
    """Result of :func:`diagnose_embeddings`.

    Attributes:
        items: Number of items.
        dim: Number of coordinates of an embedding.
        views: Number of views, 1 or 2.
        layout: Layout of a batch.
        batch_size: Number of items in each scored batch.
        batches: Number of scored batches.
        candidates: Number of candidates of each anchor in a batch.
        temperature: Temperature of every loss.
        temperature_from: Source of the temperature, "given" or "default".
        tau_plus: Share of false negatives among the candidates, measured if there are labels.
        tau_plus_from: Source of ``tau_plus``, "labels", "given" or "default".
        labeled_items: Number of items with a known label.
        similarity: Histogram of the candidates' cosines, by class if there are labels.
        nearest_false: Share of false negatives among the ten most similar candidates of each
            anchor. ``None`` without labels.
        alpha: Value of alpha from the labels, by the generative model. ``None`` without labels.
        losses: Diagnosis of each loss by its title.
        neighborhood: Collapse, dimension, hubs and domains.
    """

    items: int
    dim: int
    views: int
    layout: EmbeddingLayout
    batch_size: int
    batches: int
    candidates: int
    temperature: float
    temperature_from: Literal["given", "default"]
    tau_plus: float
    tau_plus_from: Literal["labels", "given", "default"]
    labeled_items: int
    similarity: WeightHistogram
    nearest_false: float | None
    alpha: float | None
    losses: Mapping[str, Diagnosis]
    neighborhood: Neighborhood

    @property
    def false_negatives(self) -> float:
        """Number of false negatives of an anchor in a batch: ``tau_plus`` times ``candidates``."""
        return self.tau_plus * self.candidates

    @property
    def are_pairs(self) -> bool:
        """Whether items are pairs of a query and a document."""
        return self.views == 2 and self.layout == "in_batch"


def plain(value: Any) -> Any:
    """Convert to plain values: fields by name, tensors as lists, NaN as ``None``."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, Tensor):
        return plain(value.tolist())
    if isinstance(value, Enum):
        return value.name.lower()
    return None if isinstance(value, float) and math.isnan(value) else value


@torch.no_grad()
def diagnose_embeddings(
    embeddings: Float[Tensor, "items dim"] | NDArray[np.generic],
    second_view: Float[Tensor, "items dim"] | NDArray[np.generic] | None = None,
    *,
    labels: Int[Tensor, " items"] | NDArray[np.generic] | None = None,
    groups: Int[Tensor, " items"] | NDArray[np.generic] | None = None,
    domains: Int[Tensor, " items"] | NDArray[np.generic] | None = None,
    tau_plus: float | None = None,
    temperature: float | None = None,
    layout: EmbeddingLayout = "two_views",
    batch_size: int = 256,
    items: int = 1024,
    seed: int = 0,
) -> EmbeddingDiagnosis:
    """Estimate how many false negatives a batch holds, and how losses weight them.

    Batches are drawn at random and scored by InfoNCE, the hard and the Bayesian loss and, with
    labels, the oracle. Labels set ``tau_plus``. If only some labels are known, only these items are
    scored.

    Args:
        embeddings: One row per item. Rows are scaled to length 1.
        second_view: Another view of the same items, such as another augmentation or the matching
            text. Without it, each item is its own positive.
        labels: Class of each item, a non-negative integer, or -1 if it is unknown.
        groups: Id of the item that each row shows, such as a document. Rows with equal ids, except
            -1, are never each other's candidates.
        domains: Batch, speaker, device or other nuisance of each item, or -1 if it is unknown.
            Nearest neighbors are compared by domain.
        tau_plus: Probability that a candidate has the anchor's class, in (0, 1): for C equal
            classes, 1/C. Not needed with labels. Default: 0.1.
        temperature: Temperature at which the encoder was trained, positive. Default: 0.5.
        layout: With a second view, ``"two_views"`` makes every row of both views an anchor, as in
            SimCLR; ``"in_batch"`` uses first views as anchors and second views as candidates, as
            for queries and documents.
        batch_size: Number of items in a batch, at least 2. Default: 256.
        items: Largest number of items to score, in whole batches. Default: 1,024.
        seed: Seed for drawing items.

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
        (63, 15.0, 1.0)

    See Also:
        ``bayescl inspect FILE``: the same for files, as one HTML page.
    """
    check_choice("layout", layout, get_args(EmbeddingLayout))
    check_count("batch_size", batch_size, 2)
    check_count("items", items, 2)
    check_count("seed", seed, 0)
    if tau_plus is not None:
        check_interval("tau_plus", tau_plus, 0.0, 1.0, open_low=True, open_high=True)
    first = _rows("embeddings", embeddings)
    if len(first) < 4:
        raise ValueError(f"embeddings must have at least 4 rows, got {len(first)}")
    second = first if second_view is None else _rows("second_view", second_view)
    check_shape("second_view", second, first.shape)
    layout = "in_batch" if second_view is None else layout
    classes, ids, nuisance = (
        None if codes is None else _codes(name, codes, len(first))
        for name, codes in (("labels", labels), ("groups", groups), ("domains", domains))
    )
    scale = 0.5 if temperature is None else temperature
    known = torch.ones(len(first), dtype=torch.bool) if classes is None else classes >= 0
    num_known = int(known.sum())
    if num_known < 2:
        raise ValueError(f"labels must be known for at least 2 items, got {num_known}")
    measured = None if classes is None else tau_plus_of_labels(classes[known])
    # The share is 0 if all labels differ.
    default = 0.1 if measured is None else max(measured, 1 / len(first))
    assumed = default if tau_plus is None else tau_plus
    source: Literal["given", "default"] = "default" if tau_plus is None else "given"

    order = torch.randperm(len(first), generator=torch.Generator().manual_seed(seed))
    order = order[known[order].argsort(descending=True, stable=True)]  # only these are scored
    most = min(items, num_known)
    size = min(batch_size, most)
    batches = order[: most // size * size].split(size)

    def scored(loss: ContrastiveLoss, rows: Int[Tensor, " batch"]) -> ScoredCandidates:
        """Score a batch with a loss."""
        known = (None if codes is None else codes[rows] for codes in (classes, ids))
        codes = dict(zip(("labels", "groups"), known, strict=True))
        return score_candidates(loss, first[rows], second[rows], layout=layout, **codes)

    losses: dict[str, ContrastiveLoss] = {
        "InfoNCE": InfoNCELoss(temperature=scale),
        "hard": HardContrastiveLoss(temperature=scale, tau_plus=assumed),
        "Bayesian": BayesianContrastiveLoss(temperature=scale, tau_plus=assumed),
    }
    if classes is not None:
        losses["oracle"] = OracleContrastiveLoss(temperature=scale)

    seen = {
        title: joined([scored(loss, rows) for rows in batches]) for title, loss in losses.items()
    }
    unweighted = seen["InfoNCE"]
    cosines = (unweighted.unlabeled[unweighted.valid] * scale).clamp(-1, 1)
    truth = None if classes is None else unweighted.truth[unweighted.valid]
    views = 1 if second_view is None else 2
    diagnoses = {title: diagnose([of_loss]) for title, of_loss in seen.items()}
    if views == 1:  # a single view is its own positive, so alpha cannot be measured
        diagnoses = {title: replace(found, label_free=None) for title, found in diagnoses.items()}
    measured_alpha = diagnoses["InfoNCE"].measured
    return EmbeddingDiagnosis(
        items=len(first),
        dim=first.shape[1],
        views=views,
        layout=layout,
        batch_size=size,
        batches=len(batches),
        candidates=int(unweighted.valid[0].sum()),
        temperature=scale,
        temperature_from="default" if temperature is None else "given",
        tau_plus=assumed if measured is None else measured,
        tau_plus_from=source if measured is None else "labels",
        labeled_items=0 if classes is None else num_known,
        similarity=histogram(cosines, truth, (-1.0, 1.0), 50)[0],
        nearest_false=None if classes is None else _nearest_false(unweighted),
        alpha=measured_alpha.model if measured_alpha else None,
        losses=diagnoses,
        neighborhood=_neighbors(first, nuisance, seed),
    )


def _rows(name: str, values: Tensor | NDArray[np.generic]) -> Float[Tensor, "items dim"]:
    """Convert embeddings to a float32 matrix of unit vectors; raise on invalid ones."""
    tensor = torch.as_tensor(values).detach().cpu()
    check_shape(name, tensor, ("items", "dim"))
    if tensor.dtype == torch.bool or tensor.is_complex():
        raise ValueError(f"{name} must hold real numbers, got {tensor.dtype}")
    if tensor.shape[1] == 0:
        raise ValueError(f"{name} must have at least one column, got none")
    tensor = tensor if tensor.dtype == torch.float64 else tensor.float()
    bad = (~torch.isfinite(tensor)).any(dim=1).nonzero().flatten().tolist()
    if bad:
        raise ValueError(
            f"{name} must be finite, got NaN or infinity in {len(bad)} of {len(tensor)} rows, "
            f"the first of them row {bad[0]}"
        )
    return unit_vectors(tensor).float()


def _codes(name: str, codes: Tensor | NDArray[np.generic], items: int) -> Int[Tensor, " items"]:
    """Check labels, groups or domains: one integer per item."""
    tensor = torch.as_tensor(codes).detach().cpu()
    check_labels(name, tensor, (items,))
    return tensor.long()


def _neighbors(
    rows: Float[Tensor, "items dim"], domains: Int[Tensor, " items"] | None, seed: int
) -> Neighborhood:
    """Measure the geometry of a random sample."""
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    if domains is not None:
        order = order[domains[order] >= 0]
        if len(domains[order].unique()) < 2 or len(order) <= _NEAREST:
            raise ValueError(
                f"domains must be known for more than {_NEAREST} items, and of two kinds at least"
            )
    order = order[:_MOST]
    rows = rows[order]
    centered = (rows - rows.mean(dim=0)).double()
    variance = float(centered.square().sum()) / len(rows)
    # The sum of squared eigenvalues, from the smaller of the two products.
    products = centered.T @ centered if rows.shape[1] < len(rows) else centered @ centered.T
    squares = float((products / len(rows)).square().sum())
    count = min(_NEAREST, len(rows) - 1)
    nearest = (rows @ rows.T).fill_diagonal_(-torch.inf).topk(count, dim=1).indices
    chosen = nearest.flatten().bincount(minlength=len(rows)).sort(descending=True).values
    hubs = chosen[: math.ceil(len(rows) / 100)].sum() / nearest.numel()
    found = Neighborhood(variance, variance**2 / squares if squares > 0 else 1.0, float(hubs))
    if domains is None:
        return found
    kinds = domains[order]
    same = float((kinds[nearest] == kinds[:, None]).double().mean())
    return found._replace(same_domain=same, by_chance=tau_plus_of_labels(kinds))


def _nearest_false(scored: ScoredCandidates) -> float:
    """Compute the share of false negatives among the most similar candidates."""
    logits = scored.unlabeled.masked_fill(~scored.valid, -torch.inf)
    count = min(_NEAREST, int(scored.valid.sum(dim=1).min()))
    nearest = logits.topk(count, dim=1).indices
    return float(scored.truth.gather(1, nearest).double().mean())
