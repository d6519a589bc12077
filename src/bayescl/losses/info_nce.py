"""InfoNCE as a module, and the oracles: InfoNCE that is told which candidates are of one class."""

from __future__ import annotations

from dataclasses import replace

from typing_extensions import Unpack

from bayescl.axes import Tensor
from bayescl.batch import Batch, Rows
from bayescl.functional.info_nce import InfoNCE
from bayescl.functional.latent import Latent, check_attraction
from bayescl.functional.objective import Objective
from bayescl.losses.base import ContrastiveLoss, SharedOptions
from bayescl.losses.gathering import Gathering
from bayescl.losses.parameters import Hyperparameter

_INFO_NCE = InfoNCE()


class InfoNCELoss(ContrastiveLoss):
    """InfoNCE (NT-Xent): every other row is pushed away, even those of the anchor's class.

    Every other loss here reduces to this baseline: the debiased loss at ``tau_plus = 0``, the
    Bayesian loss at ``alpha = beta = 0.5``.

    Args:
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

    def __init__(self, **shared: Unpack[SharedOptions]) -> None:
        super().__init__(**shared)

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits, which does not depend on the temperature."""
        del temperature
        return _INFO_NCE


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
        :func:`bayescl.functional.info_nce_loss`: the same on logits, with ``valid=``.
    """

    needs_groups = True


class SupervisedContrastiveLoss(ContrastiveLoss):
    r"""Supervised contrastive loss (SupCon): candidates of the anchor's label attract.

    Call it with ``groups=labels``, one label per row. With the candidates :math:`P` of the anchor's
    label and :math:`N` of others, it is

    .. math::
        \log\Big(e^{s^+} + \sum_{j \in N} e^{s_j}\,\tfrac{|N \cup P|}{|N|}\Big)
        - \frac{s^+ + \lambda \sum_{j \in P} s_j}{1 + \lambda |P|}.

    So members of a class attract and do not repel one another: the best that latent classes could
    reach. With ``members_repel=True`` the sum runs over all candidates with weight 1: the loss of
    the reference, which equals pytorch-metric-learning's ``SupConLoss``.

    Args:
        attraction: how strongly candidates of the anchor's label attract, :math:`\lambda`, in
            [0, 1e6].
        members_repel: whether candidates of the anchor's label also repel, as in SupCon.
        **shared: what every loss takes; see :class:`~bayescl.losses.ContrastiveLoss`.

    Raises:
        ValueError: if an argument is out of range, or a call has several groups per row.

    Example:
        >>> loss = SupervisedContrastiveLoss(temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3), groups=torch.tensor([0, 0, 1]))
        tensor(1.3215)

    Reference:
        Khosla et al., "Supervised Contrastive Learning", NeurIPS 2020, Eq. 2.

    See Also:
        :class:`OracleContrastiveLoss`, which only leaves false negatives out.
    """

    attraction = Hyperparameter(check_attraction, 2.0, 0.5)
    hyperparameters = ("attraction",)
    needs_groups = True

    def __init__(
        self,
        *,
        attraction: float = 1.0,
        members_repel: bool = False,
        **shared: Unpack[SharedOptions],
    ) -> None:
        super().__init__(**shared)
        self.attraction = attraction
        self.members_repel = members_repel

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits, which does not depend on the temperature."""
        del temperature
        return Latent(self.attraction, aim="classes", members_repel=self.members_repel)

    def with_posterior(self, batch: Batch, gathering: Gathering | None = None) -> Batch:
        """Return the batch with its groups as labels of all rows."""
        del gathering

        def labelled(rows: Rows) -> Rows:
            groups = rows.groups
            if groups is None or groups.shape[-1] != 1:
                raise ValueError(f"{type(self).__name__} needs one group per row and candidate")
            return replace(rows, groups=None, labels=groups[..., 0])

        return batch.map_rows(labelled)
