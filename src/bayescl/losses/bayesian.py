"""The Bayesian loss: candidates are weighted by their probability of being true negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from bayescl._checks import check_choice
from bayescl._engine import Engine
from bayescl._ops.mixture import PairMixture, check_alpha, check_beta, check_tau_plus, class_prior
from bayescl._ops.objective import LogSumObjective, Objective
from bayescl._ops.ranks import RANKS, Ranks
from bayescl._ops.weights import weights_of_cdf
from bayescl._types import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.contrastive_loss import ContrastiveLoss, Reduction
from bayescl.temperature import LearnableTemperature


@dataclass(frozen=True)
class Bayesian(LogSumObjective):
    """Objective of :func:`~bayescl.functional.bayesian_loss` with fixed parameters."""

    alpha: float
    beta: float
    tau_plus: float
    ranks: Ranks = "mid"

    def weights_of_cdf(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the weight of each candidate, given its value of the empirical CDF."""
        return weights_of_cdf(cdf, alpha=self.alpha, beta=self.beta, tau_plus=self.tau_plus)


def bayesian_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    alpha: float,
    beta: float,
    tau_plus: float,
    valid: CandidateMask | None = None,
    ranks: Ranks = "mid",
) -> PerAnchor:
    r"""Compute the Bayesian contrastive loss, one value per anchor.

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + \sum_i w_i\,e^{s_i}}

    with :math:`w_i` the importance weights of :func:`~bayescl.functional.logit_weights`. The
    weights are treated as constants by the gradient.

    Args:
        positive: Logit of each anchor's positive. Differentiated.
        unlabeled: Logits of each anchor's candidates. Differentiated.
        alpha: Quality of the encoder, in [0.5, 1]; the paper uses its AUC. See
            :class:`~bayescl.estimation.MeasuredAlpha`.
        beta:  Hardness, in [0.5, 1]. At 0.5 the loss only corrects for false negatives. Larger
            values upweight similar candidates.
        tau_plus: Prior probability that a candidate is a positive, in [0, 1).
        valid: True where a candidate counts. A row without candidates has loss 0. Default: all
            count.
        ranks: Kind of rank, ``"mid"`` or ``"upper"``; see
            :func:`~bayescl.functional.empirical_cdf`. The paper uses ``"upper"``. Default:
            ``"mid"``.

    Returns:
        Non-negative losses. They equal InfoNCE at ``alpha = beta = 0.5``.

    Raises:
        ValueError: if a parameter is out of range, or ``alpha`` and ``beta`` are both 1.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> bayesian_loss(positive, unlabeled, alpha=0.9, beta=0.5, tau_plus=0.1)
        tensor([0.4058])

    Reference:
        Liu et al., ICML 2024, Algorithm 1.
    """
    objective = Bayesian(alpha, beta, tau_plus, ranks)
    return objective(positive, unlabeled, valid=valid)


class BayesianContrastiveLoss(ContrastiveLoss):
    """Bayesian contrastive loss: InfoNCE with importance weights on the candidates.

    At ``beta=0.5``, a candidate's weight increases with its probability of being a true negative.
    Larger values of ``beta`` raise the weights of similar candidates. A weight depends only on
    the candidate's rank among the anchor's candidates, so the loss makes no assumption about the
    distribution of logits. ``alpha``, ``beta`` and ``tau_plus`` can be changed during training and
    are part of ``state_dict``.

    Args:
        tau_plus: Prior probability that a candidate is a positive, in [0, 1). Default: 0.1.
        alpha: Quality of the encoder, in [0.5, 1]; the paper uses its AUC. See
            :class:`~bayescl.estimation.MeasuredAlpha`. Default: 0.9.
        beta: Hardness, in [0.5, 1]. At 0.5 the loss only debiases; larger values give hard
            negatives more weight. Default: 0.5.
        num_classes: Number of classes. Sets ``tau_plus`` to ``1 / num_classes`` if ``tau_plus`` is
            ``None``. Default: not used.
        ranks: Kind of rank, ``"mid"`` or ``"upper"``; see
            :func:`~bayescl.functional.empirical_cdf`. The paper uses ``"upper"``. Mid-ranks have a
            smaller error with few candidates. Default: ``"mid"``.
        temperature, positive_share, teacher_temperature, normalize:
            As in :class:`~bayescl.ContrastiveLoss`.
        reduction, engine, chunk_size, gather, check_finite:
            As in :class:`~bayescl.ContrastiveLoss`.

    Raises:
        ValueError: if an argument is out of range, or ``alpha`` and ``beta`` are both 1.

    Example:
        >>> loss = BayesianContrastiveLoss(tau_plus=0.1, alpha=0.9, beta=0.5, temperature=0.5)
        >>> view_1 = torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]])
        >>> loss(view_1, view_1)
        tensor(0.9669)

    Reference:
        Liu et al., "Bayesian Self-Supervised Contrastive Learning", ICML 2024.

    See Also:
        :func:`bayescl.functional.bayesian_loss`: the same loss on logits.
    """

    hyperparameters: ClassVar = {
        **ContrastiveLoss.hyperparameters,
        "tau_plus": check_tau_plus,
        "alpha": check_alpha,
        "beta": check_beta,
    }
    tau_plus: float
    alpha: float
    beta: float

    def __init__(
        self,
        *,
        tau_plus: float | None = None,
        alpha: float = 0.9,
        beta: float = 0.5,
        num_classes: int | None = None,
        ranks: Ranks = "mid",
        temperature: float | LearnableTemperature = 0.5,
        positive_share: float | None = 0.5,
        teacher_temperature: float | None = None,
        normalize: bool = True,
        reduction: Reduction = "mean",
        engine: Engine = "auto",
        chunk_size: int | None = None,
        gather: bool = False,
        check_finite: bool = False,
    ) -> None:
        super().__init__(
            temperature=temperature, positive_share=positive_share,
            teacher_temperature=teacher_temperature, normalize=normalize, reduction=reduction,
            engine=engine, chunk_size=chunk_size, gather=gather, check_finite=check_finite,
        )  # fmt: skip
        check_choice("ranks", ranks, RANKS)
        self.tau_plus = class_prior(tau_plus, num_classes)
        self.alpha = alpha
        self.beta = beta
        PairMixture.hard_negatives(self.alpha, self.beta)  # raises if both are 1
        self.ranks = ranks

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits, which does not depend on the temperature."""
        del temperature
        return Bayesian(self.alpha, self.beta, self.tau_plus, self.ranks)
