"""Distribution of the weights of true and of false negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_count


@dataclass(frozen=True)
class WeightHistogram:
    """Counts of weights between edges.

    Attributes:
        edges: bin edges, ascending; one more than bins.
        true_negatives: counts of true negatives, or of all candidates without labels.
        false_negatives: counts of false negatives; None without labels.
    """

    edges: Float[Tensor, " edges"]
    true_negatives: Int[Tensor, " bins"]
    false_negatives: Int[Tensor, " bins"] | None

    def figures(self) -> dict[str, Any]:
        """Plain numbers for a file."""
        false = self.false_negatives
        return {
            "edges": self.edges.tolist(),
            "true_negatives": self.true_negatives.tolist(),
            "false_negatives": None if false is None else false.tolist(),
        }


@torch.no_grad()
def weight_histogram(
    weights: Float[Tensor, " candidates"],
    false_negative: Bool[Tensor, " candidates"] | None = None,
    *,
    bins: int = 40,
    span: tuple[float, float] | None = None,
) -> WeightHistogram:
    """Count weights, or other values of candidates, in bins of equal width.

    Args:
        weights: of candidates that count.
        false_negative: which of them are false negatives, if known.
        bins: number of bins.
        span: range of the bins; values outside fall into the outermost bins. Default: from 0 to the
            largest weight.

    Returns:
        Counts of both kinds.

    Raises:
        ValueError: if there are no candidates.

    Example:
        >>> found = weight_histogram(torch.tensor([0.0, 1.0, 2.0]), bins=2)
        >>> found.true_negatives, found.edges
        (tensor([1, 2]), tensor([0., 1., 2.], dtype=torch.float64))
    """
    check_count("bins", bins, 1)
    if len(weights) == 0:
        raise ValueError("weights must not be empty, got no candidates")
    weights = weights.double()
    low, high = (0.0, float(weights.max()) or 1.0) if span is None else span
    edges = torch.linspace(low, high, bins + 1, dtype=torch.float64, device=weights.device)
    places = (torch.searchsorted(edges, weights, right=True) - 1).clamp(0, bins - 1)
    if false_negative is None:
        return WeightHistogram(edges, places.bincount(minlength=bins), None)
    true, false = (
        places[kind].bincount(minlength=bins) for kind in (~false_negative, false_negative)
    )
    return WeightHistogram(edges, true, false)
