r"""Mixtures of von Mises-Fisher components, fitted by expectation maximisation.

A row of unit length :math:`x` in :math:`d` dimensions comes from component :math:`c` with density

.. math::
    f(x) = \sum_c \pi_c\, C_d(\kappa)\, e^{\kappa\, \mu_c \cdot x},

with unit directions :math:`\mu_c`, mixing weights :math:`\pi_c` that sum to 1, and one
concentration :math:`\kappa` for all components. A :class:`Mixtures` holds several mixtures of the
same rows, coarse and fine, side by side.

Reference:
    Banerjee et al., "Clustering on the Unit Hypersphere using von Mises-Fisher Distributions",
    JMLR 2005; Sra, "A short note on parameter approximation for von Mises-Fisher distributions",
    Computational Statistics 2012; Arthur and Vassilvitskii, "k-means++", SODA 2007.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch.nn import functional as F

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.functional.similarity import ordinary_lengths

MAX_KAPPA = 60.0
"""The largest concentration of a fit: tight components grow no sharper than this."""

_NEXT_TO_NOTHING = 1e-30
"""Added to any distance, it vanishes in rounding."""


@dataclass(frozen=True)
class Mixtures:
    """Mixtures of von Mises-Fisher components, fitted to the same rows, side by side.

    Attributes:
        directions: unit vectors: the components of the first mixture, then those of the next.
        weights: mixing weights; those of each mixture sum to 1.
        kappa: concentration of each mixture, at least 0.
        sizes: number of components of each mixture.
    """

    directions: Float[Tensor, "components dim"]
    weights: Float[Tensor, " components"]
    kappa: Float[Tensor, " mixtures"]
    sizes: tuple[int, ...]

    @cached_property
    def logits(self) -> tuple[Float[Tensor, " components"], Float[Tensor, "dim components"]]:
        """Log of the weights, and what gives the rest of a row's logits: directions by kappa."""
        kappas = zip(self.kappa, self.sizes, strict=True)
        kappa = torch.cat([value.expand(size) for value, size in kappas])  # [components]
        return self.weights.log(), (self.directions * kappa[:, None]).T


def unit_rows(
    rows: Float[Tensor, "rows dim"],
) -> tuple[Float[Tensor, "rows dim"], Float[Tensor, " rows"]]:
    """Rows of unit length, and a size of each, which says whether it has a direction.

    Rows that are not finite, or have no direction, become 0.
    """
    rows = rows.detach()
    if rows.dtype not in (torch.float32, torch.float64):
        rows = rows.float()
    lengths = ordinary_lengths(rows)
    if lengths is not None:
        return rows / lengths, lengths.squeeze(1)
    # By the largest entry first: squares of tiny or huge entries would leave the range.
    largest = rows.abs().amax(dim=1)
    clean = torch.where(usable(largest)[:, None], rows / largest[:, None], 0)
    return F.normalize(clean, dim=1), largest


def usable(size: Float[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
    """Which rows are finite and have a direction, by their sizes."""
    return size.isfinite() & (size > 0)


def sum_by_mixture(
    values: Float[Tensor, " components"], sizes: Sequence[int]
) -> Float[Tensor, " mixtures"]:
    """Sums over the components of each mixture."""
    return torch.stack([part.sum() for part in torch.split(values, list(sizes))])


def start_mixtures(
    unit: Float[Tensor, "rows dim"],
    known: Bool[Tensor, " rows"],
    sizes: Sequence[int],
    generator: torch.Generator,
) -> Mixtures:
    r"""Choose the first directions of each mixture among known rows of unit length, by k-means++.

    Each row after the first is drawn with probability proportional to
    :math:`1 - \max_c \mu_c \cdot x`, its distance from the rows chosen so far. Draws are made on
    the CPU, the same on every device.
    """
    draws = torch.rand(len(sizes), max(sizes), generator=generator, dtype=torch.float64)
    spread = _spread_rows(unit, known, draws.to(unit.device, unit.dtype))
    chosen = [row[:size] for row, size in zip(spread, sizes, strict=True)]
    weights = torch.cat([unit.new_full((size,), 1 / size) for size in sizes])
    kappa = unit.new_full((len(sizes),), MAX_KAPPA)
    return Mixtures(unit[torch.cat(chosen)], weights, kappa, tuple(sizes))


def _spread_rows(
    unit: Float[Tensor, "rows dim"],
    known: Bool[Tensor, " rows"],
    draws: Float[Tensor, "mixtures draws"],
) -> Int[Tensor, "mixtures draws"]:
    """Numbers of rows for each mixture, from uniform draws in [0, 1)."""
    uniform = known.to(unit.dtype)
    evenly = uniform.cumsum(dim=0)
    place = evenly.repeat(len(draws), 1)  # a draw falls on the row where its place is passed
    distance, whole = uniform, unit.new_ones(())
    chosen: list[Tensor] = []
    columns = unit.T
    for draw in draws.T[:, :, None]:  # [mixtures, 1]; place and distance are [mixtures, rows]
        row = torch.searchsorted(place, draw * place[:, -1:], right=True).squeeze(1)
        chosen.append(row.clamp_max_(len(unit) - 1))
        # Rounding leaves a trace of distance between equal rows.
        away = torch.threshold_(torch.addmm(whole, unit[row], columns, alpha=-1), 1e-6, 0.0)
        distance = torch.minimum(distance, away) if len(chosen) > 1 else away * uniform
        # Where all rows lie on those chosen already, any usable row will do.
        place = torch.add(distance.cumsum(dim=1), evenly, alpha=_NEXT_TO_NOTHING)
    return torch.stack(chosen, dim=1)


def fit_mixtures(
    unit: Float[Tensor, "rows dim"],
    counted: Float[Tensor, " rows"],
    start: Mixtures,
    iterations: int,
) -> Mixtures:
    r"""Fit every mixture to rows of unit length, or 0 where they do not count, by EM.

    With responsibilities :math:`r_{ic}` of the mixture before, one iteration is

    .. math::
        \pi_c = \tfrac{1}{n}\sum_i r_{ic}, \qquad
        \mu_c = \frac{m_c}{\lVert m_c \rVert},\quad m_c = \sum_i r_{ic}\,x_i, \qquad
        R = \tfrac{1}{n}\sum_c \lVert m_c \rVert, \qquad
        \kappa = \frac{R\,(d - R^2)}{1 - R^2}.

    A component without rows keeps its direction, with weight 0; if no row counts, so does all.
    """
    count = counted.sum()
    mixtures = start
    for _ in range(iterations):
        shares = responsibilities(unit, mixtures)  # [rows, components]
        sums = shares.T @ unit  # [components, dim]
        lengths = sums.norm(dim=1)
        filled = lengths > 0
        kappa = mean_kappa(sum_by_mixture(lengths, start.sizes) / count, unit.shape[1])
        directions = sums / torch.where(filled, lengths, 1)[:, None]
        mixtures = Mixtures(
            torch.where(filled[:, None], directions, mixtures.directions),
            # 0 / 0, without usable rows, keeps what was there.
            torch.where(count > 0, counted @ shares / count, mixtures.weights),
            torch.where(count > 0, kappa, mixtures.kappa),
            start.sizes,
        )
    return mixtures


def mean_kappa(mean_length: Float[Tensor, "*shape"], dim: int) -> Float[Tensor, "*shape"]:
    r"""Concentration of a von Mises-Fisher density from the length of its rows' mean.

    .. math:: \kappa \approx \frac{R\,(d - R^2)}{1 - R^2}

    The length :math:`R` is 0 if rows point in all directions, and 1 if all are equal.

    Example:
        >>> mean_kappa(torch.tensor([0.0, 0.5, 1.0]), dim=3)
        tensor([ 0.0000,  1.8333, 60.0000])

    Reference:
        Banerjee et al., JMLR 2005, Eq. 4.4; Sra, 2012, for its error.
    """
    square = mean_length.square()
    # At length 1 it is infinite, and rounding may take the length past 1.
    kappa = mean_length * (dim - square) / (1 - square).clamp_min(0)
    # In one dimension 0 / 0 at length 1.
    return torch.where(square >= 1, MAX_KAPPA, kappa).clamp(0, MAX_KAPPA)


def responsibilities(
    unit: Float[Tensor, "rows dim"], mixtures: Mixtures
) -> Float[Tensor, "rows components"]:
    r"""Probability of each component given a row of unit length.

    .. math:: r_{ic} \propto \pi_c\,e^{\kappa\,\mu_c \cdot x_i}

    Those of each mixture sum to 1 in every row.

    Example:
        >>> mixtures = Mixtures(torch.eye(2), torch.tensor([0.5, 0.5]), torch.tensor([2.0]), (2,))
        >>> responsibilities(torch.tensor([[1.0, 0.0], [0.5**0.5, 0.5**0.5]]), mixtures)
        tensor([[0.8808, 0.1192],
                [0.5000, 0.5000]])
    """
    log_weights, directions = mixtures.logits
    logits = torch.addmm(log_weights, unit, directions)
    parts = torch.split_with_sizes(logits, mixtures.sizes, 1)
    return torch.cat([torch.softmax(part, dim=1) for part in parts], dim=1)
