"""A temperature that is trained along with the encoder."""

from __future__ import annotations

import math

import torch
from torch import nn

from bayescl.axes import Float, Tensor
from bayescl.checks import check_interval, check_positive


def check_temperature(temperature: float) -> float:
    """Refuse a temperature that is not positive or too small for float32 to divide by."""
    number = check_positive("temperature", temperature)
    if number < torch.finfo(torch.float32).tiny:
        raise ValueError(
            f"temperature must be at least {torch.finfo(torch.float32).tiny:.3g}, "
            f"got {temperature!r}: float32 cannot divide by it"
        )
    return number


class LearnableTemperature(nn.Module):
    """A softmax scale that stays between two bounds and always has a gradient.

    The logarithm of the temperature is a sigmoid between the logarithms of the bounds, so the
    parameter is unconstrained and the temperature can neither collapse to 0 nor get stuck at a
    clamp.

    Args:
        initial: temperature to start from, strictly between the bounds.
        minimum: lower bound, positive.
        maximum: upper bound, above ``minimum``.

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
        """Set the parameter to a given temperature.

        Args:
            temperature: strictly between the bounds.

        Raises:
            ValueError: if it is not.
        """
        self.logit.fill_(self._logit_of("temperature", temperature))

    def _logit_of(self, name: str, temperature: float) -> float:
        """The parameter at a temperature."""
        check_interval(name, temperature, self.minimum, self.maximum, open_low=True, open_high=True)
        share = math.log(temperature / self.minimum) / math.log(self.maximum / self.minimum)
        return math.log(share / (1 - share))

    def forward(self) -> Float[Tensor, ""]:
        """Return the current temperature as a differentiable scalar."""
        span = math.log(self.maximum / self.minimum)
        logit = self.logit.to(torch.promote_types(self.logit.dtype, torch.float32))
        return self.minimum * (span * logit.sigmoid()).exp()

    def extra_repr(self) -> str:
        """Show the current value and the bounds."""
        return f"{self().item():.4g} in ({self.minimum:g}, {self.maximum:g})"
