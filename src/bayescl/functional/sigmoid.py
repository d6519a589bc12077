"""The sigmoid loss: whether two rows are a pair is asked of every pair by itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl.axes import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.functional.log_space import softplus


@dataclass(frozen=True)
class Sigmoid:
    """:func:`sigmoid_loss` as engines receive it, on logits to which the bias has been added."""

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Return one loss per anchor from the whole matrix of logits."""
        if valid is not None:
            unlabeled = torch.where(valid, unlabeled, -torch.inf)
        return softplus(-positive) + softplus(unlabeled).sum(dim=1)


def sigmoid_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    bias: float | Float[Tensor, ""] = 0.0,
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""The loss of SigLIP, summed over the pairs of each anchor.

    .. math::
        \log\big(1 + e^{-s^+ - b}\big) + \sum_j \log\big(1 + e^{s_j + b}\big)

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated.
        bias: :math:`b`, added to every logit. Differentiated if it is a tensor.
        valid: True where a candidate counts. A row without candidates has its positive's term.

    Returns:
        Non-negative losses. They grow with the number of candidates.

    Example:
        >>> sigmoid_loss(torch.tensor([2.0]), torch.tensor([[0.0, 1.0]]))
        tensor([2.1333])

    Reference:
        Zhai et al., "Sigmoid Loss for Language Image Pre-Training", ICCV 2023.
    """
    return Sigmoid()(positive + bias, unlabeled + bias, valid=valid)
