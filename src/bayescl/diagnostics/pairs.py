"""Candidates that a posterior takes for members of the anchor's class, and whether they are."""

from __future__ import annotations

from typing import NamedTuple

import torch

from bayescl._axes import Bool, Float, Tensor
from bayescl._checks import check_interval, check_mask


class ConfidentPairs(NamedTuple):
    """The pairs with a posterior above a threshold."""

    threshold: float
    """Pairs are confident above it."""

    share: float
    """Share of confident pairs among the candidates."""

    precision: float | None
    """Share of confident pairs that are of one class; None without labels or such pairs."""

    recall: float | None
    """Share of false negatives that are in a confident pair; None without labels or such."""


@torch.no_grad()
def confident_pairs(
    same_class: Float[Tensor, "*shape"],
    false_negative: Bool[Tensor, "*shape"] | None = None,
    *,
    threshold: float = 0.5,
) -> ConfidentPairs:
    """Hold confident pairs against the labels, all candidates of all anchors together.

    Args:
        same_class: posterior probability that a candidate is of the anchor's class.
        false_negative: the truth, where it is known.
        threshold: in [0, 1]; the loss attracts above it.

    Returns:
        How many there are, how many of them are right, and how many are found.

    Raises:
        ValueError: if shapes do not fit, there are no candidates or the threshold is out of range.

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
