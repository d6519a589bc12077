r"""Alpha without labels: positive pairs against unlabeled candidates, corrected for the prior.

Without labels one can count how often a positive pair's score :math:`V` exceeds an unlabeled
candidate's, which is a true negative with probability :math:`\tau^-`, else a false negative. If
positive pairs scored like any two items of one class, :math:`P(V > FN)` would be 1/2 and
:math:`P(V > TN)` the AUC, which gives the estimate

.. math::
    P(V > U) = \tau^-\,P(V > TN) + \tau^+\,P(V > FN), \qquad
    \widehat{\mathrm{AUC}} = \frac{P(V > U) - \tau^+ / 2}{\tau^-}.

**Its bias.** Two views of one image are more alike than two images of one class. By the first
equation the estimate differs from the AUC by exactly

.. math::
    \underbrace{P(V > TN) - \mathrm{AUC}}_{\text{views against true negatives}}
    + \frac{\tau^+}{\tau^-}\,
      \underbrace{\bigl(P(V > FN) - \tfrac12\bigr)}_{\text{views against false negatives}},

and both terms are at least 0 if view pairs score higher than same-class pairs: with views the
estimate is biased *upwards*, and ``docs/estimation.md`` shows by how much. If positive pairs are a
random sample of same-class pairs, as in the generative model, it is unbiased.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl.axes import Bool, Float, Tensor
from bayescl.checks import check_choice, check_floating, check_mask, check_shape
from bayescl.estimation.auc import READINGS, MeasuredAlpha, Reading
from bayescl.functional.mixture import check_tau_plus


def win_rates(
    positive: Float[Tensor, " anchors"],
    unlabeled: Float[Tensor, "anchors candidates"],
    *,
    valid: Bool[Tensor, "anchors candidates"] | None = None,
) -> Float[Tensor, " anchors"]:
    """How often each anchor's positive outscores its candidates; a tie counts as half.

    Args:
        positive: score of each anchor's positive. Not differentiated.
        unlabeled: scores of each anchor's candidates. Not differentiated.
        valid: True where a candidate counts.

    Returns:
        Values in [0, 1] in float64; NaN for an anchor without candidates.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> win_rates(torch.tensor([1.0]), torch.tensor([[0.0, 1.0, 2.0, 0.5]]))
        tensor([0.6250], dtype=torch.float64)
    """
    for name, scores in (("positive", positive), ("unlabeled", unlabeled)):
        check_floating(name, scores)
    check_shape("positive", positive, ("anchors",))
    check_shape("unlabeled", unlabeled, (len(positive), "candidates"))
    wins = (positive[:, None] > unlabeled).double() + (positive[:, None] == unlabeled) / 2
    if valid is None:
        return wins.mean(dim=1)
    check_mask("valid", valid, unlabeled.shape)
    return torch.where(valid, wins, 0.0).sum(dim=1) / valid.sum(dim=1)


def label_free_alpha(
    positive: Float[Tensor, " anchors"],
    unlabeled: Float[Tensor, "anchors candidates"],
    *,
    tau_plus: float,
    reading: Reading,
    valid: Bool[Tensor, "anchors candidates"] | None = None,
) -> MeasuredAlpha:
    """Estimate ``alpha`` from positive pairs and unlabeled candidates, without labels.

    With two views as the positive pair the estimate is biased upwards; the module docstring derives
    by how much.

    Scores are those of :func:`win_rates`, ``tau_plus`` the prior probability that a candidate is of
    the anchor's class, in [0, 1), and the reading that of
    :func:`~bayescl.estimation.alpha_of_auc`.

    Returns:
        The estimated AUC, clamped to [0, 1], and ``alpha`` by both readings.

    Raises:
        ValueError: if shapes do not match, ``tau_plus`` is out of range, or no anchor has a
            candidate.

    Example:
        >>> positive, unlabeled = torch.tensor([0.5]), torch.tensor([[0.0, 0.2, 0.4, 0.6]])
        >>> estimate = label_free_alpha(positive, unlabeled, tau_plus=0.1, reading="auc")
        >>> round(estimate.alpha, 4)
        0.7778
    """
    check_choice("reading", reading, READINGS)
    check_tau_plus(tau_plus)
    rates = win_rates(positive, unlabeled, valid=valid)
    rates = rates[~rates.isnan()]
    if len(rates) == 0:
        raise ValueError("valid must leave at least one anchor a candidate, got none")
    auc = (float(rates.mean()) - tau_plus / 2) / (1 - tau_plus)
    return MeasuredAlpha(min(1.0, max(0.0, auc)), reading)


@dataclass(frozen=True)
class LabelFreeBias:
    """The bias of the label-free estimate, measured with labels.

    Attributes:
        true_negatives: the positive pairs' win rate over true negatives, less the AUC.
        false_negatives: their win rate over false negatives, less 1/2, times
            ``tau_plus / tau_minus``.
    """

    true_negatives: float
    false_negatives: float

    @property
    def total(self) -> float:
        """The estimated AUC less the AUC, if ``tau_plus`` is the true share."""
        return self.true_negatives + self.false_negatives


def label_free_bias(
    positive: Float[Tensor, " anchors"],
    unlabeled: Float[Tensor, "anchors candidates"],
    false_negative: Bool[Tensor, "anchors candidates"],
    *,
    auc: float,
    tau_plus: float,
    valid: Bool[Tensor, "anchors candidates"] | None = None,
) -> LabelFreeBias:
    """Measure both parts of the bias of :func:`label_free_alpha`.

    ``false_negative`` is True where the candidate is of the anchor's class; ``auc`` says how often
    a false negative outscores a true one.

    Returns:
        The two parts, each a mean over the anchors that have such candidates.

    Raises:
        ValueError: if shapes do not match or ``tau_plus`` is out of range.

    Example:
        >>> positive, unlabeled = torch.tensor([0.5]), torch.tensor([[0.0, 0.2, 0.4, 0.6]])
        >>> truth = torch.tensor([[False, False, True, False]])
        >>> bias = label_free_bias(positive, unlabeled, truth, auc=2 / 3, tau_plus=0.25)
        >>> round(bias.true_negatives, 4), round(bias.false_negatives, 4)
        (0.0, 0.1667)
    """
    check_tau_plus(tau_plus)
    counted = torch.ones_like(false_negative) if valid is None else valid
    over_true = win_rates(positive, unlabeled, valid=counted & ~false_negative)
    over_false = win_rates(positive, unlabeled, valid=counted & false_negative)
    return LabelFreeBias(
        true_negatives=float(over_true.nanmean()) - auc,
        false_negatives=tau_plus / (1 - tau_plus) * (float(over_false.nanmean()) - 0.5),
    )
