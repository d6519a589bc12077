r"""The distribution from which each anchor's scores come before they are split into classes.

Three families:

``slide``
    :math:`U(-0.5 + s, 0.5 + s)` with a slide :math:`s \sim U(-\gamma, \gamma)` of each anchor's
    own: the text of section "Numerical Experiment".
``script``
    :math:`U(a, b)` with :math:`a` uniform in the lowest share :math:`\gamma` of
    :math:`[-1/t^2, 0]` and :math:`b` in the highest share of :math:`[0, 1/t^2]`, which is what
    the authors' published script draws. Scores divided by ``t`` then reach :math:`1/t^3`, 37 at
    :math:`t = 0.3`, so observations span thirty orders of magnitude.
``normal``
    :math:`N(0, 1)` for every anchor: the distribution of the figures of densities. ``gamma`` and
    ``temperature`` are not used.

All numbers are float64. Methods take ``rows``, the index of the anchor of each value, of any shape
that broadcasts with the values'.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl.axes import Float, Int, Tensor
from bayescl_lab.paper.simulation.settings import Settings

HALF_WIDTH = 0.5
"""Half the length of a sliding interval."""


@dataclass(frozen=True)
class UniformProposals:
    """Uniform distributions between each anchor's ``low`` and ``high``.

    Example:
        >>> proposals = UniformProposals(torch.tensor([-1.0]), torch.tensor([3.0]))
        >>> proposals.quantile(torch.tensor([0.5]), torch.tensor([0]))
        tensor([1.])
    """

    low: Float[Tensor, " anchors"]
    high: Float[Tensor, " anchors"]

    def density(
        self, score: Float[Tensor, "*shape"], rows: Int[Tensor, "*#shape"]
    ) -> Float[Tensor, "*shape"]:
        """One over the length of the interval; 0 outside."""
        low, high = self.low[rows], self.high[rows]
        return ((score >= low) & (score <= high)) / (high - low)

    def cdf(
        self, score: Float[Tensor, "*shape"], rows: Int[Tensor, "*#shape"]
    ) -> Float[Tensor, "*shape"]:
        """Share of the interval below the score, in [0, 1]."""
        low, high = self.low[rows], self.high[rows]
        return ((score - low) / (high - low)).clamp(0, 1)

    def quantile(
        self, level: Float[Tensor, "*shape"], rows: Int[Tensor, "*#shape"]
    ) -> Float[Tensor, "*shape"]:
        """The score at which the CDF reaches ``level``, in [0, 1]."""
        # A convex combination, so that rounding cannot leave the interval by more than an ulp.
        return self.low[rows] * (1 - level) + self.high[rows] * level


class NormalProposals:
    """The standard normal distribution for every anchor.

    Example:
        >>> NormalProposals().cdf(torch.tensor([0.0]), torch.tensor([0]))
        tensor([0.5000])
    """

    def density(
        self, score: Float[Tensor, "*shape"], rows: Int[Tensor, "*#shape"]
    ) -> Float[Tensor, "*shape"]:
        """Density of N(0, 1)."""
        return _spread(torch.exp(-(score**2) / 2) / (2 * torch.pi) ** 0.5, rows)

    def cdf(
        self, score: Float[Tensor, "*shape"], rows: Int[Tensor, "*#shape"]
    ) -> Float[Tensor, "*shape"]:
        """CDF of N(0, 1)."""
        return _spread(torch.special.ndtr(score), rows)

    def quantile(
        self, level: Float[Tensor, "*shape"], rows: Int[Tensor, "*#shape"]
    ) -> Float[Tensor, "*shape"]:
        """Quantile of N(0, 1); a uniform draw of 0 is replaced by the smallest positive number."""
        smallest = torch.finfo(level.dtype).tiny
        return _spread(torch.special.ndtri(level.clamp(min=smallest)), rows)


def _spread(values: Tensor, rows: Tensor) -> Tensor:
    """The values in the shape that they and the rows broadcast to."""
    return values + torch.zeros_like(rows, dtype=values.dtype)


Proposals = UniformProposals | NormalProposals
"""One proposal distribution per anchor."""


def draw_proposals(settings: Settings, count: int, generator: torch.Generator) -> Proposals:
    """Draw the proposal distributions of ``count`` anchors.

    Args:
        settings: names the family; see the module for ``gamma`` and ``temperature``.
        count: number of anchors.
        generator: source of the slides.

    Example:
        >>> proposals = draw_proposals(Settings(gamma=0.0), 3, torch.Generator())
        >>> proposals.low
        tensor([-0.5000, -0.5000, -0.5000], dtype=torch.float64)

    Reference:
        Liu et al., ICML 2024, section "Numerical Experiment" and Algorithm "Numerical
        experiments".
    """
    if settings.proposal == "normal":
        return NormalProposals()
    slides = torch.rand((2, count), generator=generator, dtype=torch.float64)
    if settings.proposal == "slide":
        centre = settings.gamma * (2 * slides[0] - 1)
        return UniformProposals(centre - HALF_WIDTH, centre + HALF_WIDTH)
    limit = 1 / settings.temperature**2
    low, high = settings.gamma * limit * slides
    return UniformProposals(low - limit, limit - high)
