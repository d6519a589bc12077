"""Sums of exponentials in log space."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch.nn import functional as F

from bayescl._types import Bool, Float, Tensor


def at_least_float32(values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Convert 16-bit numbers to float32. Sums of exponentials in 16 bits keep three digits."""
    return values.float() if values.dtype in (torch.float16, torch.bfloat16) else values


def masked_logsumexp(
    logits: Float[Tensor, "anchors candidates"],
    valid: Bool[Tensor, "anchors candidates"] | None,
) -> Float[Tensor, " anchors"]:
    """Compute the log of the sum of exponentials over each row's valid entries.

    An empty row gives -inf, with a gradient of 0.
    """
    if valid is None:
        return logits.logsumexp(dim=1)
    counted = valid.any(dim=1)
    # In a row without valid entries, zeros are summed and the sum is discarded. The gradient of a
    # sum over -inf alone would be NaN.
    filler = torch.where(counted, -torch.inf, 0.0).to(logits.dtype)[:, None]
    total = torch.where(valid, logits, filler).logsumexp(dim=1)
    return torch.where(counted, total, -torch.inf)


def log_count(
    logits: Float[Tensor, "anchors candidates"],
    valid: Bool[Tensor, "anchors candidates"] | None,
) -> Float[Tensor, "#anchors"]:
    """Compute the log of the number of valid entries in each row; -inf for an empty row."""
    if valid is None:
        size = logits.shape[1]
        log_size = math.log(size) if size else -math.inf
        return torch.full((1,), log_size, dtype=logits.dtype, device=logits.device)
    return valid.sum(dim=1).to(logits.dtype).log()


softplus = partial(F.softplus, threshold=40.0)
"""log(1 + e^x) without overflow. Above the threshold the result is x: the difference, e^-40, is
below half a unit of its last place even in float64. The loss of a positive s+ against a sum G is
-log(e^s+ / (e^s+ + G)) = softplus(log G - s+)."""
