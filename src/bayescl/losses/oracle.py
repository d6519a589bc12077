"""The oracle as a module."""

from __future__ import annotations

from bayescl.losses.info_nce import InfoNCELoss


class OracleContrastiveLoss(InfoNCELoss):
    """The loss over true negatives alone: an upper mark for debiasing, since it needs labels.

    Call it with ``groups=labels``; candidates of the anchor's label do not count.

    Args:
        **shared: what every loss takes (temperature, normalize, reduction, engine, ...); see
            :class:`~bayescl.losses.ContrastiveLoss`.

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
