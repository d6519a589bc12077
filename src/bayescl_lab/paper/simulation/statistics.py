"""Mean, band and standard error over repeated draws."""

from __future__ import annotations

from typing import NamedTuple

import torch

from bayescl.axes import Float, Tensor

BAND = (0.05, 0.95)
"""Quantiles over draws that bound a curve's band."""


class Spread(NamedTuple):
    """Mean over draws, band, and standard error of the mean."""

    mean: float
    low: float
    high: float
    error: float


def spread(draws: Float[Tensor, " draws"]) -> Spread:
    """Summarise one number's values over repeated draws.

    The band holds nine in ten single draws. The standard error is that of the mean over all draws.

    Args:
        draws: one value per draw, at least two.

    Example:
        >>> spread(torch.tensor([1.0, 2.0, 3.0]))
        Spread(mean=2.0, low=1.1, high=2.9, error=0.5773502691896258)
    """
    values = draws.double()
    low, high = torch.quantile(values, torch.tensor(BAND, dtype=torch.float64)).tolist()
    error = values.std() / len(values) ** 0.5
    return Spread(float(values.mean()), low, high, float(error))


def fitted_rate(
    sizes: Float[Tensor, " points"], values: Float[Tensor, " points"]
) -> tuple[float, float]:
    """Exponent and factor of the power law through positive values, by least squares of logs.

    Args:
        sizes: sizes at which the values were taken, positive.
        values: positive.

    Returns:
        ``rate`` and ``factor`` of ``factor * sizes ** rate``.

    Example:
        >>> sizes = torch.tensor([1.0, 4.0, 16.0])
        >>> [round(number, 4) for number in fitted_rate(sizes, 3 / sizes.sqrt())]
        [-0.5, 3.0]
    """
    x, y = sizes.double().log(), values.double().log()
    rate = ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()
    return float(rate), float((y.mean() - rate * x.mean()).exp())
