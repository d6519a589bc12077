r"""Histograms of each row's similarities, and the weights of their bins.

A row's CDF is kept as counts in ``K`` bins between its smallest and its largest similarity. With
:math:`x \in [0, 1]` the distance from the largest, in units of that range, the bin is

.. math::
    \frac{K}{2}\Bigl[x + \tfrac{1}{P} \log_2\bigl(1 + (2^P - 1)\,x\bigr)\Bigr], \qquad P = 12:

half of the bins divide the range evenly; the other half halve in width from octave to octave
towards the largest similarity, where few candidates carry most of the sum and of its gradient.

A bin's weight is the mean over its ranks, so the sum of a row's weights is the same as without
bins; only the differences of weights within a bin are lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from bayescl.axes import Bool, Float, Int, Tensor

OCTAVES = 12.0
"""Number of octaves in the fine half of the bins."""

OfCdf = Callable[[Tensor], Tensor]
"""A function of the unlabeled CDF, such as the importance weights."""

BINS = (64, 128, 256, 512, 1024)
"""Allowed numbers of bins."""

_ROWS = 8192
"""Number of rows computed at a time; it limits temporaries and does not change the result."""

# Gauss-Legendre nodes and weights, to average over the ranks of a bin.
_NODES = ((-math.sqrt(0.6), 5 / 18), (0.0, 8 / 18), (math.sqrt(0.6), 5 / 18))


def check_bins(bins: int) -> None:
    """Raise if the number of bins is not one of ``BINS``."""
    if bins not in BINS:
        raise ValueError(f"bins must be one of {', '.join(map(str, BINS))}, got {bins!r}")


def inverse_widths(
    low: Float[Tensor, " rows"], top: Float[Tensor, " rows"]
) -> Float[Tensor, " rows"]:
    """One over each row's range; 0 if the row is empty or all its values are equal.

    Example:
        >>> inverse_widths(torch.tensor([0.0, 1.0]), torch.tensor([0.5, 1.0]))
        tensor([2., 0.])
    """
    width = top - low
    proper = (width > 0) & width.isfinite()
    inverse = 1 / torch.where(proper, width, 1.0)
    return torch.where(proper, inverse.clamp(max=torch.finfo(width.dtype).max), 0.0)


def bin_indices(
    similarity: Float[Tensor, "rows columns"],
    top: Float[Tensor, " rows"],
    inverse_width: Float[Tensor, " rows"],
    bins: int,
) -> Int[Tensor, "rows columns"]:
    """Bin of each similarity, 0 for the row's largest; the kernels compute the same per tile."""
    depth = ((top[:, None] - similarity) * inverse_width[:, None]).clamp(0, 1)
    fine = torch.log2(1 + (2**OCTAVES - 1) * depth) / OCTAVES
    return (0.5 * bins * (depth + fine)).long().clamp(0, bins - 1)


def bin_means(
    counts: Int[Tensor, "rows bins"],
    inverse_width: Float[Tensor, " rows"],
    function: OfCdf,
    *,
    upper: bool = False,
) -> Float[Tensor, "rows bins"]:
    """Mean of a function of the CDF over the ranks that each bin holds; undefined for empty bins.

    Args:
        counts: candidates per bin; bin 0 holds the largest.
        inverse_width: from :func:`inverse_widths`; in rows where it is 0 all values tie.
        function: an elementwise function of the unlabeled CDF.
        upper: whether ranks are upper ranks rather than mid-ranks.
    """
    table = torch.empty(counts.shape, dtype=inverse_width.dtype, device=counts.device)
    blocks = (torch.split(tensor, _ROWS) for tensor in (counts, inverse_width, table))
    for block, inverse, out in zip(*blocks, strict=True):
        through = block.flip(1).cumsum(1, dtype=block.dtype).flip(1)
        total = through[:, :1].clamp(min=1).to(out.dtype)
        count = block.to(out.dtype)
        if not upper:
            middle = through.to(out.dtype) - count / 2
        else:  # the mean of the ranks below + 1 .. below + count, or the last if all tie
            middle = through.to(out.dtype) - torch.where(inverse[:, None] > 0, (count - 1) / 2, 0.0)
        # Ranks 1 .. n have the variance of a uniform density of this half width.
        half = (count * count - 1).clamp(min=0).sqrt() / 2
        half = torch.where(inverse[:, None] > 0, half, 0.0)
        mean = torch.zeros_like(out)
        for node, share in _NODES:
            cdf = ((middle + node * half) / total).clamp(0, 1)
            mean += share * function(cdf)
        out.copy_(mean)
    return table


def map_by_histogram(
    values: Float[Tensor, "rows columns"],
    function: OfCdf,
    *,
    valid: Bool[Tensor, "rows columns"] | None,
    bins: int,
) -> Float[Tensor, "rows columns"]:
    """Map each value to the mean of ``function`` over the mid-ranks in its bin.

    It does not sort or branch on the data. Where ``valid`` is False the result is undefined.
    """
    lowest, highest = values, values
    if valid is not None:
        lowest = values.masked_fill(~valid, torch.inf)
        highest = values.masked_fill(~valid, -torch.inf)
    top = highest.amax(dim=1)
    inverse = inverse_widths(lowest.amin(dim=1), top)
    index = bin_indices(values, top, inverse, bins)
    counted = torch.ones_like(index) if valid is None else valid.to(index.dtype)
    counts = counted.new_zeros(len(values), bins).scatter_add(1, index, counted)
    return bin_means(counts, inverse, function).gather(1, index)
