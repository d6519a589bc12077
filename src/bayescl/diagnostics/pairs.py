"""Candidates that a posterior puts into the anchor's class, and whether they belong there."""

from __future__ import annotations

from typing import NamedTuple

import torch

from bayescl.axes import Bool, Float, Tensor
from bayescl.checks import check_interval, check_mask


class ConfidentPairs(NamedTuple):
    """The pairs with a posterior above a threshold."""

    threshold: float
    """Posterior above which pairs are confident."""

    share: float
    """Share of confident pairs among the candidates."""

    precision: float | None
    """Share of confident pairs that are of one class; None without labels or confident pairs."""

    recall: float | None
    """Share of false negatives in confident pairs; None without labels or false negatives."""


@torch.no_grad()
def confident_pairs(
    same_class: Float[Tensor, "*shape"],
    false_negative: Bool[Tensor, "*shape"] | None = None,
    *,
    threshold: float = 0.5,
) -> ConfidentPairs:
    """Compare confident pairs with the labels, over all candidates of all anchors.

    Args:
        same_class: posterior probability that a candidate is of the anchor's class.
        false_negative: the truth, if known.
        threshold: in [0, 1]; the loss attracts above it.

    Returns:
        Their share, precision and recall.

    Raises:
        ValueError: if shapes do not match, there are no candidates or the threshold is out of
            range.

    Example:
        >>> confident_pairs(
        ...     torch.tensor([0.9, 0.8, 0.1, 0.0]), torch.tensor([True, False, False, False])
        ... )
        ConfidentPairs(threshold=0.5, share=0.5, precision=0.5, recall=1.0)
    """
    check_interval("threshold", threshold, 0.0, 1.0)
    if same_class.numel() == 0:
        raise ValueError("same_class must not be empty, got no candidates")
    sure = same_class > threshold
    share = float(sure.double().mean())
    if false_negative is None:
        return ConfidentPairs(threshold, share, None, None)
    check_mask("false_negative", false_negative, same_class.shape)
    right = int((sure & false_negative).sum())
    confident, false = int(sure.sum()), int(false_negative.sum())
    return ConfidentPairs(
        threshold,
        share,
        right / confident if confident else None,
        right / false if false else None,
    )
