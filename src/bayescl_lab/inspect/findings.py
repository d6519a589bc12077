"""The recommendation of ``bayescl inspect``: a loss, its call and the reason.

The sentences are in ``report/sentences.jinja``. docs/which-loss.md and docs/evidence.md have the
measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl.functional import unit_vectors
from bayescl_lab.inspect.measures import EmbeddingDiagnosis, plain

Rows = NDArray[np.generic]

_FEW = 0.5
"""Number of false negatives per anchor below which they have no effect."""
_COLLAPSED = 1e-3
"""Variance of unit vectors below which embeddings have collapsed."""
_BY_CHANCE = 0.55
"""Share of candidates less similar than the positive below which views are probably mixed up."""
_EXPLAINED = 0.2
"""Share of the neighborhood, beyond chance, from which a column counts as a nuisance."""
_FEW_CANDIDATES = 16
"""Number of candidates of the anchor's domain below which InfoNCE lost accuracy."""
_COPIED = 0.01
"""Share of items with a copy from which ``groups`` is recommended."""
_HUBS = 0.1
"""Share of nearest neighbors that are in 1 % of the items, from which hubs are reported."""
_MANY, _RELIABLE = 10, 0.5
"""False negatives of an anchor, and their share among the nearest candidates, from which a small
``positive_share`` gained on every set without a nuisance (docs/evidence.md)."""


class Reason(Enum):
    """Reason for a recommended loss, or for none."""

    COLLAPSED = auto()
    EQUAL_VIEWS = auto()
    UNRELATED_VIEWS = auto()
    FEW_FALSE_NEGATIVES = auto()
    FALSE_NEGATIVES = auto()


_NONE = (Reason.COLLAPSED, Reason.EQUAL_VIEWS, Reason.UNRELATED_VIEWS)
"""Reasons for no loss."""


@dataclass(frozen=True)
class Advice:
    """Recommended loss and its call, or the reason for none.

    Attributes:
        reason: Reason for the recommendation.
        diagnosis: Measures that the recommendation is based on.
        number: Value for the reason: a mean cosine, or a share of comparisons.
        copied: Share of items that occur more than once.
        most_frequent: Share of the most frequent item, if some are far more frequent than others.
    """

    reason: Reason
    diagnosis: EmbeddingDiagnosis
    number: float = 0.0
    copied: float = 0.0
    most_frequent: float = 0.0

    @property
    def name(self) -> str | None:
        """Name of the loss; ``None`` without a recommendation."""
        if self.reason in _NONE:
            return None
        few = self.reason is Reason.FEW_FALSE_NEGATIVES
        return "InfoNCELoss" if few else "BayesianContrastiveLoss"

    @property
    def loss(self) -> str | None:
        """Loss and arguments as Python code; ``None`` without a recommendation."""
        found, arguments = self.diagnosis, list[str]()
        if found.temperature_from == "given":
            arguments.append(f"temperature={found.temperature:g}")
        if self.name == "BayesianContrastiveLoss" and found.tau_plus_from != "default":
            arguments.append(f"tau_plus={found.tau_plus:.2g}")
        if self.name == "BayesianContrastiveLoss" and found.alpha is not None:
            arguments += [f"alpha={found.alpha:.2g}", f"positive_share={self.share:g}"]
        return self.name and f"{self.name}({', '.join(arguments)})"

    @property
    def pass_on(self) -> tuple[str, ...]:
        """Arguments of each call of the loss, such as ``groups``."""
        are_many = self.reason is Reason.FALSE_NEGATIVES
        is_needed = {
            "domains": self.has_nuisance,
            "groups": self.has_copies,
            "labels": are_many and self.diagnosis.labeled_items > 0,
            "log_q": bool(self.most_frequent),
            "teacher": are_many,
        }
        return tuple(it for it in is_needed if is_needed[it] and self.name is not None)

    @property
    def call(self) -> str:
        """Call of the loss as Python code."""
        values = {
            "domains": "domains",
            "groups": "ids",
            "labels": "labels",
            "log_q": "log_share",
            "teacher": "documents.detach()" if self.diagnosis.are_pairs else "plain",
        }
        first = (
            "loss.in_batch(queries, documents"
            if self.diagnosis.are_pairs
            else "loss(view_1, view_2"
        )
        return ", ".join([first, *(f"{name}={values[name]}" for name in self.pass_on)]) + ")"

    @property
    def has_copies(self) -> bool:
        """Whether many items occur more than once."""
        return self.copied >= _COPIED

    @property
    def has_nuisance(self) -> bool:
        """Whether domains explain much of the neighborhood."""
        return self.diagnosis.neighborhood.domain_explains > _EXPLAINED

    @property
    def needs_sampler(self) -> bool:
        """Whether random batches have too few candidates of the anchor's domain."""
        by_chance = self.diagnosis.neighborhood.by_chance
        return self.has_nuisance and self.diagnosis.candidates * by_chance < _FEW_CANDIDATES

    @property
    def has_hubs(self) -> bool:
        """Whether a few items are neighbors of many."""
        return self.diagnosis.neighborhood.hub_share > _HUBS

    @property
    def share(self) -> float:
        """Recommended ``positive_share``: 0.1 if many false negatives are easy to find."""
        found = self.diagnosis
        is_reliable = found.nearest_false is not None and found.nearest_false >= _RELIABLE
        is_small = is_reliable and found.false_negatives >= _MANY
        return 0.1 if is_small and not found.are_pairs and not self.has_nuisance else 0.5

    def figures(self) -> dict[str, Any]:
        """Return plain values for a file."""
        names = ("reason", "loss", "pass_on", "share", "number", "copied", "most_frequent")
        return {name: plain(getattr(self, name)) for name in names}


def advise(
    diagnosis: EmbeddingDiagnosis,
    first: Rows,
    second: Rows | None = None,
    *,
    ids: Rows | None = None,
) -> Advice:
    """Recommend a loss for embeddings, or give the reason for none.

    Args:
        diagnosis: Result of :func:`~bayescl_lab.inspect.measures.diagnose_embeddings`.
        first: Embeddings of the diagnosis, ``[items, dim]``.
        second: Second view of the embeddings, if there is one.
        ids: Id of each row, -1 if unknown. Rows with equal ids are copies. Default: rows of the
            last view with equal directions are copies.
    """
    if diagnosis.neighborhood.variance < _COLLAPSED:
        return Advice(Reason.COLLAPSED, diagnosis, 1 - diagnosis.neighborhood.variance)
    last = _unit(first if second is None else second)
    if second is not None:
        is_equal = np.isclose(_unit(first), last, rtol=1e-5, atol=1e-7).all(axis=1)
        if is_equal.mean() > 0.99:
            return Advice(Reason.EQUAL_VIEWS, diagnosis)
        free = diagnosis.losses["Bayesian"].label_free
        if free is not None and free.auc < _BY_CHANCE:
            return Advice(Reason.UNRELATED_VIEWS, diagnosis, free.auc)
    if ids is None:
        ids = np.unique(last.round(4), axis=0, return_inverse=True)[1].ravel()
    else:
        numbers = ids.astype(np.int64)
        ids = np.where(numbers < 0, -1 - np.arange(len(ids)), numbers)  # an unknown one is alone
    advice = Advice(Reason.FALSE_NEGATIVES, diagnosis)
    if diagnosis.false_negatives < _FEW and diagnosis.tau_plus_from != "default":
        advice = replace(advice, reason=Reason.FEW_FALSE_NEGATIVES)
    counts = np.unique(ids, return_counts=True)[1]
    advice = replace(advice, copied=float(counts[counts > 1].sum()) / len(ids))
    # The number of equally frequent items that would meet as often; half of all for a random draw.
    is_skewed = len(ids) ** 2 / (counts**2).sum() < len(counts) / 2
    if not (advice.has_copies and is_skewed and diagnosis.are_pairs):
        return advice
    return replace(advice, most_frequent=float(counts.max()) / len(ids))


def _unit(rows: Rows) -> NDArray[np.float64]:
    """Scale rows of any finite length to length 1."""
    return np.asarray(unit_vectors(torch.from_numpy(rows.astype(np.float64))))
