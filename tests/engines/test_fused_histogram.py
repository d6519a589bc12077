"""The weights of a histogram's bins, and what the fused kernels compute, in plain torch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from bayescl.engines import ContrastiveBatch
from bayescl.functional import Bayesian, candidate_logits, pair_logits
from bayescl.functional.histogram import bin_indices, inverse_widths, log2_weights
from bayescl.functional.log_space import contrast, masked_logsumexp


def emulate(
    batch: ContrastiveBatch, temperature: float | Tensor, objective: Bayesian, bins: int
) -> Tensor:
    """What the kernels compute, with the whole matrix at hand and autograd for gradients."""
    similarity = candidate_logits(batch.anchors, batch.candidates, 1.0)
    mask = batch.mask()
    mask = torch.ones_like(similarity, dtype=torch.bool) if mask is None else mask
    still = similarity.detach()
    low = still.masked_fill(~mask, torch.inf).amin(1)
    top = still.masked_fill(~mask, -torch.inf).amax(1)
    inverse = inverse_widths(low, top)
    top = torch.where(mask.any(1), top, 0)
    index = bin_indices(still, top, inverse, bins)
    counts = mask.new_zeros(len(mask), bins, dtype=torch.int32).scatter_add_(1, index, mask.int())
    table = log2_weights(counts, inverse, objective.weights_of_cdf, objective.ranks)
    log_weights = table.gather(1, index) * math.log(2)
    counted = mask & (log_weights > -torch.inf)
    logits = similarity / temperature + log_weights.to(similarity.dtype)
    positive = pair_logits(batch.anchors, batch.positives, temperature)
    return contrast(positive, masked_logsumexp(logits, counted))


@pytest.mark.parametrize("ranks", ["mid", "upper"])
@pytest.mark.parametrize("alpha", [0.6, 1.0])
def test_a_bin_weighs_as_its_ranks_do_on_average(alpha: float, ranks: str) -> None:
    objective = Bayesian(alpha, 0.7, 0.1, ranks)
    counts = torch.tensor([[1, 2, 0, 5, 1, 12, 40, 3]], dtype=torch.int32)
    total = int(counts.sum())
    shift = 0.5 if ranks == "mid" else 0.0
    rank = torch.arange(1, total + 1, dtype=torch.float64)
    exact = objective.weights_of_cdf((rank - shift) / total)
    one = torch.ones(1, dtype=torch.float64)
    table = log2_weights(counts, one, objective.weights_of_cdf, ranks).exp2()[0]
    ends = total - counts[0].cumsum(0)
    for weight, count, end in zip(table, counts[0].tolist(), ends.tolist(), strict=True):
        if count:
            average = exact[end : end + count].mean()
            torch.testing.assert_close(weight, average, rtol=5e-3, atol=2e-3)
        if count == 1:
            torch.testing.assert_close(weight, exact[end], rtol=1e-12, atol=1e-12)
    weighed = (table * counts[0]).nansum() / total
    torch.testing.assert_close(weighed, exact.mean(), rtol=2e-4, atol=2e-4)


def test_bins_cover_the_range_and_grow_finer_towards_the_largest() -> None:
    similarity = torch.linspace(-1, 1, 100_001, dtype=torch.float64)[None]
    top = torch.ones(1, dtype=torch.float64)
    index = bin_indices(similarity, top, inverse_widths(-top, top), bins=256)[0]
    assert index[0] == 255
    assert index[-1] == 0
    assert (index.diff() <= 0).all()
    assert (index == 0).sum() < 5
    assert 600 < (index == 255).sum() < 800  # half of the bins resolve the range evenly
    doubled = torch.tensor([[1 - 2 * 2.0**-k for k in range(1, 9)]], dtype=torch.float64)
    steps = bin_indices(doubled, top, inverse_widths(-top, top), bins=256)[0].diff()
    assert (steps <= -10).all()
