"""Proposal distributions: density, CDF and quantile belong together, and slides stay in range."""

from __future__ import annotations

import pytest
import torch

from bayescl_lab.paper.simulation import (
    NormalProposals,
    Proposals,
    Settings,
    UniformProposals,
    draw_proposals,
    generator,
)

UNIFORM = UniformProposals(
    torch.tensor([-0.5, -4.0], dtype=torch.float64), torch.tensor([0.5, 3.0], dtype=torch.float64)
)
FAMILIES = pytest.mark.parametrize("proposals", [UNIFORM, NormalProposals()])
ROWS = torch.tensor([[0], [1]])


@FAMILIES
def test_quantile_inverts_the_cdf(proposals: Proposals) -> None:
    level = torch.linspace(0.001, 0.999, 50, dtype=torch.float64).expand(2, 50)
    torch.testing.assert_close(proposals.cdf(proposals.quantile(level, ROWS), ROWS), level)


@FAMILIES
def test_density_integrates_to_the_cdf(proposals: Proposals) -> None:
    score = torch.linspace(-0.45, 0.45, 4001, dtype=torch.float64).expand(2, 4001)
    area = torch.trapezoid(proposals.density(score, ROWS), score)
    cdf = proposals.cdf(score, ROWS)
    torch.testing.assert_close(area, cdf[:, -1] - cdf[:, 0], rtol=1e-6, atol=0)


@FAMILIES
def test_quantiles_of_a_uniform_draw_of_zero_are_finite(proposals: Proposals) -> None:
    zero = torch.zeros(2, 1, dtype=torch.float64)
    assert proposals.quantile(zero, ROWS).isfinite().all()


def test_sliding_intervals_have_length_one_and_slide_up_to_gamma() -> None:
    drawn = draw_proposals(Settings(gamma=0.3), 5000, generator(0))
    assert isinstance(drawn, UniformProposals)
    torch.testing.assert_close(drawn.high - drawn.low, torch.ones(5000, dtype=torch.float64))
    slide = (drawn.high + drawn.low) / 2
    assert slide.abs().max() <= 0.3
    assert slide.max() > 0.29
    assert slide.min() < -0.29


def test_script_intervals_lie_in_the_range_of_the_authors_script() -> None:
    settings = Settings(proposal="script", gamma=0.25, temperature=0.5)
    drawn = draw_proposals(settings, 5000, generator(0))
    assert isinstance(drawn, UniformProposals)
    assert drawn.low.min() >= -4
    assert -3.05 < drawn.low.max() <= -3
    assert 3 <= drawn.high.min() < 3.05
    assert drawn.high.max() <= 4


def test_script_intervals_at_gamma_zero_are_the_whole_range() -> None:
    drawn = draw_proposals(Settings(proposal="script", gamma=0.0), 2, generator(0))
    assert isinstance(drawn, UniformProposals)
    assert drawn.low.tolist() == [-4.0, -4.0]
    assert drawn.high.tolist() == [4.0, 4.0]
