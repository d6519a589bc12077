"""Which loss embeddings ask for, and why: what ``bayescl inspect`` ends with.

Advice is a value: a reason and numbers. Its sentences are in ``report/sentences.jinja``. What helps
when is measured in docs/which-loss.md.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl.functional import unit_vectors
from bayescl_lab.inspect.measures import EmbeddingDiagnosis

Rows = NDArray[np.generic]

_FEW = 0.5  # false negatives of an anchor: fewer change nothing
_COLLAPSED = 1e-3  # variance of unit vectors: below, embeddings say nothing
_BY_CHANCE = 0.55  # share of candidates less similar than the positive: below, views are mixed up
_OF_DOMAINS = 0.2  # share of neighbours of one domain beyond chance: above, domains matter
_COPIED = 0.01  # share of items with a copy from which groups are worth passing


class Reason(Enum):
    """Why a loss is recommended, or why none can be."""

    COLLAPSED = auto()
    EQUAL_VIEWS = auto()
    UNRELATED_VIEWS = auto()
    FEW_FALSE_NEGATIVES = auto()
    ALL_LABELS = auto()
    SOME_LABELS = auto()
    FALSE_NEGATIVES = auto()


_BAYESIAN = "BayesianContrastiveLoss"
_ANSWERS: dict[Reason, tuple[str, tuple[str, ...]]] = {
    Reason.FEW_FALSE_NEGATIVES: ("InfoNCELoss", ()),
    Reason.ALL_LABELS: ("SupervisedContrastiveLoss", ("labels",)),
    Reason.SOME_LABELS: (_BAYESIAN, ("labels", "teacher")),
    Reason.FALSE_NEGATIVES: (_BAYESIAN, ("teacher",)),
}
"""The loss to use, and what each call of it takes; none for other reasons."""


@dataclass(frozen=True)
class Advice:
    """A recommended loss, or the reason why there is none.

    Attributes:
        reason: the reason.
        diagnosis: what the advice is based on.
        number: what the reason is about: a mean cosine, or a share of comparisons.
        copied: share of items that occur more than once, if that matters.
        most_frequent: share of the most frequent one, if some are far more frequent than others.
        followed: the loss that a run was trained with, and the arguments that its calls take.
    """

    reason: Reason
    diagnosis: EmbeddingDiagnosis
    number: float = 0.0
    copied: float = 0.0
    most_frequent: float = 0.0
    followed: frozenset[str] = frozenset()

    @property
    def call(self) -> str | None:
        """The loss and its arguments, as one writes it in Python; None if it cannot be told."""
        return self.call_of(_ANSWERS[self.reason][0]) if self.reason in _ANSWERS else None

    @property
    def is_followed(self) -> bool:
        """Whether the run was trained with this loss."""
        return self.reason in _ANSWERS and _ANSWERS[self.reason][0] in self.followed

    @property
    def alternative(self) -> str:
        """The loss to use if labels are only known here."""
        return self.call_of(_BAYESIAN)

    @property
    def pass_on(self) -> tuple[str, ...]:
        """Further arguments of each call of the loss, such as ``groups``, unless followed."""
        copies = ["groups"] * bool(self.copied) + ["log_q"] * bool(self.most_frequent)
        more = copies + ["domains"] * self.domains_matter
        names = dict.fromkeys([*_ANSWERS.get(self.reason, ("", ()))[1], *more])
        return tuple(name for name in names if name not in self.followed)

    @property
    def domains_matter(self) -> bool:
        """Whether nearest neighbours are of one domain far more often than by chance."""
        found = self.diagnosis
        if found.nearest_domain is None or found.domain_by_chance is None:
            return False
        chance = found.domain_by_chance
        return found.nearest_domain - chance > _OF_DOMAINS * (1 - chance)

    @property
    def are_pairs(self) -> bool:
        """Whether each item's second view is its exact partner, to be retrieved."""
        found = self.diagnosis
        return found.views == 2 and found.layout == "in_batch"

    def call_of(self, loss: str) -> str:
        """A loss with its arguments for these embeddings."""
        found = self.diagnosis
        is_given = found.temperature_from == "given"
        arguments = [f"temperature={found.temperature:g}"] * is_given
        if loss == _BAYESIAN and found.tau_plus_from != "default":
            arguments.append(f"tau_plus={found.tau_plus:.2g}")
        return f"{loss}({', '.join(arguments)})"

    def figures(self) -> dict[str, Any]:
        """Plain values for a file."""
        return {
            "reason": self.reason.name.lower(),
            "call": self.call,
            "pass_on": list(self.pass_on),
            **{name: getattr(self, name) for name in ("number", "copied", "most_frequent")},
        }


def advise(
    diagnosis: EmbeddingDiagnosis,
    first: Rows,
    second: Rows | None = None,
    *,
    ids: Rows | None = None,
    followed: Collection[str] = (),
) -> Advice:
    """Recommend a loss for embeddings, or say what is missing to do so.

    Args:
        diagnosis: what :func:`~bayescl_lab.inspect.measures.diagnose_embeddings` returned.
        first: the embeddings that it was made from, ``[items, dim]``.
        second: their second view, if there is one.
        ids: what each row is of, -1 where unknown; default: equal rows of the last view are copies.
        followed: the loss that a run was trained with, and the arguments that its calls take.
    """
    unusable = _unusable(diagnosis, first, second)
    if unusable is not None:
        return unusable
    choice = replace(_choice(diagnosis), followed=frozenset(followed))
    if ids is None:
        rows = np.ascontiguousarray(first if second is None else second)
        ids = np.array([hash(row.tobytes()) for row in rows])
    else:
        numbers = ids.astype(np.int64)
        ids = np.where(numbers < 0, -1 - np.arange(len(ids)), numbers)  # an unknown one is alone
    copies: Any = _copies(diagnosis, ids)
    return replace(choice, **copies)


def _unusable(diagnosis: EmbeddingDiagnosis, first: Rows, second: Rows | None) -> Advice | None:
    """What is wrong with embeddings that say nothing about any loss; None if they may."""
    views = [_unit(rows) for rows in (first, second) if rows is not None]
    for unit in views:
        # 1 less the mean cosine
        if (variance := float(unit.var(axis=0).sum())) < _COLLAPSED:
            return Advice(Reason.COLLAPSED, diagnosis, 1 - variance)
    if second is None:
        return None
    if bool(np.isclose(views[0], views[1], rtol=1e-5, atol=1e-7).all(axis=1).mean() > 0.99):
        return Advice(Reason.EQUAL_VIEWS, diagnosis)
    free = diagnosis.losses["Bayesian"].label_free
    if free is not None and free.auc < _BY_CHANCE:
        return Advice(Reason.UNRELATED_VIEWS, diagnosis, free.auc)
    return None


def _choice(diagnosis: EmbeddingDiagnosis) -> Advice:
    """The loss by what the diagnosis found, or what is missing."""
    by_default = diagnosis.tau_plus_from == "default"
    advice = Advice(Reason.FALSE_NEGATIVES, diagnosis)
    if diagnosis.false_negatives < _FEW and not by_default:
        return replace(advice, reason=Reason.FEW_FALSE_NEGATIVES)
    if diagnosis.labelled_items == diagnosis.items and not advice.are_pairs:
        return replace(advice, reason=Reason.ALL_LABELS)
    if diagnosis.labelled_items:
        return replace(advice, reason=Reason.SOME_LABELS)
    return advice


def _copies(diagnosis: EmbeddingDiagnosis, ids: Rows) -> dict[str, float]:
    """How far items that occur more than once matter."""
    counts = np.unique(ids, return_counts=True)[1]
    copied = float(counts[counts > 1].sum()) / len(ids)
    if copied < _COPIED:
        return {}
    # The number of equally frequent items that would meet as often; half of all for a random draw.
    is_skewed = len(ids) ** 2 / (counts**2).sum() < len(counts) / 2
    if not is_skewed or not Advice(Reason.FALSE_NEGATIVES, diagnosis).are_pairs:
        return {"copied": copied}
    return {"copied": copied, "most_frequent": float(counts.max()) / len(ids)}


def _unit(rows: Rows) -> NDArray[np.float64]:
    """Rows of any finite length, scaled to length 1."""
    unit: NDArray[np.float64] = unit_vectors(torch.from_numpy(rows.astype(np.float64))).numpy()
    return unit
