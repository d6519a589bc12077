"""Checked, settable hyper-parameters that live in a loss's ``state_dict``."""

from __future__ import annotations

from collections.abc import Callable
from typing import overload

from bayescl._checks import check_count


class Hyperparameter:
    """A float attribute that is checked whenever it is set.

    Args:
        check: returns the value if it may stand, else raises ``ValueError``.
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


def class_prior(tau_plus: float | None, num_classes: int | None, default: float = 0.1) -> float:
    """``tau_plus`` itself where given, else one over the number of classes, else the default."""
    if num_classes is not None:
        check_count("num_classes", num_classes, 2)
    if tau_plus is not None:
        return tau_plus
    return default if num_classes is None else 1 / num_classes
