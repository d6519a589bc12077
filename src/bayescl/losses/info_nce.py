"""InfoNCE as a module, and the oracles: InfoNCE that is told which candidates are of one class."""

from __future__ import annotations

from dataclasses import replace

import torch
from typing_extensions import Unpack

from bayescl.axes import Tensor
from bayescl.engines import ContrastiveBatch, Labels
from bayescl.functional.info_nce import InfoNCE
from bayescl.functional.latent import Latent, check_attraction
from bayescl.functional.objective import Objective
from bayescl.losses.base import ContrastiveLoss, SharedOptions
from bayescl.losses.denominators import MovingDenominators, for_engine
from bayescl.losses.hyperparameters import Hyperparameter


class InfoNCELoss(ContrastiveLoss):
    """InfoNCE (NT-Xent): every other row is pushed away, even those of the anchor's class.

    Every other loss here reduces to this baseline: the debiased loss at ``tau_plus = 0``, the
    Bayesian loss at ``alpha = beta = 0.5``.

    Args:
        denominators: moving estimates of each anchor's sum over candidates, which make small
            batches act large; calls then need ``indices``. Default: none.
        **shared: what every loss takes; see :class:`~bayescl.losses.ContrastiveLoss`.

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
        self, *, denominators: MovingDenominators | None = None, **shared: Unpack[SharedOptions]
    ) -> None:
        super().__init__(**shared)
        self.denominators = for_engine(denominators, self.engine)

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits, which does not depend on the temperature."""
        del temperature
        return InfoNCE()


class OracleContrastiveLoss(InfoNCELoss):
    """InfoNCE over true negatives only, known from labels: the best that leaving out can do.

    Call it with ``groups=labels``; candidates of the anchor's label do not count.

    Args:
        **shared: what every loss takes; see :class:`~bayescl.losses.ContrastiveLoss`.

    Example:
        >>> loss = OracleContrastiveLoss(temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3), groups=torch.tensor([0, 0, 1]))
        tensor(0.3039)

    Reference:
        Liu et al., ICML 2024, Eq. "SupLoss".

    See Also:
        :func:`bayescl.functional.oracle_loss`: the same on logits.
    """

    needs_groups = True


class AttractingOracleContrastiveLoss(ContrastiveLoss):
    """The latent-class loss with labels in place of its posterior: the best it could reach.

    Call it with ``groups=labels``; candidates of the anchor's label do not repel but attract, as
    further positives.

    Args:
        attraction: how strongly candidates of the anchor's label attract, in [0, 1e6].
        **shared: what every loss takes; see :class:`~bayescl.losses.ContrastiveLoss`.
            The fused engine cannot compute it.

    Raises:
        ValueError: if an argument is out of range, or a call has several groups per row.

    Example:
        >>> loss = AttractingOracleContrastiveLoss(temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3), groups=torch.tensor([0, 0, 1]))
        tensor(1.3215)

    Reference:
        Khosla et al., "Supervised Contrastive Learning", NeurIPS 2020, for attraction by labels.

    See Also:
        :class:`OracleContrastiveLoss`, which only leaves false negatives out.
    """

    attraction = Hyperparameter(check_attraction)
    hyperparameters = ("attraction",)
    needs_groups = True
    can_be_fused = False

    def __init__(self, *, attraction: float = 1.0, **shared: Unpack[SharedOptions]) -> None:
        super().__init__(**shared)
        self.attraction = attraction

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits, which does not depend on the temperature."""
        del temperature
        return Latent(self.attraction)

    def _per_anchor(self, batch: ContrastiveBatch, temperature: float | Tensor) -> Tensor:
        rule = batch.rule
        rows, columns = rule.anchor_groups, rule.candidate_groups
        if rows is None or columns is None or rule.num_keys > 1:
            raise ValueError(f"{type(self).__name__} needs one group per row and candidate")
        if rows.ndim > 1:
            rows, columns = rows[:, 0], columns[..., 0]
        # Any integers serve as groups, and labels start at 0.
        _, numbers = torch.unique(
            torch.cat([rows.long(), columns.long().flatten()]), return_inverse=True
        )
        anchors, candidates = numbers[: len(rows)], numbers[len(rows) :].view_as(columns)
        rule = replace(rule, anchor_groups=None, candidate_groups=None)
        known = Labels(anchors, candidates)
        return super()._per_anchor(replace(batch, rule=rule, labels=known), temperature)
