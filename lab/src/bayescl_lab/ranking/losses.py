"""BPR, a loss only for recommenders."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional as F

from bayescl import ContrastiveLoss


def bpr_loss(
    positive: Float[Tensor, " anchors"],
    unlabeled: Float[Tensor, "anchors candidates"],
    *,
    valid: Bool[Tensor, "anchors candidates"] | None = None,
) -> Float[Tensor, " anchors"]:
    """Compute the mean logistic loss of each positive against its candidates, or 0 without any."""
    terms = F.softplus(unlabeled - positive[:, None])
    if valid is None:
        return terms.mean(dim=1)
    return torch.where(valid, terms, 0.0).sum(dim=1) / valid.sum(dim=1).clamp(min=1)


class BPRLoss(ContrastiveLoss):
    r"""BPR loss: logistic loss of the positive against each candidate.

    .. math::
        \frac{1}{N} \sum_i -\log \sigma\bigl((s^+ - s_i) / t\bigr)

    The usual BPR has one candidate per pair, inner products and temperature 1. Use the optimizer's
    weight decay for L2 regularization. Calls and other arguments are inherited from
    :class:`~bayescl.ContrastiveLoss`.

    Args:
        temperature: Divisor of score differences, positive. Default: 1.
        normalize: Whether embeddings are scaled to length 1, so that scores are cosines.
            Default: False.
        gather: Whether the processes of the default process group share a batch. Default: False.

    Raises:
        ValueError: if ``temperature`` is not positive.

    Example:
        >>> loss = BPRLoss()
        >>> users, items = torch.tensor([[1.0, 0.0]]), torch.tensor([[2.0, 0.0]])
        >>> loss.sampled(users, items, torch.tensor([[[0.0, 1.0], [1.0, 0.0]]]))
        tensor(0.2201)

    Reference:
        Rendle et al., "BPR: Bayesian Personalized Ranking from Implicit Feedback", UAI 2009.
    """

    def __init__(
        self, *, temperature: float = 1.0, normalize: bool = False, gather: bool = False
    ) -> None:
        super().__init__(bpr_loss, temperature=temperature, normalize=normalize, gather=gather)
