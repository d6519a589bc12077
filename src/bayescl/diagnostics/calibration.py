"""Calibration: does the posterior say how often a candidate is a true negative?"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_count, check_mask


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

    @property
    def bias(self) -> float:
        """Mean of predicted less observed; positive if the posterior is too trusting."""
        gap = self.predicted - self.observed
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
        >>> found = calibration(torch.tensor([0.5, 0.5, 1.0]), torch.tensor([True, False, True]))
        >>> found.observed, round(found.ece, 4)
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
