"""The debiased loss: the positives' expected share is subtracted from the candidates' sum.

The hard-negative loss first weights candidates by a power of their exponentiated logit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from bayescl.axes import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.checks import check_non_negative
from bayescl.functional.log_space import contrast, softplus
from bayescl.functional.mixture import check_tau_plus
from bayescl.functional.objective import LogSumObjective, Slopes


@dataclass(frozen=True)
class Debiased(LogSumObjective):
    """:func:`~bayescl.functional.debiased_loss` at given parameters, as engines receive it."""

    tau_plus: float
    minimum_logit: float | Tensor

    powers = (1.0, 0.0)  # the candidates' sum, and their number

    def from_log_sums(
        self, positive: PositiveLogits, log_sums: tuple[Float[Tensor, "#anchors"], ...]
    ) -> PerAnchor:
        """Return the loss, given the logs of those sums."""
        log_sum, log_count = _of_mean_1(log_sums)
        rest = subtract_positives(log_sum, positive, log_count, self.tau_plus, self.minimum_logit)
        return contrast(positive, rest)

    def slopes(self, positive: PositiveLogits, log_sums: tuple[PerAnchor, ...]) -> Slopes:
        """Return the loss and its derivatives in closed form."""
        if type(self).from_log_sums is not Debiased.from_log_sums:
            return super().slopes(positive, log_sums)
        log_sum, log_count = _of_mean_1(log_sums)
        slopes = slopes_of_rest(log_sum, positive, log_count, self.tau_plus, self.minimum_logit)
        if len(log_sums) == 2:
            return slopes
        (grad_sum,) = slopes.log_sums  # the sum of the weights divides
        return slopes._replace(log_sums=(grad_sum, -grad_sum))


def _of_mean_1(log_sums: tuple[Tensor, ...]) -> tuple[Tensor, Tensor]:
    """Log of the sum, with weights of mean 1 if there are any, and of the number of candidates."""
    log_sum, *log_tilt, log_count = log_sums
    return log_sum - (log_tilt[0] - log_count) if log_tilt else log_sum, log_count


@dataclass(frozen=True)
class Hard(Debiased):
    """:func:`~bayescl.functional.hard_loss` at given parameters, as engines receive it."""

    concentration: float

    @property
    def powers(self) -> tuple[float, ...]:  # type: ignore[override]
        """The weighted sum, the sum of the weights, and the number of candidates."""
        check_non_negative("concentration", self.concentration)
        tilt = (self.concentration,) if self.concentration > 0 else ()
        return (1 + self.concentration, *tilt, 0.0)


def debiased_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    tau_plus: float,
    minimum_logit: float | Float[Tensor, ""],
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""The debiased contrastive loss, one value per anchor.

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + G}, \qquad
        G = \max\Bigl\{\frac{\sum_i e^{s_i} - N \tau^+ e^{s^+}}{\tau^-},\;
        N e^{s_{\min}}\Bigr\}

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated.
        tau_plus: prior probability that a candidate is a positive, in [0, 1).
        minimum_logit: smallest possible logit, which sets the floor of the estimate;
            ``-1 / temperature`` for cosine similarities. Differentiated if it is a tensor.
        valid: True where a candidate counts. A row without candidates has loss 0.

    Returns:
        Non-negative losses; InfoNCE at ``tau_plus = 0``.

    Raises:
        ValueError: if ``tau_plus`` is out of range.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> debiased_loss(positive, unlabeled, tau_plus=0.1, minimum_logit=-2.0)
        tensor([0.2904])

    Reference:
        Chuang et al., "Debiased Contrastive Learning", NeurIPS 2020, Eqs. 7 and 8.
    """
    return Debiased(tau_plus, minimum_logit)(positive, unlabeled, valid=valid)


def hard_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    tau_plus: float,
    concentration: float,
    minimum_logit: float | Float[Tensor, ""],
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""The hard-negative contrastive loss, one value per anchor.

    The debiased loss with every candidate weighted by a power of its own exponential, with
    :math:`c` the ``concentration``, at least 0 (called beta in the reference):

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + G}, \qquad
        G = \max\Bigl\{\frac{\sum_i r_i e^{s_i} - N \tau^+ e^{s^+}}{\tau^-},\;
        N e^{s_{\min}}\Bigr\}, \qquad
        r_i = \frac{e^{c s_i}}{\frac{1}{N}\sum_j e^{c s_j}}.

    Unlike the Bayesian weights, these depend on the values of the logits, and gradients flow
    through them. Other arguments are those of :func:`~bayescl.functional.debiased_loss`.

    Returns:
        Non-negative losses; the debiased loss at ``concentration = 0``.

    Raises:
        ValueError: if ``tau_plus`` or ``concentration`` is out of range.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> hard_loss(positive, unlabeled, tau_plus=0.1, concentration=1.0, minimum_logit=-2.0)
        tensor([0.3759])

    Reference:
        Robinson et al., "Contrastive Learning with Hard Negative Samples", ICLR 2021, Eq. 4.
    """
    return Hard(tau_plus, minimum_logit, concentration)(positive, unlabeled, valid=valid)


def subtract_positives(
    log_sum: Float[Tensor, " anchors"],
    positive: Float[Tensor, " anchors"],
    log_count: Float[Tensor, "#anchors"],
    tau_plus: float,
    minimum_logit: float | Float[Tensor, ""],
) -> Float[Tensor, " anchors"]:
    """Log of the floored estimate ``G`` above, from the log of the candidates' sum."""
    check_tau_plus(tau_plus)
    floor = log_count + minimum_logit
    # NaN compares as False, and is what then comes out: conditions say where the floor holds.
    empty = log_count == -torch.inf
    if tau_plus == 0:
        return torch.where(empty | (log_sum <= floor), floor, log_sum)
    # log(e^x - e^y) = x + log(1 - e^(y - x)), where the share e^(y - x) is below 1.
    log_share = math.log(tau_plus) + log_count + positive - log_sum
    none_left = empty | (log_share >= 0)
    # Both branches of a `where` are differentiated: give the unused one a harmless share.
    safe_share = torch.where(none_left, -1.0, log_share)
    rest = log_sum + (-torch.expm1(safe_share)).log() - math.log1p(-tau_plus)
    return torch.where(none_left | (rest <= floor), floor, rest)


def slopes_of_rest(
    log_sum: Float[Tensor, " anchors"],
    positive: Float[Tensor, " anchors"],
    log_count: Float[Tensor, "#anchors"],
    tau_plus: float,
    minimum_logit: float | Float[Tensor, ""],
) -> Slopes:
    """The loss against :func:`subtract_positives` and its derivatives, for finite logits.

    The same formulas without autograd, so what is not selected may be anything.
    """
    check_tau_plus(tau_plus)
    floor, kept, rest = log_count + minimum_logit, None, log_sum
    if tau_plus > 0:
        # k = 1 - N tau+ e^s+ / S is the share that is kept, and log G = log S + log k - log tau-.
        kept = (positive - log_sum).add_(log_count + math.log(tau_plus)).expm1_().neg_()
        rest = kept.clamp_(min=0).log().add_(log_sum).sub_(math.log1p(-tau_plus))
    above = rest > floor  # not in an empty row, where both are -inf or the rest is NaN
    gap = torch.where(above, rest, floor).sub_(positive)
    slope = gap.sigmoid()
    # d log G / d log S = 1 / k and d log G / d s+ = 1 - 1 / k; on the floor both are 0.
    grad_sum = torch.where(above, slope if kept is None else slope / kept, 0)
    return Slopes(softplus(gap), torch.where(above, grad_sum, slope).neg_(), (grad_sum,))
