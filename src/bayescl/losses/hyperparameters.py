"""Checked, settable hyper-parameters that live in a loss's ``state_dict``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from bayescl.checks import check_count, check_finite_number


class Hyperparameter:
    """A float attribute that is checked whenever it is set.

    Args:
        check: returns the value if it is valid, otherwise raises ``ValueError``.
    """

    def __init__(self, check: Callable[[float], float]) -> None:
        self._check = check

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> Hyperparameter: ...
    @overload
    def __get__(self, instance: object, owner: type) -> float: ...
    def __get__(self, instance: object | None, owner: type) -> float | Hyperparameter:
        if instance is None:
            return self
        value: float = instance.__dict__[self._slot]
        return value

    def __set__(self, instance: object, value: float) -> None:
        instance.__dict__[self._slot] = self._check(value)


def state_numbers(owner: str, state: Any, names: Sequence[str]) -> dict[str, float]:
    """Return the named numbers of an ``_extra_state``, or refuse a damaged state."""
    if not isinstance(state, Mapping) or any(name not in state for name in names):
        held = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
        raise ValueError(
            f"the state of {owner} must hold the numbers {', '.join(names)}, got {held}"
        )
    return {name: check_finite_number(name, state[name]) for name in names}


def class_prior(tau_plus: float | None, num_classes: int | None, default: float = 0.1) -> float:
    """``tau_plus`` if given, else one over the number of classes, else the default."""
    if num_classes is not None:
        check_count("num_classes", num_classes, 2)
    if tau_plus is not None:
        return tau_plus
    return default if num_classes is None else 1 / num_classes
