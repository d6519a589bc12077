"""The Bayesian loss: candidates weighted by how likely they are (hard) true negatives."""

from __future__ import annotations

from dataclasses import dataclass

from bayescl.axes import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.functional.objective import LogSumObjective
from bayescl.functional.ranks import Ranks
from bayescl.functional.weights import weights_of_cdf


@dataclass(frozen=True)
class Bayesian(LogSumObjective):
    """:func:`~bayescl.functional.bayesian_loss` at given parameters, as engines receive it."""

    alpha: float
    beta: float
    tau_plus: float
    ranks: Ranks = "mid"

    @property
    def may_drop(self) -> bool:
        """True if the last weight of a row may be 0, as at extreme parameter values."""
        return self.alpha == 1 or self.beta == 1

    def weights_of_cdf(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the importance weights of values of the empirical CDF."""
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
    r"""The Bayesian contrastive loss, one value per anchor.

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + \sum_i w_i\,e^{s_i}}

    with the importance weights of :func:`~bayescl.functional.logit_weights`, constants for the
    gradient.

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated.
        alpha: probability that a positive outscores a negative (the encoder's AUC), in [0.5, 1].
        beta: hardness, in [0.5, 1]; 0.5 is pure debiasing.
        tau_plus: prior probability that a candidate is a positive, in [0, 1).
        valid: True where a candidate counts. A row without candidates has loss 0.
        ranks: ``"mid"``, or ``"upper"`` as in the paper; see
            :func:`~bayescl.functional.empirical_cdf`.

    Returns:
        Non-negative losses; InfoNCE at ``alpha = beta = 0.5``.

    Raises:
        ValueError: if a parameter is out of range, or ``alpha`` and ``beta`` are both 1.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> bayesian_loss(positive, unlabeled, alpha=0.9, beta=0.5, tau_plus=0.1)
        tensor([0.4058])

    Reference:
        Liu et al., ICML 2024, Eqs. "debias" and "ome1", Algorithm 1.
    """
    objective = Bayesian(alpha, beta, tau_plus, ranks)
    return objective(positive, unlabeled, valid=valid)
