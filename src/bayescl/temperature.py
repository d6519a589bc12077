"""Temperatures: checks, and a learnable one."""

from __future__ import annotations

import math

import torch
from torch import nn

from bayescl._checks import (
    check_interval,
    check_positive,
    check_shape,
    check_tensor,
    is_eager_cpu,
)
from bayescl._types import Float, Tensor


def check_temperature(temperature: float, name: str = "temperature") -> float:
    """Return the temperature; raise ``ValueError`` if float32 cannot divide by it."""
    if isinstance(temperature, Tensor) and temperature.requires_grad:
        raise TypeError(
            f"{name} must be a number, got a tensor that requires a gradient: use "
            "bayescl.LearnableTemperature, or pass the tensor as temperature= of each call"
        )
    number = check_positive(name, temperature)
    if number < torch.finfo(torch.float32).tiny:
        raise ValueError(
            f"{name} must be at least {torch.finfo(torch.float32).tiny:.3g}, "
            f"got {temperature!r}: float32 cannot divide by it"
        )
    return number


def check_call_temperature(temperature: float | Tensor) -> float | Tensor:
    """Return the temperature of a call, at least in float32; raise if it is out of range."""
    if not isinstance(temperature, Tensor):
        return check_temperature(temperature)
    check_tensor("temperature", temperature, floating=True)
    check_shape("temperature", temperature, ())
    if is_eager_cpu(temperature) and temperature.item() <= 0:  # NaN makes the loss NaN
        raise ValueError(
            f"temperature must be positive, got {temperature.item():g}; if it is computed as "
            "1 / scale, limit the scale, for example to 100"
        )
    return temperature.to(torch.promote_types(temperature.dtype, torch.float32))


class LearnableTemperature(nn.Module):
    """Learnable temperature between two bounds.

    The logarithm of the temperature is a sigmoid between the logarithms of the bounds. Unlike a
    clamped temperature, it always has a gradient.

    Args:
        initial: Initial temperature, strictly between the bounds.
        minimum: Lower bound, positive. Default: 0.01.
        maximum: Upper bound, above ``minimum``. Default: 1.

    Raises:
        ValueError: if the bounds are not ordered or ``initial`` does not lie between them.

    Example:
        >>> temperature = LearnableTemperature(0.1)
        >>> round(temperature().item(), 4)
        0.1
    """

    def __init__(self, initial: float, minimum: float = 0.01, maximum: float = 1.0) -> None:
        super().__init__()
        self.minimum = check_positive("minimum", minimum)
        self.maximum = check_positive("maximum", maximum)
        if self.minimum >= self.maximum:
            raise ValueError(f"minimum must be below maximum, got {minimum!r} and {maximum!r}")
        self.logit = nn.Parameter(torch.tensor(self._logit_of("initial", initial)))

    @torch.no_grad()
    def set(self, temperature: float) -> None:
        """Set the temperature; raise ``ValueError`` unless it is strictly between the bounds."""
        self.logit.fill_(self._logit_of("temperature", temperature))

    def _logit_of(self, name: str, temperature: float) -> float:
        """Return the parameter that gives a temperature."""
        low, high = self.minimum, self.maximum
        check_interval(name, temperature, low, high, open_low=True, open_high=True)
        # log(t / low) / log(high / t). Next to a bound, rounding must not make either of them 0.
        below, above = (temperature - low) / low, (high - temperature) / temperature
        return math.log(math.log1p(below) / math.log1p(above))

    def forward(self) -> Float[Tensor, ""]:
        """Return the current temperature as a differentiable scalar."""
        span = math.log(self.maximum / self.minimum)
        logit = self.logit.to(torch.promote_types(self.logit.dtype, torch.float32))
        return self.minimum * (span * logit.sigmoid()).exp()

    def extra_repr(self) -> str:
        """Show the current value and the bounds."""
        return f"{self().item():.4g} in ({self.minimum:g}, {self.maximum:g})"
