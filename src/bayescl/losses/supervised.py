"""Losses with known classes: the oracle excludes false negatives, SupCon attracts them."""

from __future__ import annotations

from bayescl._engine import Engine
from bayescl.contrastive_loss import Reduction
from bayescl.losses.info_nce import InfoNCELoss
from bayescl.temperature import LearnableTemperature


class OracleContrastiveLoss(InfoNCELoss):
    """InfoNCE over true negatives only, with known classes (oracle).

    Use it as the upper bound for methods that exclude false negatives. Call it with
    ``groups=labels``; candidates with the anchor's label do not count.

    Args:
        temperature, positive_share, teacher_temperature, normalize:
            As in :class:`~bayescl.ContrastiveLoss`.
        reduction, engine, chunk_size, gather, check_finite:
            As in :class:`~bayescl.ContrastiveLoss`.

    Example:
        >>> loss = OracleContrastiveLoss(temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3), groups=torch.tensor([0, 0, 1]))
        tensor(0.3039)

    Reference:
        Liu et al., ICML 2024, Eq. "SupLoss".

    See Also:
        :func:`bayescl.functional.info_nce_loss`: the same loss on logits, with ``valid=``.
    """

    needs_groups = True


class SupervisedContrastiveLoss(InfoNCELoss):
    r"""Supervised contrastive loss (SupCon): InfoNCE with a target shared within a class.

    Call it with ``labels``, one class per item. The positive and the candidates :math:`P` with the
    anchor's label have equal target probabilities:

    .. math::
        -\frac{1}{1 + |P|} \Big(\log p_+ + \sum_{j \in P} \log p_j\Big),

    with the softmax :math:`p` over the positive and all candidates. Items without a known label
    (-1) are negatives of all other items, or get target probability from a ``teacher``.

    Args:
        temperature, positive_share, teacher_temperature, normalize:
            As in :class:`~bayescl.ContrastiveLoss`. The default of ``positive_share`` is ``None``,
            for equal probabilities.
        reduction, engine, chunk_size, gather, check_finite:
            As in :class:`~bayescl.ContrastiveLoss`.

    Raises:
        ValueError: if an argument is out of range, or a call has no labels.

    Example:
        >>> loss = SupervisedContrastiveLoss(temperature=0.5)
        >>> loss(torch.eye(3), torch.eye(3), labels=torch.tensor([0, 0, 1]))
        tensor(1.3215)

    Reference:
        Khosla et al., "Supervised Contrastive Learning", NeurIPS 2020, Eq. 2.

    See Also:
        :class:`OracleContrastiveLoss`, which excludes candidates of the anchor's class.
    """

    needs_labels = True

    def __init__(
        self,
        *,
        temperature: float | LearnableTemperature = 0.5,
        positive_share: float | None = None,
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
