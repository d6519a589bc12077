"""Hyper-parameters of losses: checked, saved in ``state_dict``, or learnable."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, overload

import torch
from torch import nn

from bayescl._checks import (
    check_count,
    check_finite_number,
    check_floating,
    check_interval,
    check_positive,
    check_shape,
    is_eager_cpu,
)
from bayescl._types import Float, Tensor


class Hyperparameter:
    """Float attribute that is checked whenever it is set, saved, and shown in ``repr``.

    Args:
        check: Function that returns the value, or raises if it is out of range.
        *worth_trying: Further values for a search, the most promising first.
    """

    def __init__(self, check: Callable[[Any], Any], *worth_trying: float) -> None:
        self._check, self.worth_trying = check, worth_trying

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    if TYPE_CHECKING:  # at run time, the attribute of the instance takes precedence

        @overload
        def __get__(self, instance: None, owner: type) -> Hyperparameter: ...
        @overload
        def __get__(self, instance: object, owner: type) -> float: ...
        def __get__(self, instance: object | None, owner: type) -> float | Hyperparameter: ...

    def __set__(self, instance: object, value: Any) -> None:
        instance.__dict__[self._name] = self._check(value)


PRIORS_WORTH_TRYING = (0.05, 0.2, 0.01)
"""Values of ``tau_plus`` for a search."""


def state_numbers(owner: str, state: Any, names: Sequence[str]) -> dict[str, float]:
    """Return the named numbers of an ``_extra_state``; raise ``ValueError`` if any is missing."""
    if not isinstance(state, Mapping) or any(name not in state for name in names):
        held = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise ValueError(
            f"the state of {owner} must contain the numbers {', '.join(names)}, got {held}"
        )
    return {name: check_finite_number(name, state[name]) for name in names}


def class_prior(tau_plus: float | None, num_classes: int | None, default: float = 0.1) -> float:
    """Return ``tau_plus``; if ``None``, ``1 / num_classes``; if both are ``None``, the default."""
    if num_classes is not None:
        check_count("num_classes", num_classes, 2)
    if tau_plus is not None:
        return tau_plus
    return default if num_classes is None else 1 / num_classes


def check_temperature(temperature: float, name: str = "temperature") -> float:
    """Return the temperature; raise ``ValueError`` if float32 cannot divide by it."""
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
    check_floating("temperature", temperature)
    check_shape("temperature", temperature, ())
    if is_eager_cpu(temperature) and temperature.item() <= 0:  # NaN makes the loss NaN
        raise ValueError(
            f"temperature must be positive, got {temperature.item():g}; if it is 1 / scale, the "
            "scale is too large: limit it, for example to 100"
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


class SavedNumbers(nn.Module):
    """Temperature and other numbers of a loss, shown in ``repr`` and saved in ``state_dict``."""

    hyperparameters: ClassVar[tuple[str, ...]] = ()
    """Names of the class's own :class:`Hyperparameter` attributes, inherited ones first."""

    learnable_temperature: LearnableTemperature | None
    normalize: bool
    reduction: str

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        declared = [name for name, value in vars(cls).items() if isinstance(value, Hyperparameter)]
        cls.hyperparameters = (*cls.hyperparameters, *declared)

    @property
    def temperature(self) -> float:
        """Current temperature. Setting it also sets the parameter of a learnable temperature."""
        if self.learnable_temperature is None:
            return self._temperature
        return float(self.learnable_temperature().detach())

    @temperature.setter
    def temperature(self, value: float) -> None:
        if self.learnable_temperature is None:
            self._temperature = check_temperature(value)
        else:
            self.learnable_temperature.set(value)

    def current_temperature(
        self, given: float | Float[Tensor, ""] | None = None
    ) -> float | Float[Tensor, ""]:
        """Return the temperature of a call, with gradient if it is learnable.

        Args:
            given: Temperature passed to the call, a positive number or a one-element tensor. It
                is returned at least in float32. Default: the loss's own temperature.

        Raises:
            ValueError: if ``given`` is not positive.
        """
        if given is not None:
            return check_call_temperature(given)
        if self.learnable_temperature is None:
            return self._temperature
        temperature: Tensor = self.learnable_temperature()
        return temperature

    def get_extra_state(self) -> dict[str, float]:
        """Return the numbers that are saved in ``state_dict``."""
        return {name: float(getattr(self, name)) for name in self._saved}

    def set_extra_state(self, state: Any) -> None:
        """Restore the numbers from a ``state_dict``, or raise ``ValueError``."""
        for name, value in state_numbers(type(self).__name__, state, self._saved).items():
            # A learnable temperature is a parameter, and comes with the parameters.
            if name != "temperature" or self.learnable_temperature is None:
                setattr(self, name, value)

    @property
    def _saved(self) -> tuple[str, ...]:
        names = ("temperature", *self.hyperparameters)
        return tuple(name for name in names if getattr(self, name) is not None)

    def extra_repr(self) -> str:
        """Show every setting."""
        names = [name for name in self._saved if name != "temperature"]
        if self.learnable_temperature is None:
            names.append("temperature")
        shown = {name: f"{getattr(self, name):g}" for name in names}
        shown |= {"normalize": str(self.normalize), "reduction": repr(self.reduction)}
        return ", ".join(f"{name}={value}" for name, value in shown.items())
