"""Ranks by histogram against exact ranks, on embeddings of every stage of training."""

from __future__ import annotations

import pytest
import torch
from cases import each
from torch import Tensor

from bayescl import BayesianContrastiveLoss
from bayescl.functional import Bayesian, empirical_cdf
from bayescl.functional.histogram import bin_indices, bin_means, inverse_widths


def embeddings(kind: str, batch: int = 160, dim: int = 32) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(8, dim, generator=generator, dtype=torch.float64)
    base = torch.randn(batch, dim, generator=generator, dtype=torch.float64)
    if kind.startswith("clustered"):
        spread = float(kind.split()[1])
        base = centres[torch.arange(batch) % 8] + spread * base
    elif kind.startswith("collapsed"):
        base = centres[0] + float(kind.split()[1]) * base
    noise = 0.05 * torch.randn(batch, dim, generator=generator, dtype=torch.float64)
    return [base.requires_grad_(), (base + noise).detach().requires_grad_()]


def errors(kind: str, bins: int) -> tuple[float, float]:
    """Error of the loss, and relative error of the gradient."""
    views = embeddings(kind)
    options = {"alpha": 0.9, "beta": 0.5, "tau_plus": 0.1, "engine": "dense"}
    found = []
    for loss in (
        BayesianContrastiveLoss(**options),
        BayesianContrastiveLoss(**options, ranks="histogram", bins=bins),
    ):
        value = loss(*views)
        found.append((value.item(), torch.cat(torch.autograd.grad(value, views))))
    (exact, gradient), (value, approximate) = found
    return abs(value - exact), float((approximate - gradient).norm() / gradient.norm())


@each("kind", ["random", "clustered 0.5", "clustered 0.2", "clustered 0.05", "collapsed 0.1"])
def test_the_histogram_is_within_its_tolerance_and_more_bins_err_less(kind: str) -> None:
    (_, few), (loss, gradient), (_, many) = (errors(kind, bins) for bins in (64, 256, 1024))
    assert loss < 1e-4
    assert many < gradient < min(few, 2e-3)


def test_equal_logits_get_the_mid_rank() -> None:
    cdf = empirical_cdf(torch.full((2, 7), 3.0), ranks="histogram")
    assert torch.equal(cdf, torch.full((2, 7), 0.5))


def test_masked_logits_fill_no_bin() -> None:
    logits = torch.randn(4, 300, generator=torch.Generator().manual_seed(1))
    valid = torch.rand(4, 300, generator=torch.Generator().manual_seed(2)) < 0.5
    valid[3] = False
    poisoned = logits.masked_fill(~valid, torch.nan)
    cdf = empirical_cdf(poisoned, valid=valid, ranks="histogram", bins=1024)
    exact = empirical_cdf(logits, valid=valid)
    # Near misses share a bin: no candidate is further off than its bin holds others.
    assert (cdf - exact)[valid].abs().max() < 0.02
    assert cdf.isfinite().all()


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
    table = bin_means(counts, one, objective.weights_of_cdf, upper=ranks == "upper")[0]
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
