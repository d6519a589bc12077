"""InfoNCE: every unlabeled candidate counts as a negative."""

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
        valid: True where a candidate counts. A row without candidates has loss 0. True for true
            negatives alone, it makes the oracle's loss.

    Returns:
        Non-negative losses.

    Example:
        >>> info_nce_loss(torch.tensor([2.0]), torch.tensor([[0.0, 1.0]]))
        tensor([0.4076])

    Reference:
        van den Oord et al., "Representation Learning with Contrastive Predictive Coding", 2018.
    """
    return InfoNCE()(positive, unlabeled, valid=valid)
