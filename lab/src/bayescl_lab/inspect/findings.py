"""The recommendation of ``bayescl inspect``: a loss, its call and the reason.

The sentences are in ``report/sentences.jinja``. docs/which-loss.md and docs/evidence.md have the
measurements.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

import numpy as np
import torch

from bayescl.functional import unit_vectors
from bayescl_lab._types import Config
from bayescl_lab.inspect.files import EmbeddingArrays
from bayescl_lab.inspect.measures import EmbeddingDiagnosis

_FEW = 0.5
"""Number of false negatives per anchor below which they have no effect."""
_COLLAPSED = 1e-3
"""Variance of unit vectors below which embeddings have collapsed."""
_BY_CHANCE = 0.55
"""Value of ``agreement`` below which the views are probably mixed up."""
_EXPLAINED = 0.2
"""Value of ``domain_explains`` above which domains count as a nuisance."""
_FEW_CANDIDATES = 16
"""Number of candidates of the anchor's domain below which InfoNCE lost accuracy."""
_COPIED = 0.01
"""Share of items with a copy from which ``groups`` is recommended."""
_HUBS = 0.1
"""Share of nearest neighbors that are in 1 % of the items, from which hubs are reported."""
_MANY, _RELIABLE = 10, 0.5
"""False negatives of an anchor, and their share among the nearest candidates, from which a small
``positive_share`` gained on every set without a nuisance (docs/evidence.md)."""


_RARE = 0.25
"""Items of a class relative to the mean over classes, below which a small ``positive_share`` may
merge the class with frequent ones."""


class Reason(Enum):
    """Reason for a recommended loss, or for not recommending one."""

    COLLAPSED = auto()
    UNRELATED_VIEWS = auto()
    FEW_FALSE_NEGATIVES = auto()
    ALL_LABELS = auto()
    FALSE_NEGATIVES = auto()


@dataclass(frozen=True)
class Advice:
    """Recommended loss and its call, or the reason why no loss is recommended.

    Attributes:
        reason: Reason for the recommendation.
        diagnosis: Measures that the recommendation is based on.
        copied: Share of items that occur more than once.
        uses_labels: Whether training may use the labels.
        by: Names of other arrays of the file, which could be passed as ``--by``.
    """

    reason: Reason
    diagnosis: EmbeddingDiagnosis
    copied: float = 0.0
    uses_labels: bool = True
    by: tuple[str, ...] = ()

    @property
    def without_labels(self) -> Advice:
        """Advice if the labels are only for evaluation."""
        return replace(self, reason=Reason.FALSE_NEGATIVES, uses_labels=False)

    @property
    def loss(self) -> str | None:
        """Loss and arguments as Python code; ``None`` without a recommendation."""
        if self.reason in (Reason.COLLAPSED, Reason.UNRELATED_VIEWS):
            return None
        if self.reason is Reason.FEW_FALSE_NEGATIVES:
            return "InfoNCELoss()"
        if self.reason is Reason.ALL_LABELS:
            return "SupervisedContrastiveLoss()"
        temperature = 0.1 if self.diagnosis.are_pairs else 0.5 if self.has_nuisance else 0.2
        share = "" if self.share == 0.5 else f", positive_share={self.share:g}"
        return f"InfoNCELoss(temperature={temperature:g}{share})"

    @property
    def pass_on(self) -> tuple[str, ...]:
        """Arguments of each call of the loss, such as ``groups``."""
        are_many = self.reason is Reason.FALSE_NEGATIVES
        is_needed = {
            "domains": self.has_nuisance and self.reason is not Reason.ALL_LABELS,
            "groups": self.copied >= _COPIED,
            "labels": self.uses_labels
            and self.diagnosis.labeled_items > 0
            and self.reason is not Reason.FEW_FALSE_NEGATIVES,
            "teacher": are_many and not self.has_nuisance and not self.diagnosis.are_pairs,
        }
        return tuple(it for it in is_needed if is_needed[it] and self.loss is not None)

    @property
    def call(self) -> str:
        """Call of the loss as Python code."""
        are_pairs = self.diagnosis.are_pairs
        values = {
            "domains": "domains",
            "groups": "ids",
            "labels": "labels",
            "teacher": "unaugmented",
        }
        first = "loss.in_batch(queries, documents" if are_pairs else "loss(view_1, view_2"
        return ", ".join([first, *(f"{name}={values[name]}" for name in self.pass_on)]) + ")"

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
        """Recommended ``positive_share``: 0.2 if many false negatives are easy to find, else 0.5.

        For pairs with labels it is 0.8, because smaller values make it harder to find the exact
        document. Pairs without labels do not use it.
        """
        found = self.diagnosis
        if found.are_pairs:
            return 0.8 if self.uses_labels and found.labeled_items else 0.5
        is_reliable = found.nearest_false is not None and found.nearest_false >= _RELIABLE
        has_rare = found.rarest is not None and found.rarest < _RARE
        is_small = is_reliable and not has_rare and (found.false_negatives or 0.0) >= _MANY
        return 0.2 if is_small and not self.has_nuisance else 0.5

    def figures(self) -> Config:
        """Return values that can be written as JSON."""
        names = ("loss", "pass_on", "share", "copied", "by")
        return {"reason": self.reason.name.lower()} | {name: getattr(self, name) for name in names}


def advise(diagnosis: EmbeddingDiagnosis, arrays: EmbeddingArrays) -> Advice:
    """Recommend a loss for embeddings, or give the reason for none.

    Rows with equal ids are copies. Without ids, rows with equal directions are copies.

    Args:
        diagnosis: Result of :func:`~bayescl_lab.inspect.measures.diagnose_embeddings`.
        arrays: Embeddings of the diagnosis.
    """
    reason = Reason.FALSE_NEGATIVES
    if diagnosis.neighborhood.variance < _COLLAPSED:
        reason = Reason.COLLAPSED
    elif diagnosis.agreement is not None and diagnosis.agreement < _BY_CHANCE:
        reason = Reason.UNRELATED_VIEWS
    elif diagnosis.false_negatives is not None and diagnosis.false_negatives < _FEW:
        reason = Reason.FEW_FALSE_NEGATIVES
    elif diagnosis.labeled_items == diagnosis.items and not diagnosis.are_pairs:
        reason = Reason.ALL_LABELS
    if arrays.groups is None:
        last = arrays.embeddings if arrays.second_view is None else arrays.second_view
        rows = unit_vectors(torch.from_numpy(last.astype(np.float64))).numpy()
        ids = np.unique(rows.round(4), axis=0, return_inverse=True)[1].ravel()
    else:
        numbers = arrays.groups.astype(np.int64)
        ids = np.where(numbers < 0, -1 - np.arange(len(numbers)), numbers)  # unknown ones differ
    counts = np.unique(ids, return_counts=True)[1]
    return Advice(
        reason, diagnosis, copied=float(counts[counts > 1].sum()) / len(ids), by=arrays.by
    )
