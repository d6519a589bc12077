"""What a value may be, read from its type hint: settings check themselves, command lines follow.

A hint is ``int``, ``float``, ``bool``, ``str``, a ``Literal`` of words, a mapping, a tuple of
words or whole numbers, or ``Annotated`` with a range of this module; ``| None`` may follow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin, get_type_hints

from bayescl._checks import (
    check_choice,
    check_count,
    check_interval,
    check_non_negative,
    check_positive,
)


class Range(Protocol):
    """Values that a hint's type has, and that a field may not all take."""

    def check(self, name: str, value: Any) -> None:
        """Refuse a value outside the range by a ``ValueError`` that names it."""

    def __str__(self) -> str:
        """The range in a few words, or nothing where the help says it."""


@dataclass(frozen=True)
class AtLeast:
    """Whole numbers from ``minimum`` on."""

    minimum: int

    def check(self, name: str, value: int) -> None:
        """Refuse a smaller one, and one that no machine counts to."""
        check_count(name, value, self.minimum)
        if value >= 2**63:
            raise ValueError(f"{name} must be below 2^63, got {value}")

    def __str__(self) -> str:
        return f"at least {self.minimum}" if self.minimum > 1 else ""


@dataclass(frozen=True)
class Between:
    """Numbers of a closed interval."""

    low: float
    high: float

    def check(self, name: str, value: float) -> None:
        """Refuse one outside."""
        check_interval(name, value, self.low, self.high)

    def __str__(self) -> str:
        return f"from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class From0:
    """Numbers of at least 0."""

    def check(self, name: str, value: float) -> None:
        """Refuse a negative one."""
        check_non_negative(name, value)

    def __str__(self) -> str:
        return "at least 0"


@dataclass(frozen=True)
class Above0:
    """Positive numbers."""

    def check(self, name: str, value: float) -> None:
        """Refuse 0 and less."""
        check_positive(name, value)

    def __str__(self) -> str:
        return "above 0"


@dataclass(frozen=True)
class Among:
    """Words of a list that is only known at run time; of a fixed one there is ``Literal``."""

    words: Callable[[], Sequence[str]]

    def check(self, name: str, value: str) -> None:
        """Refuse another word."""
        check_choice(name, value, self.words())

    def __str__(self) -> str:
        return ""


Count = Annotated[int, AtLeast(1)]
CountOr0 = Annotated[int, AtLeast(0)]
Positive = Annotated[float, Above0()]
NonNegative = Annotated[float, From0()]

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
        choices: the words that it may be; none where it is no choice.
        ranges: what else is asked of it.
        optional: whether it may be None.
    """

    base: type
    choices: tuple[str, ...] = ()
    ranges: tuple[Range, ...] = ()
    optional: bool = False
    item: type = str

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
        if self.choices:
            check_choice(name, value, self.choices)

    def read(self, name: str, value: Any) -> Any:
        """A typed word, or a value from a file, as what the hint wants.

        Raises:
            ValueError: where it is something else.

        Example:
            >>> kind_of(float).read("lr", "1e-3"), kind_of(bool).read("compiled", "true")
            (0.001, True)
        """
        if self.optional and value in (None, "null"):
            return None
        given = value
        if self.base is tuple and isinstance(value, str):
            value = [one.strip() for one in value.split(",") if one.strip()]
        if self.base is tuple and isinstance(value, list):
            value = tuple(_parsed(one, self.item) for one in value)
        elif isinstance(value, str) and self.base is not str:
            value = _parsed(value, self.base)
        elif self.base is str and type(value) in (int, float):
            value = str(value)
        if self.base is float and type(value) is int:
            value = float(value)
        if not self._fits(value) or value != value:
            raise ValueError(f"{name} must be {self.wanted}, got {given}")
        self.check(name, value)
        return value

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
        if self.base is dict and self.item is dict:
            return isinstance(value, dict) and all(isinstance(x, dict) for x in value.values())
        return isinstance(value, (int, float) if self.base is float else self.base)


def kind_of(hint: Any) -> Kind | None:
    """Take a type hint apart; None if it is none of those that fields and options have.

    Example:
        >>> kind_of(Count | None)
        Kind(base=<class 'int'>, choices=(), ranges=(AtLeast(minimum=1),), optional=True, ...)
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
        return Kind(str, arguments)
    if origin is dict:
        return Kind(dict, item=get_origin(arguments[1]) or arguments[1])
    if origin is tuple:
        return Kind(tuple, item=arguments[0])
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


def _parsed(text: Any, wanted: type) -> Any:
    """Text as a value of a type, or the text itself where it is none."""
    if not isinstance(text, str) or wanted is str:
        return text
    if wanted is dict:
        import yaml

        try:
            return yaml.safe_load(text)
        except yaml.YAMLError:
            return text
    if wanted is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return wanted(text)
    except ValueError:
        return text
