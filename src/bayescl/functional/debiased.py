"""The debiased loss: the positives' expected share is subtracted from the candidates' sum."""

from __future__ import annotations

import math

import torch

from bayescl._axes import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.functional._log_space import contrast, log_count, masked_logsumexp
from bayescl.functional._shares import check_tau_plus


def debiased_loss(
    positive: PositiveLogits,
    unlabeled: UnlabeledLogits,
    *,
    tau_plus: float,
    minimum_logit: float | Float[Tensor, ""],
    valid: CandidateMask | None = None,
) -> PerAnchor:
    r"""The debiased contrastive loss, one value per anchor.

    .. math::
        -\log \frac{e^{s^+}}{e^{s^+} + G}, \qquad
        G = \max\Bigl\{\frac{\sum_i e^{s_i} - N \tau^+ e^{s^+}}{\tau^-},\;
        N e^{s_{\min}}\Bigr\}

    Args:
        positive: logit of each anchor's positive. Differentiated.
        unlabeled: logits of each anchor's candidates. Differentiated.
        tau_plus: prior probability that a candidate is a positive, in [0, 1).
        minimum_logit: smallest logit possible, where the estimate is floored: minus one over the
            temperature for cosine similarities. Differentiated where it is a tensor.
        valid: True where a candidate counts. A row with none has loss 0.

    Returns:
        Non-negative losses; InfoNCE at ``tau_plus = 0``.

    Raises:
        ValueError: if ``tau_plus`` leaves its interval.

    Example:
        >>> positive, unlabeled = torch.tensor([2.0]), torch.tensor([[0.0, 1.0]])
        >>> debiased_loss(positive, unlabeled, tau_plus=0.1, minimum_logit=-2.0)
        tensor([0.2904])

    Reference:
        Chuang et al., "Debiased Contrastive Learning", NeurIPS 2020, Eqs. 7 and 8.
    """
    log_sum = masked_logsumexp(unlabeled, valid)
    log_negative = subtract_positives(
        log_sum, positive, log_count(unlabeled, valid), tau_plus, minimum_logit
    )
    return contrast(positive, log_negative)


def subtract_positives(
    log_sum: Float[Tensor, "anchors"],
    positive: Float[Tensor, "anchors"],
    log_count: Float[Tensor, "#anchors"],
    tau_plus: float,
    minimum_logit: float | Float[Tensor, ""],
) -> Float[Tensor, "anchors"]:
    """Log of the floored estimate ``G`` above, from the log of the candidates' sum."""
    check_tau_plus(tau_plus)
    floor = log_count + minimum_logit
    if tau_plus == 0:
        return torch.where(log_sum > floor, log_sum, floor)
    # log(e^x - e^y) = x + log(1 - e^(y - x)), where the share e^(y - x) is below 1.
    log_share = math.log(tau_plus) + log_count + positive - log_sum
    has_rest = log_share < 0
    # Both branches of a `where` are differentiated: give the unused one a harmless share.
    safe_share = torch.where(has_rest, log_share, -1.0)
    rest = log_sum + (-torch.expm1(safe_share)).log() - math.log1p(-tau_plus)
    return torch.where(has_rest & (rest > floor), rest, floor)
