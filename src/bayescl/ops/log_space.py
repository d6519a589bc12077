"""Sums of exponentials that never leave log space."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from bayescl.axes import Bool, Float, Tensor


def masked_logsumexp(
    logits: Float[Tensor, "anchors candidates"],
    valid: Bool[Tensor, "anchors candidates"] | None,
) -> Float[Tensor, " anchors"]:
    """Log of the sum of exponentials over each row's valid entries; -inf for an empty row.

    Such a row receives a zero gradient, not NaN.
    """
    if valid is None:
        return logits.logsumexp(dim=1)
    counted = valid.any(dim=1)
    # A row with no valid entry sums zeros instead, and the sum is thrown away: the gradient of a
    # sum over nothing but -inf would be NaN.
    filler = torch.where(counted, -torch.inf, 0.0).to(logits.dtype)[:, None]
    total = torch.where(valid, logits, filler).logsumexp(dim=1)
    return torch.where(counted, total, -torch.inf)


def log_count(
    logits: Float[Tensor, "anchors candidates"],
    valid: Bool[Tensor, "anchors candidates"] | None,
) -> Float[Tensor, "#anchors"]:
    """Log of the number of valid entries in each row; -inf for an empty row."""
    if valid is None:
        size = logits.shape[1]
        log_size = math.log(size) if size else -math.inf
        return torch.full((1,), log_size, dtype=logits.dtype, device=logits.device)
    return valid.sum(dim=1).to(logits.dtype).log()


def contrast(
    positive: Float[Tensor, " anchors"], log_negative: Float[Tensor, " anchors"]
) -> Float[Tensor, " anchors"]:
    r"""The loss :math:`-\log\frac{e^{s^+}}{e^{s^+} + G}`, given :math:`s^+` and :math:`\log G`."""
    return softplus(log_negative - positive)


def softplus(values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r""":math:`\log(1 + e^x)`, exact to rounding at any size."""
    # Above the threshold the result is x; at 40 the rest, e^-40, is below half an ulp of x even in
    # float64.
    return F.softplus(values, threshold=40.0)
