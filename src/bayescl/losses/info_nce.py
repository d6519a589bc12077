"""InfoNCE as a module."""

from __future__ import annotations

from typing_extensions import Unpack

from bayescl.axes import Tensor
from bayescl.functional.info_nce import InfoNCE
from bayescl.functional.objective import Objective
from bayescl.losses.base import ContrastiveLoss, SharedOptions
from bayescl.losses.denominators import MovingDenominators, for_engine


class InfoNCELoss(ContrastiveLoss):
    """InfoNCE (NT-Xent): every other row is pushed away, even those of the anchor's class.

    Every other loss here reduces to this baseline: the debiased loss at ``tau_plus = 0``, the
    Bayesian loss at ``alpha = beta = 0.5``.

    Args:
        denominators: moving estimates of each anchor's sum over candidates, which make small
            batches act large; calls then need ``indices``. Default: none.
        **shared: what every loss takes (temperature, normalize, reduction, engine, ...); see
            :class:`~bayescl.losses.ContrastiveLoss`.

    Example:
        >>> loss = InfoNCELoss(temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3))
        tensor(0.4327)

    Reference:
        Chen et al., "A Simple Framework for Contrastive Learning", ICML 2020, Eq. 1.

    See Also:
        :func:`bayescl.functional.info_nce_loss`: the same on logits.
    """

    def __init__(
        self,
        *,
        denominators: MovingDenominators | None = None,
        **shared: Unpack[SharedOptions],
    ) -> None:
        super().__init__(**shared)
        self.denominators = for_engine(denominators, self.engine)

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits, which does not depend on the temperature."""
        del temperature
        return InfoNCE()
