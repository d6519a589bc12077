"""Ranks by histogram against exact ranks, on embeddings of every stage of training."""

from __future__ import annotations

import pytest
import torch
from cases import each
from torch import Tensor

from bayescl import BayesianContrastiveLoss
from bayescl.functional import empirical_cdf


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


def errors(kind: str, bins: int, engine: str = "dense") -> tuple[float, float]:
    """Error of the loss, and relative error of the gradient."""
    views = embeddings(kind)
    options = {"alpha": 0.9, "beta": 0.5, "tau_plus": 0.1, "engine": engine}
    found = []
    for loss in (
        BayesianContrastiveLoss(**options),
        BayesianContrastiveLoss(**options, ranks="histogram", bins=bins),
    ):
        value = loss(*views)
        found.append((value.item(), torch.cat(torch.autograd.grad(value, views))))
    (exact, gradient), (value, approximate) = found
    return abs(value - exact), float((approximate - gradient).norm() / gradient.norm())


@each("engine", ["dense", "chunked"])
@each("kind", ["random", "clustered 0.5", "clustered 0.2", "clustered 0.05", "collapsed 0.1"])
def test_the_histogram_is_within_its_tolerance(kind: str, engine: str) -> None:
    loss, gradient = errors(kind, bins=256, engine=engine)
    assert loss < 1e-4
    assert gradient < 2e-3


@each("kind", ["random", "clustered 0.2", "collapsed 0.1"])
def test_more_bins_err_less(kind: str) -> None:
    few, middle, many = (errors(kind, bins)[1] for bins in (64, 256, 1024))
    assert many < middle < few


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


def test_a_number_of_bins_that_no_kernel_has_is_refused() -> None:
    with pytest.raises(ValueError, match="bins must be one of"):
        empirical_cdf(torch.zeros(1, 2), ranks="histogram", bins=100)
