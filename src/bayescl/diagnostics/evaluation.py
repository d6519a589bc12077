"""What labels say of a loss: does it find false negatives, and is its posterior calibrated?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.estimation import anchor_aucs

_GROUPS = 20


class Detection(NamedTuple):
    """How well false negatives were found, over all candidates of all anchors."""

    roc_auc: float
    """How often a false negative's suspicion exceeds a true negative's; 1/2 by chance."""

    average_precision: float
    """Average precision of ranking false negatives by suspicion; ``share`` by chance."""

    share: float
    """Share of false negatives among the candidates."""


def detection(
    suspicion: Float[Tensor, " candidates"], false_negative: Bool[Tensor, " candidates"]
) -> Detection | None:
    """Judge values that should be high for false negatives; None without both kinds."""
    share = float(false_negative.double().mean())  # NaN if there are no candidates
    if not 0 < share < 1:
        return None
    values, order = suspicion.double().sort(descending=True)
    kinds = false_negative[order]
    # One entry for each run of equal values: false negatives among all candidates up to its end.
    ends = torch.unique_consecutive(values, return_counts=True)[1].cumsum(0)
    found = kinds.cumsum(0)[ends - 1].double()
    gained = found.diff(prepend=found[:1] * 0)
    precision = float((gained * found / ends).sum() / found[-1])
    return Detection(float(anchor_aucs(values[None], kinds[None])), precision, share)


class ConfidentPairs(NamedTuple):
    """The candidates that a loss's own posterior puts into the anchor's class."""

    threshold: float
    """Posterior above which pairs are confident; the loss attracts above it."""

    share: float
    """Share of confident pairs among the candidates."""

    precision: float | None
    """Share of confident pairs that are of one class; None without labels or confident pairs."""

    recall: float | None
    """Share of false negatives in confident pairs; None without labels or false negatives."""


def confident_pairs(
    same_class: Float[Tensor, " candidates"],
    false_negative: Bool[Tensor, " candidates"] | None,
    threshold: float,
) -> ConfidentPairs:
    """Compare confident pairs with the labels, over all candidates of all anchors."""
    sure = same_class > threshold
    share = float(sure.double().mean())
    if false_negative is None:
        return ConfidentPairs(threshold, share, None, None)
    right = int((sure & false_negative).sum())
    precision, recall = (
        right / count if count else None for count in (int(sure.sum()), int(false_negative.sum()))
    )
    return ConfidentPairs(threshold, share, precision, recall)


@dataclass(frozen=True)
class Calibration:
    """A posterior of true negatives, compared with the labels in groups of similar predictions.

    Attributes:
        source: source of the posterior's parameters, or "latent classes" for the loss's own
            posterior.
        alpha: of a posterior from ranks; None for one from latent classes.
        tau_plus: likewise.
        predicted: mean prediction of each group, ascending.
        observed: share of true negatives in each group.
        count: candidates in each group.
        ece: expected calibration error, the mean distance between observed and predicted.
        skill: share of the truth's variance that the predictions explain (Brier skill score). 1 is
            perfect. 0 is the score of predicting the share of true negatives for every candidate;
            a negative score is worse than that. Read it beside ``ece``, which is also 0 for such a
            constant, although the constant tells no candidate from another. None if all candidates
            are of one kind.

    Reference:
        Brier, "Verification of Forecasts Expressed in Terms of Probability", 1950.
    """

    source: str
    alpha: float | None
    tau_plus: float | None
    predicted: Float[Tensor, " groups"]
    observed: Float[Tensor, " groups"]
    count: Int[Tensor, " groups"]
    ece: float
    skill: float | None

    @property
    def name(self) -> str:
        """The source and its parameters, for a reader."""
        if self.alpha is None or self.tau_plus is None:
            return self.source
        return f"{self.source}: alpha {self.alpha:.3f}, tau_plus {self.tau_plus:.3f}"


def calibration(
    predicted: Float[Tensor, " candidates"],
    true_negative: Bool[Tensor, " candidates"],
    source: str,
    alpha: float | None = None,
    tau_plus: float | None = None,
) -> Calibration:
    """Compare a posterior with the labels, in at most 20 groups.

    A posterior from ranks stays in a narrow range: at ``alpha = 0.9`` and ``tau_plus = 0.1`` it
    lies between 0.5 and 0.99, mostly above 0.9. So its groups are of equally many candidates, but
    equal predictions stay in one. A posterior from latent classes is near 0 or 1 for most
    candidates; groups of equal width show the values in between.
    """
    values, order = predicted.double().sort()
    truth = true_negative[order].double()
    inner = torch.arange(1, _GROUPS, device=values.device)
    edges = inner.double() / _GROUPS
    if alpha is not None:
        # A group begins where its first value does, so that no value is split between two.
        edges = torch.unique(values[inner * len(values) // _GROUPS])
    group = torch.searchsorted(edges, values, right=True).unique_consecutive(return_inverse=True)[1]
    count = group.bincount()
    means = group.bincount(values) / count, group.bincount(truth) / count
    ece = float(((means[1] - means[0]).abs() * count).sum() / count.sum())
    variance = float(truth.var(correction=0))
    skill = 1 - float((values - truth).square().mean()) / variance if variance > 0 else None
    return Calibration(source, alpha, tau_plus, *means, count, ece, skill)


class WeightHistogram(NamedTuple):
    """Counts of weights, or of similarities, between edges."""

    edges: Float[Tensor, " edges"]
    """Bin edges, ascending; one more than bins."""

    true_negatives: Int[Tensor, " bins"]
    """Counts of true negatives, or of all candidates without labels."""

    false_negatives: Int[Tensor, " bins"] | None
    """Counts of false negatives; None without labels."""


def histogram(
    values: Float[Tensor, " candidates"],
    false_negative: Bool[Tensor, " candidates"] | None,
    span: tuple[float, float],
    bins: int,
) -> tuple[WeightHistogram, Int[Tensor, " candidates"]]:
    """Count values in bins of equal width, and say in which each is; the outermost have no end."""
    edges = torch.linspace(*span, bins + 1, dtype=torch.float64, device=values.device)
    places = (torch.searchsorted(edges, values.double(), right=True) - 1).clamp(0, bins - 1)
    if false_negative is None:
        return WeightHistogram(edges, places.bincount(minlength=bins), None), places
    kinds = (places[kind].bincount(minlength=bins) for kind in (~false_negative, false_negative))
    return WeightHistogram(edges, *kinds), places


def plain(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures for a file, with lists for tensors."""
    return {
        name: figure.tolist() if isinstance(figure, Tensor) else figure
        for name, figure in figures.items()
    }
