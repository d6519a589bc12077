"""How well false negatives are found: by any score, or as pairs that a posterior is sure of."""

from __future__ import annotations

from typing import NamedTuple

import torch

from bayescl.axes import Bool, Float, Tensor
from bayescl.checks import check_interval, check_mask, check_shape


class Detection(NamedTuple):
    """How well false negatives were found."""

    roc_auc: float
    """How often a false negative's suspicion exceeds a true negative's; 1/2 by chance."""

    average_precision: float
    """Average precision of ranking false negatives by suspicion; ``share`` by chance."""

    share: float
    """Share of false negatives among the candidates."""


@torch.no_grad()
def false_negative_detection(
    suspicion: Float[Tensor, "*shape"], false_negative: Bool[Tensor, "*shape"]
) -> Detection | None:
    """Judge a score by how it ranks false negatives, over all candidates of all anchors.

    Args:
        suspicion: finite values that should be high for a false negative, such as minus the weight
            or one minus the posterior.
        false_negative: the truth.

    Returns:
        ROC-AUC, average precision, and the share of false negatives; None if all candidates are of
        one kind.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> found = false_negative_detection(
        ...     torch.tensor([0.9, 0.1, 0.2, 0.3]), torch.tensor([True, False, False, False])
        ... )
        >>> found
        Detection(roc_auc=1.0, average_precision=1.0, share=0.25)
    """
    check_shape("suspicion", suspicion, false_negative.shape)
    share = float(false_negative.double().mean())
    if share in (0.0, 1.0):
        return None
    values, order = suspicion.flatten().double().sort(descending=True)
    # One entry for each run of equal values: candidates of both kinds up to its end, and in it.
    ends = torch.cat([values[1:] != values[:-1], torch.tensor([True], device=values.device)])
    false = false_negative.flatten()[order].cumsum(0)[ends].double()
    true = ends.nonzero().flatten() + 1 - false
    start = false.new_zeros(1)
    of_false, of_true = false.diff(prepend=start), true.diff(prepend=start)
    wins = of_false * (true[-1] - true + of_true / 2)  # over what comes later; a tie counts as half
    return Detection(
        roc_auc=float(wins.sum() / (false[-1] * true[-1])),
        average_precision=float((of_false * false / (false + true)).sum() / false[-1]),
        share=share,
    )


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
