r"""Target probabilities of an anchor's candidates, and the linear term that they add to a loss.

InfoNCE is the cross-entropy between a one-hot target (all probability on the positive) and the
softmax of the logits. A soft target gives candidate :math:`j` the probability :math:`y_j` and the
positive the rest, :math:`1 - \sum_j y_j`. For InfoNCE, the cross-entropy with that target is

.. math::
    -\Big(1 - \sum_j y_j\Big) \log p_+ - \sum_j y_j \log p_j
    = -\log p_+ + \sum_j y_j\,(s^+ - s_j).

The last term is linear in the logits and does not depend on the objective, so it can be added to
any of them.
"""

from __future__ import annotations

import torch

from bayescl._checks import check_interval, check_positive
from bayescl._ops.log_space import at_least_float32
from bayescl._types import (
    CandidateMask,
    Float,
    PerAnchor,
    PositiveLogits,
    Tensor,
    UnlabeledLogits,
)

LOWEST = torch.finfo(torch.float32).min
"""Logit with probability 0 beside any other logit."""


def check_positive_share(share: float | None) -> float | None:
    """Return the share of the positive; raise ``ValueError`` if it is outside (0, 1]."""
    if share is None:
        return None
    return check_interval("positive_share", share, 0.0, 1.0, open_low=True)


def target_probabilities(
    similarity: Float[Tensor, "anchors candidates"],
    *,
    temperature: float,
    positive_share: float | None = 0.5,
    valid: CandidateMask | None = None,
) -> Float[Tensor, "anchors candidates"]:
    r"""Compute the target probabilities of candidates from a teacher's similarities.

    .. math::
        y_j = (1 - \lambda)\,\frac{e^{c_j / t}}{\sum_k e^{c_k / t}}

    over the valid candidates, with :math:`\lambda` the ``positive_share``. With
    ``positive_share=None``, the positive is part of the softmax, with similarity 1.

    Args:
        similarity: Teacher's similarity of the anchor to each candidate, usually a cosine. ``-inf``
            gives a candidate no probability. Not differentiated.
        temperature: Temperature of the softmax, positive. Use the loss's own temperature.
        positive_share: Probability that the positive keeps, in (0, 1], or ``None``. Default: 0.5.
        valid: True where a candidate counts. Default: all count.

    Returns:
        Probabilities in [0, 1]. Unless ``positive_share`` is ``None``, each row sums to
        ``1 - positive_share``, or to 0 without a finite similarity.

    Raises:
        ValueError: if ``temperature`` or ``positive_share`` is out of range.

    Example:
        >>> similarity = torch.tensor([[0.9, 0.1, -torch.inf]])
        >>> target_probabilities(similarity, temperature=0.5)
        tensor([[0.4160, 0.0840, 0.0000]])

    Reference:
        Denize et al., "Similarity Contrastive Estimation for Self-Supervised Soft Contrastive
        Learning", WACV 2023, for the form of the target.
    """
    check_positive("temperature", temperature)
    check_positive_share(positive_share)
    logits = at_least_float32(similarity.detach()) / temperature
    if valid is not None:
        logits = logits.masked_fill(~valid, -torch.inf)
    return shared_probability(logits, positive_share, 1 / temperature)


def shared_probability(
    logits: Float[Tensor, "anchors candidates"],
    positive_share: float | None,
    positive_logit: float | Tensor,
) -> Float[Tensor, "anchors candidates"]:
    """Distribute the probability that the positive does not keep, by a softmax over candidates.

    Args:
        logits: Logits of the candidates, -inf for target probability 0.
        positive_share: Share of the positive, or ``None`` if it takes part in the softmax.
        positive_logit: Logit of the positive in that softmax.
    """
    # One more column is for the positive. At the lowest number, it only takes the probability
    # of rows without any other.
    column = logits.new_empty(len(logits), 1)
    column.fill_(positive_logit if positive_share is None else LOWEST)
    shares = torch.cat([logits, column], dim=1).softmax(dim=1)[:, :-1]
    return shares * (1.0 if positive_share is None else 1 - positive_share)


def target_term(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    target: Float[Tensor, "anchors candidates"],
) -> PerAnchor:
    r"""Compute :math:`\sum_j y_j (s^+ - s_j)`, which a soft target adds to a loss on logits.

    Args:
        positive: Logit of each anchor's positive. Differentiated.
        unlabeled: Logits of each anchor's candidates. Differentiated.
        target: Target probabilities :math:`y_j`, 0 where a candidate does not count; see
            :func:`target_probabilities`. Not differentiated.

    Returns:
        One value per anchor. It is negative if candidates with target probability score above the
        positive.

    Example:
        >>> from bayescl.functional import info_nce_loss
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> target = torch.tensor([[0.1, 0.4]])
        >>> info_nce_loss(positive, unlabeled) + target_term(positive, unlabeled, target)
        tensor([1.0076])
    """
    positive, unlabeled = at_least_float32(positive), at_least_float32(unlabeled)
    target = target.detach().to(unlabeled.dtype)
    term: Tensor = positive * target.sum(dim=1) - torch.linalg.vecdot(target, unlabeled)
    return term
