"""The debiased and the hard-negative loss as modules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from typing_extensions import Unpack

from bayescl.axes import Tensor
from bayescl.checks import check_finite_number, check_non_negative
from bayescl.functional.debiased import Debiased, Hard
from bayescl.functional.mixture import check_tau_plus
from bayescl.functional.objective import Objective
from bayescl.losses.base import ContrastiveLoss, SharedOptions
from bayescl.losses.parameters import PRIORS_WORTH_TRYING, Hyperparameter, class_prior


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
