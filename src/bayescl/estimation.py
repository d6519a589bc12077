r"""Estimates of the parameters ``alpha`` and ``tau_plus`` of the Bayesian loss.

**With labels**, the AUC is measured. There are two ways to compute ``alpha`` from it; see
:class:`MeasuredAlpha`.

**Without labels**, count how often the score :math:`V` of a positive pair exceeds the score
:math:`U` of an unlabeled candidate. The candidate is a true negative with probability
:math:`\tau^-`, else a false negative. Assume that positive pairs score like any two items of one
class. Then :math:`P(V > FN)` is 1/2 and :math:`P(V > TN)` is the AUC, which gives the estimate

.. math::
    P(V > U) = \tau^-\,P(V > TN) + \tau^+\,P(V > FN), \qquad
    \widehat{\mathrm{AUC}} = \frac{P(V > U) - \tau^+ / 2}{\tau^-}.

Two views of one image are more similar than two images of one class. By the first equation, the
estimate then differs from the AUC by

.. math::
    \underbrace{P(V > TN) - \mathrm{AUC}}_{\text{views against true negatives}}
    + \frac{\tau^+}{\tau^-}\,
      \underbrace{\bigl(P(V > FN) - \tfrac12\bigr)}_{\text{views against false negatives}},

and both terms are at least 0. With views the estimate is therefore biased *upwards*;
``docs/estimation.md`` gives measured values. The estimate is unbiased if positive pairs are a
random sample of same-class pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl._checks import check_interval, check_mask, check_shape, check_tensor
from bayescl._ops.mixture import check_tau_plus
from bayescl._types import Bool, Float, Int, Tensor
from bayescl.functional import empirical_cdf, unit_vectors

__all__ = [
    "MeasuredAlpha",
    "label_free_alpha",
    "measured_alpha",
    "tau_plus_of_labels",
]

_CHUNK = 2**22
"""Number of similarities computed at a time, to bound the memory."""


@dataclass(frozen=True)
class MeasuredAlpha:
    r"""AUC of an encoder, and ``alpha`` computed from it in two ways.

    Liu et al. (ICML 2024) and their code set ``alpha`` to the encoder's AUC. In the paper's
    generative model the two differ: ``alpha`` is the weight of the larger of two draws in the
    density of positives, and the AUC is the probability that a positive outscores a true
    negative. :math:`\mathrm{AUC} = \tfrac12 + \tfrac{2\alpha - 1}{3}`.

    Attributes:
        auc: Probability that a positive outscores a true negative, in [0, 1].

    Raises:
        ValueError: if ``auc`` is out of range.

    Example:
        >>> measured = MeasuredAlpha(0.7)
        >>> round(measured.model, 3), measured.authors, MeasuredAlpha(0.9).model
        (0.8, 0.7, 1.0)

    Reference:
        ``reproduction/README.md``, "Simulation".
    """

    auc: float

    def __post_init__(self) -> None:
        check_interval("auc", self.auc, 0.0, 1.0)

    @property
    def authors(self) -> float:
        """Alpha as in the authors' code: the AUC, clamped below at 0.5."""
        return max(0.5, self.auc)

    @property
    def model(self) -> float:
        r"""Alpha that gives this AUC in the generative model, in [0.5, 1].

        It equals :math:`\tfrac12 + \tfrac32(\mathrm{AUC} - \tfrac12)`, at most 1. The generative
        model cannot have an AUC above 5/6.
        """
        return min(1.0, max(0.5, 0.5 + 1.5 * (self.auc - 0.5)))


def anchor_aucs(
    scores: Float[Tensor, "anchors candidates"],
    same_class: Bool[Tensor, "anchors candidates"],
    *,
    valid: Bool[Tensor, "anchors candidates"] | None = None,
) -> Float[Tensor, " anchors"]:
    """Compute the ROC-AUC of every row in float64; NaN for a row without both classes."""
    positive, negative = same_class, ~same_class
    if valid is not None:
        positive, negative = positive & valid, negative & valid
    positives, negatives = positive.sum(dim=1).double(), negative.sum(dim=1).double()
    cdf = empirical_cdf(scores, valid=valid).double()
    # 2 N cdf is an integer: twice the mid-rank, minus one. The rank sum of the positives, minus its
    # smallest possible value, is the number of pairs in which the positive scores higher.
    doubled = (2 * (positives + negatives)[:, None] * cdf).round()
    wins = (torch.where(positive, doubled, 0.0).sum(dim=1) - positives.square()) / 2
    return wins / (positives * negatives)


@torch.no_grad()
def measured_alpha(
    embeddings: Float[Tensor, "items dim"], labels: Int[Tensor, " items"]
) -> MeasuredAlpha:
    """Measure ``alpha`` on a small labeled part of the data.

    The AUC is the macro-averaged ROC-AUC of cosines, with each item as a query against all others.
    With a row per query in ``is_positive`` and ``cosines``, it equals scikit-learn's
    ``roc_auc_score(is_positive.T, cosines.T, average="macro")``, as in the training script of Liu
    et al., ICML 2024. Do not use the test set: its labels would
    influence training.

    Args:
        embeddings: Embedding of each labeled item. Not differentiated.
        labels: Class of each item.

    Returns:
        The AUC, with ``alpha`` computed in both ways. Items that lack candidates of their own
        class or of another class are excluded.

    Raises:
        ValueError: if shapes do not match, or no item has candidates of its own class and of
            another class.

    Example:
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.8, 0.2]])
        >>> measured = measured_alpha(embeddings, torch.tensor([0, 0, 1, 1]))
        >>> measured.auc, measured.model, measured.authors
        (0.75, 0.875, 0.75)
    """
    check_tensor("embeddings", embeddings, floating=True)
    check_shape("embeddings", embeddings, ("items", "dim"))
    check_shape("labels", labels, embeddings.shape[:1])
    rows = torch.arange(len(embeddings), device=embeddings.device)
    everyone = unit_vectors(embeddings)
    aucs = []
    for own in rows.split(max(1, _CHUNK // max(1, len(embeddings)))):
        scores = everyone[own] @ everyone.T
        valid = torch.ones_like(scores, dtype=torch.bool).scatter(1, own[:, None], False)
        aucs.append(anchor_aucs(scores, labels[own, None] == labels, valid=valid))
    auc = float(torch.cat(aucs).nanmean()) if aucs else torch.nan
    if auc != auc:
        raise ValueError(
            "at least one item must have candidates of its own class and of another class"
        )
    return MeasuredAlpha(auc)


def label_free_alpha(
    positive: Float[Tensor, " anchors"],
    unlabeled: Float[Tensor, "anchors candidates"],
    *,
    tau_plus: float,
    valid: Bool[Tensor, "anchors candidates"] | None = None,
) -> MeasuredAlpha:
    """Estimate ``alpha`` from positive pairs and unlabeled candidates, without labels.

    With two views as the positive pair, the estimate is biased upwards: two views of an item are
    more similar than two items of a class.

    Args:
        positive: Score of each anchor's positive. Not differentiated.
        unlabeled: Scores of each anchor's candidates. Not differentiated. A tie counts as half.
        tau_plus: Prior probability that a candidate is of the anchor's class, in [0, 1). At 0, the
            estimate is the probability that a positive outscores a candidate.
        valid: True where a candidate counts. Default: all count.

    Returns:
        The estimated AUC, clamped to [0, 1], with ``alpha`` computed in both ways.

    Raises:
        ValueError: if shapes do not match, ``tau_plus`` is out of range, or no anchor has a
            candidate.

    Example:
        >>> positive, unlabeled = torch.tensor([0.5]), torch.tensor([[0.0, 0.2, 0.4, 0.6]])
        >>> round(label_free_alpha(positive, unlabeled, tau_plus=0.1).authors, 4)
        0.7778
    """
    check_tau_plus(tau_plus)
    for name, scores in (("positive", positive), ("unlabeled", unlabeled)):
        check_tensor(name, scores, floating=True)
    check_shape("positive", positive, ("anchors",))
    check_shape("unlabeled", unlabeled, (len(positive), "candidates"))
    wins = (positive[:, None] > unlabeled).double() + (positive[:, None] == unlabeled) / 2
    if valid is not None:
        check_mask("valid", valid, unlabeled.shape)
        wins = wins.masked_fill(~valid, torch.nan)
    rate = float(wins.nanmean(dim=1).nanmean())
    if rate != rate:
        raise ValueError("valid must be True for at least one candidate")
    auc = (rate - tau_plus / 2) / (1 - tau_plus)
    return MeasuredAlpha(min(1.0, max(0.0, auc)))


def tau_plus_of_labels(labels: Int[Tensor, " items"]) -> float:
    r"""Compute the prior from labels: the mean share of candidates with the anchor's class.

    For n items with class shares :math:`\pi_c`, it is :math:`(n\sum_c\pi_c^2 - 1)/(n - 1)`. For
    large balanced classes it is near ``1 / num_classes``. For unbalanced classes it is larger,
    because large classes have both more anchors and more false negatives.

    Args:
        labels: Class of each item, at least two items.

    Returns:
        A value in [0, 1).

    Raises:
        ValueError: if there are fewer than two items or classes.

    Example:
        >>> round(tau_plus_of_labels(torch.tensor([0, 0, 1, 1])), 4)
        0.3333
    """
    if labels.ndim != 1 or len(labels) < 2:
        raise ValueError(
            f"labels must have shape [items] with at least 2 items, got {list(labels.shape)}"
        )
    counts = torch.unique(labels, return_counts=True)[1].double()
    if len(counts) < 2:
        raise ValueError("labels must have at least two classes: a single class has no negatives")
    total = counts.sum()
    return float((counts * (counts - 1)).sum() / (total * (total - 1)))
