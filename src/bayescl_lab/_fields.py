"""What a field of settings may be, read from its type hint: settings check themselves by it.

A hint is ``int``, ``float``, ``bool``, ``str``, a ``Literal`` of words, a mapping, a tuple of
words or whole numbers, or ``Annotated`` with a :class:`Range`; ``| None`` may follow.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from bayescl.checks import (
    check_choice,
    check_count,
    check_interval,
    check_non_negative,
    check_positive,
)


@dataclass(frozen=True)
class Range:
    """Which values of a hint's type a field takes.

    Attributes:
        check: refuses another value by a ``ValueError`` that names it.
        words: the range as help shows it; empty where the option's own help says it.
        choices: the words that a field may be, where it is a choice.
    """

    check: Callable[[str, Any], object]
    words: str = ""
    choices: Callable[[], Sequence[str]] | None = None


def at_least(minimum: int) -> Range:
    """Whole numbers from ``minimum`` on."""
    return Range(partial(check_count, minimum=minimum), f"at least {minimum}" * (minimum > 1))


def between(low: float, high: float) -> Range:
    """Numbers of a closed interval."""
    return Range(partial(check_interval, low=low, high=high), f"from {low:g} to {high:g}")


def among(choices: Callable[[], Sequence[str]]) -> Range:
    """Words of a list that is only known at run time; ``Literal`` is for a fixed one."""
    return Range(lambda name, value: check_choice(name, value, choices()), choices=choices)


Count = Annotated[int, at_least(1)]
CountOr0 = Annotated[int, at_least(0)]
Positive = Annotated[float, Range(check_positive, "above 0")]
NonNegative = Annotated[float, Range(check_non_negative, "at least 0")]

_WORDS: dict[type, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    dict: "a mapping",
    tuple: "words",
}
"""What a type is called in messages."""


@dataclass(frozen=True)
class Kind:
    """A hint taken apart.

    Attributes:
        base: int, float, bool, str, dict or tuple.
        item: what a tuple or mapping holds.
        ranges: which values of that it may be.
        optional: whether it may be None.
    """

    base: type
    item: type = str
    ranges: tuple[Range, ...] = ()
    optional: bool = False

    def check(self, name: str, value: Any) -> None:
        """Refuse a value of another type or outside the range.

        Raises:
            ValueError: with the name, the value and what was expected.
        """
        if value is None and self.optional:
            return
        for one in self.ranges:
            one.check(name, value)
        if not self.ranges and not self._fits(value):
            raise ValueError(f"{name} must be {self.wanted}, got {value}")

    @property
    def choices(self) -> Sequence[str]:
        """The words that it may be; none where any text will do."""
        return next((one.choices() for one in self.ranges if one.choices is not None), ())

    @property
    def wanted(self) -> str:
        """What a message asks for."""
        if self.base is dict and self.item is dict:
            return "a mapping of mappings"
        return "whole numbers" if self.item is int else _WORDS[self.base]

    def _fits(self, value: Any) -> bool:
        """Whether the value is of the type; whole numbers are numbers, and truth is none."""
        if isinstance(value, bool):
            return self.base is bool
        if self.base is tuple:
            return isinstance(value, tuple) and all(type(one) is self.item for one in value)
        return isinstance(value, (int, float) if self.base is float else self.base)


def kind_of(hint: Any) -> Kind | None:
    """Take a type hint apart; None if it is none of those that fields and options have.

    Example:
        >>> kind_of(Literal["adam", "sgd"] | None).choices
        ('adam', 'sgd')
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        kinds = [kind_of(one) for one in arguments if one is not NoneType]
        if len(kinds) == 1 and kinds[0] is not None and NoneType in arguments:
            return replace(kinds[0], optional=True)
        return None
    if origin is Annotated:
        kind = kind_of(arguments[0])
        return kind and replace(kind, ranges=(*kind.ranges, *arguments[1:]))
    if origin is Literal:
        return Kind(str, ranges=(among(lambda: arguments),))
    if origin is dict:
        return Kind(dict, get_origin(arguments[1]) or arguments[1])
    if origin is tuple:
        return Kind(tuple, arguments[0])
    return Kind(hint) if hint in _WORDS else None


@cache
def kinds_of(owner: Any) -> Mapping[str, Kind]:
    """The kind of every field of a dataclass, or argument of a function, that has one."""
    hints = get_type_hints(owner, include_extras=True)
    kinds = {name: kind_of(hint) for name, hint in hints.items()}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def check_fields(settings: Any) -> None:
    """Refuse a dataclass's values that its hints do not allow.

    Raises:
        ValueError: naming the first such field.
    """
    owner: Any = type(settings)
    for name, kind in kinds_of(owner).items():
        kind.check(name, getattr(settings, name))


def descriptions(owner: object) -> dict[str, str]:
    """What a docstring says of each argument or attribute, on one line and without markup."""
    from docstring_parser import parse

    found = parse(inspect.getdoc(owner) or "").params
    plain = {one.arg_name: " ".join((one.description or "").split()) for one in found}
    return {
        name: re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`|``([^`]*)``", r"\1\2", text)
        for name, text in plain.items()
    }
