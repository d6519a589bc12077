"""The debiased loss, and the hard-negative loss, which also weights candidates by their logits."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import torch

from bayescl._checks import check_finite_number, check_interval
from bayescl._engine import Engine
from bayescl._ops.log_space import softplus
from bayescl._ops.mixture import check_tau_plus, class_prior
from bayescl._ops.objective import LogSumObjective, Objective, Slopes
from bayescl._types import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.contrastive_loss import ContrastiveLoss, Reduction
from bayescl.temperature import LearnableTemperature

check_concentration = partial(
    check_interval, "concentration", low=0.0, high=math.inf, open_high=True
)


@dataclass(frozen=True)
class Debiased(LogSumObjective):
    """Objective of :func:`~bayescl.functional.debiased_loss` with fixed parameters."""

    tau_plus: float
    minimum_logit: float | Tensor

    powers = (1.0, 0.0)  # the sum over candidates, and the number of candidates

    def from_log_sums(
        self, positive: PositiveLogits, log_sums: tuple[Float[Tensor, "#anchors"], ...]
    ) -> PerAnchor:
        """Compute one loss per anchor from the logarithms of the sums of :attr:`powers`."""
        check_tau_plus(self.tau_plus)
        log_sum, *log_tilt, log_count = log_sums
        if log_tilt:  # the weights have mean 1
            log_sum = log_sum - (log_tilt[0] - log_count)
        floor = log_count + self.minimum_logit
        # A comparison with NaN is False, so the condition selects the floor and NaN propagates.
        is_floored = log_count == -torch.inf
        if self.tau_plus > 0:
            # log(e^x - e^y) = x + log(1 - e^(y - x)), with the share e^(y - x) below 1.
            log_share = math.log(self.tau_plus) + log_count + positive - log_sum
            is_floored = is_floored | (log_share >= 0)
            # Both branches of torch.where are differentiated: the unused one needs a finite value.
            safe_share = torch.where(is_floored, -1.0, log_share)
            log_sum = log_sum + (-torch.expm1(safe_share)).log() - math.log1p(-self.tau_plus)
        rest = torch.where(is_floored | (log_sum <= floor), floor, log_sum)
        return softplus(rest - positive)

    def slopes(self, positive: PositiveLogits, log_sums: tuple[PerAnchor | float, ...]) -> Slopes:
        r"""Return the loss and its derivatives in closed form, for finite logits.

        Let :math:`e^m` be the mean exponential and :math:`k = 1 - \tau^+ e^{s^+ - m}`. The gap
        :math:`\log G - s^+ = m - s^+ + \log k + \log N - \log\tau^-` has the derivatives
        :math:`1 / k` with respect to m and :math:`-1 / k` to :math:`s^+`; on the floor, 0 and -1.
        """
        if type(self).from_log_sums is not Debiased.from_log_sums:
            return super().slopes(positive, log_sums)
        tau_plus = check_tau_plus(self.tau_plus)
        log_sum, *log_tilt, log_count = log_sums
        assert isinstance(log_sum, Tensor)  # only the number of candidates may be a number
        ahead = positive - (log_sum - (log_tilt[0] if log_tilt else log_count))
        if isinstance(log_count, Tensor):  # rows without candidates need any finite value
            ahead = ahead.masked_fill(log_count == -torch.inf, 0.0)
        log_tau_minus = math.log1p(-tau_plus)
        if tau_plus == 0:
            kept, gap = torch.ones_like(ahead), -ahead
        else:
            kept = torch.rsub(ahead.exp(), 1, alpha=tau_plus).clamp_(min=0)
            gap = kept.log().sub_(ahead)
        floor = self.minimum_logit + log_tau_minus - positive
        on_floor = gap <= floor
        gap = torch.maximum(gap, floor).add_(log_count - log_tau_minus)
        pull = gap.sigmoid().div_(kept.masked_fill_(on_floor, 1.0))
        grad_sum = pull.masked_fill(on_floor, 0.0)
        # With weights, the sum is divided by the sum of the weights.
        return Slopes(softplus(gap), pull, (grad_sum, -grad_sum) if log_tilt else (grad_sum,))


@dataclass(frozen=True)
class Hard(Debiased):
    """Objective of :func:`~bayescl.functional.hard_loss` with fixed parameters."""

    concentration: float

    @property
    def powers(self) -> tuple[float, ...]:  # type: ignore[override]
        """Exponents p of the sums of ``exp(p * logit)`` over candidates.

        They give the weighted sum, the sum of the weights (omitted if ``concentration`` is 0, where
        all weights are 1), and the number of candidates.
        """
        check_concentration(self.concentration)
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
    r"""Compute the debiased contrastive loss, one value per anchor.

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + G}, \qquad
        G = \max\Bigl\{\frac{\sum_i e^{s_i} - N \tau^+ e^{s^+}}{\tau^-},\;
        N e^{s_{\min}}\Bigr\}

    Args:
        positive: Logit of each anchor's positive. Differentiated.
        unlabeled: Logits of each anchor's candidates. Differentiated.
        tau_plus: Prior probability that a candidate is a positive, in [0, 1).
        minimum_logit: Smallest possible logit, which sets the floor of the estimate. It is
            ``-1 / temperature`` for cosine similarities. Differentiated if it is a tensor.
        valid: True where a candidate counts. A row without candidates has loss 0. Default: all
            count.

    Returns:
        Non-negative losses. They equal InfoNCE at ``tau_plus = 0``.

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
    r"""Compute the hard-negative contrastive loss, one value per anchor.

    This is the debiased loss with weights :math:`r_i` on the candidates:

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + G}, \qquad
        G = \max\Bigl\{\frac{\sum_i r_i e^{s_i} - N \tau^+ e^{s^+}}{\tau^-},\;
        N e^{s_{\min}}\Bigr\}, \qquad
        r_i = \frac{e^{c s_i}}{\frac{1}{N}\sum_j e^{c s_j}}.

    Unlike the Bayesian weights, they depend on the values of the logits, and gradients flow through
    them.

    Args:
        positive: Logit of each anchor's positive. Differentiated.
        unlabeled: Logits of each anchor's candidates. Differentiated.
        tau_plus: Prior probability that a candidate is a positive, in [0, 1).
        concentration: Exponent :math:`c` of the weights, at least 0. The reference calls it beta.
        minimum_logit: As in :func:`~bayescl.functional.debiased_loss`.
        valid: True where a candidate counts. Default: all count.

    Returns:
        Non-negative losses. They equal the debiased loss at ``concentration = 0``.

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


class DebiasedContrastiveLoss(ContrastiveLoss):
    """Debiased contrastive loss: InfoNCE with the expected share of positives subtracted.

    All candidates have the same weight. The correction applies to their sum, which is bounded below
    by its smallest possible value.

    Args:
        tau_plus: Prior probability that a candidate is a positive, in [0, 1). Default: 0.1.
        num_classes: Number of classes. Sets ``tau_plus`` to ``1 / num_classes`` if ``tau_plus`` is
            ``None``. Default: not used.
        minimum_similarity: Smallest possible similarity, which sets the lower bound of the sum.
            With ``normalize=False``, pass a lower bound of your similarities. Default: -1, for
            cosines.
        temperature, positive_share, teacher_temperature, normalize:
            As in :class:`~bayescl.ContrastiveLoss`.
        reduction, engine, chunk_size, gather, check_finite:
            As in :class:`~bayescl.ContrastiveLoss`.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> loss = DebiasedContrastiveLoss(tau_plus=0.1, temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3))
        tensor(0.1459)

    Reference:
        Chuang et al., "Debiased Contrastive Learning", NeurIPS 2020.

    See Also:
        :func:`bayescl.functional.debiased_loss`: the same loss on logits.
    """

    hyperparameters: ClassVar = {
        **ContrastiveLoss.hyperparameters,
        "tau_plus": check_tau_plus,
        "minimum_similarity": partial(check_finite_number, "minimum_similarity"),
    }
    tau_plus: float
    minimum_similarity: float

    def __init__(
        self,
        *,
        tau_plus: float | None = None,
        num_classes: int | None = None,
        minimum_similarity: float = -1.0,
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
        self.tau_plus = class_prior(tau_plus, num_classes)
        self.minimum_similarity = minimum_similarity

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits. Its lower bound depends on the temperature."""
        return Debiased(tau_plus=self.tau_plus, minimum_logit=self.minimum_similarity / temperature)


class HardContrastiveLoss(DebiasedContrastiveLoss):
    """Hard-negative contrastive loss: the debiased loss with more weight on large logits.

    Args:
        concentration: Exponent of the weights, at least 0. At 0 this is the debiased loss. The
            reference calls it beta. Default: 1.
        tau_plus: Prior probability that a candidate is a positive, in [0, 1). Default: 0.1.
        num_classes: As in :class:`DebiasedContrastiveLoss`.
        minimum_similarity: As in :class:`DebiasedContrastiveLoss`.
        temperature, positive_share, teacher_temperature, normalize:
            As in :class:`~bayescl.ContrastiveLoss`.
        reduction, engine, chunk_size, gather, check_finite:
            As in :class:`~bayescl.ContrastiveLoss`.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> loss = HardContrastiveLoss(concentration=1.0, tau_plus=0.1, temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3))
        tensor(0.1459)

    Reference:
        Robinson et al., "Contrastive Learning with Hard Negative Samples", ICLR 2021.

    See Also:
        :func:`bayescl.functional.hard_loss`: the same loss on logits.
    """

    hyperparameters: ClassVar = {
        **DebiasedContrastiveLoss.hyperparameters,
        "concentration": check_concentration,
    }
    concentration: float

    def __init__(
        self,
        *,
        concentration: float = 1.0,
        tau_plus: float | None = None,
        num_classes: int | None = None,
        minimum_similarity: float = -1.0,
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
            tau_plus=tau_plus, num_classes=num_classes, minimum_similarity=minimum_similarity,
            temperature=temperature, positive_share=positive_share,
            teacher_temperature=teacher_temperature, normalize=normalize, reduction=reduction,
            engine=engine, chunk_size=chunk_size, gather=gather, check_finite=check_finite,
        )  # fmt: skip
        self.concentration = concentration

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits. Its lower bound depends on the temperature."""
        return Hard(
            tau_plus=self.tau_plus,
            concentration=self.concentration,
            minimum_logit=self.minimum_similarity / temperature,
        )
