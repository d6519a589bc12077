"""The debiased loss, and the hard-negative loss, which first weights candidates by their logits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from typing_extensions import Unpack

from bayescl.axes import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.checks import check_finite_number, check_non_negative
from bayescl.losses.base import ContrastiveLoss, SharedOptions
from bayescl.losses.parameters import PRIORS_WORTH_TRYING, Hyperparameter, class_prior
from bayescl.ops.log_space import contrast, softplus
from bayescl.ops.mixture import check_tau_plus
from bayescl.ops.objective import LogSumObjective, Objective, Slopes


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


class DebiasedContrastiveLoss(ContrastiveLoss):
    """InfoNCE with the expected share of positives subtracted from the sum over candidates.

    All candidates keep the same weight. Only their sum is corrected, with a floor where the
    correction would make it impossibly small.

    Args:
        tau_plus: prior probability that a candidate is a positive, in [0, 1); default: 0.1.
        num_classes: sets ``tau_plus`` to ``1 / num_classes`` if it is not given.
        minimum_similarity: the smallest possible similarity, for the floor; -1 for cosines. With
            ``normalize=False`` similarities are unbounded: pass a bound that yours obey.
        **shared: what every loss takes; see :class:`~bayescl.losses.ContrastiveLoss`.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> loss = DebiasedContrastiveLoss(tau_plus=0.1, temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3))
        tensor(0.1459)

    Reference:
        Chuang et al., "Debiased Contrastive Learning", NeurIPS 2020.

    See Also:
        :func:`bayescl.functional.debiased_loss`: the same on logits.
    """

    tau_plus = Hyperparameter(check_tau_plus, *PRIORS_WORTH_TRYING)
    minimum_similarity = Hyperparameter(
        lambda value: check_finite_number("minimum_similarity", value)
    )
    hyperparameters: tuple[str, ...] = ("tau_plus", "minimum_similarity")

    def __init__(
        self,
        *,
        tau_plus: float | None = None,
        num_classes: int | None = None,
        minimum_similarity: float = -1.0,
        **shared: Unpack[SharedOptions],
    ) -> None:
        super().__init__(**shared)
        self.tau_plus = class_prior(tau_plus, num_classes)
        self.minimum_similarity = minimum_similarity

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits, floored for the given temperature."""
        return Debiased(tau_plus=self.tau_plus, minimum_logit=self.minimum_similarity / temperature)


class HardContrastiveLoss(DebiasedContrastiveLoss):
    """The debiased loss with candidates weighted by a power of their exponentiated logit.

    Args:
        concentration: exponent of the weights, at least 0; 0 is the debiased loss. The reference
            calls it beta, which means something else here.
        tau_plus: as in :class:`DebiasedContrastiveLoss`, and so are ``num_classes`` and
            ``minimum_similarity``.
        **shared: what every loss takes; see :class:`~bayescl.losses.ContrastiveLoss`.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> loss = HardContrastiveLoss(concentration=1.0, tau_plus=0.1, temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3))
        tensor(0.1459)

    Reference:
        Robinson et al., "Contrastive Learning with Hard Negative Samples", ICLR 2021.

    See Also:
        :func:`bayescl.functional.hard_loss`: the same on logits.
    """

    other_names: ClassVar[Mapping[str, str]] = {"beta": "concentration"}
    concentration = Hyperparameter(
        lambda value: check_non_negative("concentration", value), 0.1, 0.5, 0.25
    )
    hyperparameters = ("tau_plus", "minimum_similarity", "concentration")

    def __init__(
        self,
        *,
        concentration: float = 1.0,
        tau_plus: float | None = None,
        num_classes: int | None = None,
        minimum_similarity: float = -1.0,
        **shared: Unpack[SharedOptions],
    ) -> None:
        super().__init__(
            tau_plus=tau_plus,
            num_classes=num_classes,
            minimum_similarity=minimum_similarity,
            **shared,
        )
        self.concentration = concentration

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits, floored for the given temperature."""
        return Hard(
            tau_plus=self.tau_plus,
            concentration=self.concentration,
            minimum_logit=self.minimum_similarity / temperature,
        )
