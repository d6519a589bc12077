"""InfoNCE: every unlabeled candidate counts as a negative. And its oracle, which needs labels."""

from __future__ import annotations

from dataclasses import dataclass

from bayescl.axes import CandidateMask, PerAnchor, PositiveLogits, UnlabeledLogits
from bayescl.functional.objective import LogSumObjective


@dataclass(frozen=True)
class InfoNCE(LogSumObjective):
    """:func:`~bayescl.functional.info_nce_loss` as engines receive it: all defaults."""


def info_nce_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""The biased contrastive loss, one value per anchor.

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + \sum_i e^{s_i}}

    This is the cross-entropy of picking the positive from among itself and the candidates.
    Candidates of the anchor's own class (false negatives) are pushed away like all others.

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated.
        valid: True where a candidate counts. A row without candidates has loss 0.

    Returns:
        Non-negative losses.

    Example:
        >>> info_nce_loss(torch.tensor([2.0]), torch.tensor([[0.0, 1.0]]))
        tensor([0.4076])

    Reference:
        van den Oord et al., "Representation Learning with Contrastive Predictive Coding", 2018.
    """
    return InfoNCE()(positive, unlabeled, valid=valid)


def oracle_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    true_negative: CandidateMask,
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""The contrastive loss over true negatives alone, one value per anchor.

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + \sum_{i \in TN} e^{s_i}}

    This is :func:`info_nce_loss` if it knew which candidates are of the anchor's class: the most
    that removing false negatives can give. ``true_negative`` is True for those that are not.

    Returns:
        Non-negative losses; 0 for an anchor without true negatives.

    Example:
        >>> negative = torch.tensor([[True, False]])
        >>> oracle_loss(torch.tensor([2.0]), torch.tensor([[0.0, 1.0]]), true_negative=negative)
        tensor([0.1269])

    Reference:
        Liu et al., ICML 2024, Eq. "SupLoss".
    """
    counted = true_negative if valid is None else true_negative & valid
    return info_nce_loss(positive, unlabeled, valid=counted)
