"""What labels say of a loss: does it find false negatives, and is its posterior calibrated?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_count, check_interval, check_mask, check_shape
from bayescl.estimation import anchor_aucs


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
        ROC-AUC, average precision, and the share of false negatives; None without candidates of
        both kinds.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> false_negative_detection(
        ...     torch.tensor([0.9, 0.1, 0.2, 0.3]), torch.tensor([True, False, False, False])
        ... )
        Detection(roc_auc=1.0, average_precision=1.0, share=0.25)
    """
    check_shape("suspicion", suspicion, false_negative.shape)
    share = float(false_negative.double().mean())  # NaN if there are no candidates
    if not 0 < share < 1:
        return None
    kinds = false_negative.flatten()
    values, order = suspicion.flatten().double().sort(descending=True)
    # One entry for each run of equal values: false negatives among all candidates up to its end.
    ends = torch.cat([values[1:] != values[:-1], torch.tensor([True], device=values.device)])
    found = kinds[order].cumsum(0)[ends].double()
    precision = found / (ends.nonzero().flatten() + 1)
    return Detection(
        roc_auc=float(anchor_aucs(values[None], kinds[None, order])),
        average_precision=float((found.diff(prepend=found[:1] * 0) * precision).sum() / found[-1]),
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


@dataclass(frozen=True)
class Calibration:
    """Predicted and observed frequencies, in groups of similar predictions.

    Attributes:
        predicted: mean prediction of each group, ascending.
        observed: share of true negatives in each group.
        count: candidates in each group.
        brier: mean squared difference of prediction and truth (1 for a true negative, else 0).
    """

    predicted: Float[Tensor, " groups"]
    observed: Float[Tensor, " groups"]
    count: Int[Tensor, " groups"]
    brier: float

    @property
    def skill(self) -> float | None:
        """Share of the truth's variance that the predictions explain (Brier skill score).

        1 is perfect. 0 is the score of predicting the share of true negatives for every candidate;
        a negative score is worse than that. Read it beside ``ece``, which is also 0 for such a
        constant, although the constant tells no candidate from another. None if all candidates are
        of one kind.
        """
        share = float((self.observed * self.count).sum() / self.count.sum())
        variance = share * (1 - share)
        return 1 - self.brier / variance if variance > 0 else None

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean distance between observed and predicted."""
        gap = (self.observed - self.predicted).abs()
        return float((gap * self.count).sum() / self.count.sum())


@torch.no_grad()
def calibration(
    predicted: Float[Tensor, "*shape"],
    true_negative: Bool[Tensor, "*shape"],
    *,
    groups: int = 20,
    equal_width: bool = False,
) -> Calibration:
    """Compare a posterior with the labels, in groups of equally many candidates.

    Groups have equal counts because a posterior from ranks stays in a narrow range: at
    ``alpha = 0.9`` and ``tau_plus = 0.1`` it lies between 0.5 and 0.99, mostly above 0.9. Equal
    predictions stay in one group. A posterior from latent classes is near 0 or 1 for most
    candidates; groups of equal width show the values in between.

    Args:
        predicted: probabilities of being a true negative.
        true_negative: the truth.
        groups: largest number of groups.
        equal_width: whether to split [0, 1] into equal steps instead of equal counts.

    Returns:
        Means, shares and counts of the non-empty groups.

    Raises:
        ValueError: if shapes do not match or there is nothing to group.

    Reference:
        Brier, "Verification of Forecasts Expressed in Terms of Probability", 1950.

    Example:
        >>> result = calibration(torch.tensor([0.5, 0.5, 1.0]), torch.tensor([True, False, True]))
        >>> result.observed, round(result.ece, 4)
        (tensor([0.5000, 1.0000], dtype=torch.float64), 0.0)
    """
    check_count("groups", groups, 1)
    check_mask("true_negative", true_negative, predicted.shape)
    if predicted.numel() == 0:
        raise ValueError("predicted must not be empty, got no candidates")
    values, order = predicted.flatten().double().sort()
    truth = true_negative.flatten()[order].double()
    inner = torch.arange(1, groups, device=values.device)
    if equal_width:
        edges = inner.double() / groups
    else:
        # A group begins where its first value does, so that no value is split between two.
        starts = torch.unique(inner * len(values) // groups)
        edges = torch.unique(values[starts]) if groups > 1 else values[:0]
    group = torch.searchsorted(edges, values, right=True)
    count = group.bincount(minlength=len(edges) + 1)
    zeros = values.new_zeros(len(count))
    kept = count > 0
    return Calibration(
        predicted=zeros.index_add(0, group, values)[kept] / count[kept],
        observed=zeros.index_add(0, group, truth)[kept] / count[kept],
        count=count[kept],
        brier=float((values - truth).square().mean()),
    )
