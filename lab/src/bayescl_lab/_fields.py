"""Types of settings, checked by Pydantic.

The type hint of a field holds its range, and the range has a text for the help of commands.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError

Value = TypeVar("Value")


def at_least(minimum: int) -> Any:
    """Return the constraint of an integer that it is at least ``minimum``."""
    words = f"at least {minimum}" if minimum > 1 else None
    return Field(ge=minimum, lt=2**63, description=words)


def between(low: float, high: float) -> Any:
    """Return the constraint of a number that it lies between ``low`` and ``high``, inclusive."""
    words = f"from {low:g} to {high:g}"
    return Field(ge=low, le=high, allow_inf_nan=False, description=words)


def separated(text: str) -> list[str]:
    """Split words at commas outside of double quotes.

    Example:
        >>> separated('a, "b, c"')
        ['a', 'b, c']
    """
    rows = csv.reader([text], skipinitialspace=True)
    return [word.strip() for row in rows for word in row if word.strip()]


def listed(names: Sequence[str], most: int = 8) -> str:
    """Join the first few of many names.

    Example:
        >>> listed(["a", "b", "c"], 2)
        'a, b, ...'
    """
    return ", ".join(names[:most]) + ", ..." * (len(names) > most)


def _separated(value: object) -> object:
    """Split comma-separated words, or a list of them, into a list of words."""
    parts = [value] if isinstance(value, str) else value
    if not isinstance(parts, (list, tuple)):
        return value
    return [word for part in parts for word in separated(str(part))]


Count = Annotated[int, at_least(1)]
CountOr0 = Annotated[int, at_least(0)]
Tries = Annotated[int, Field(ge=0, le=100, description="from 0 to 100; 0 for none")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, description="above 0")]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False, description="at least 0")]
Share = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False, description="above 0, at most 1")]
Words = Annotated[tuple[str, ...], BeforeValidator(_separated)]


def checked(name: str, value: Value, hint: Any) -> Value:
    """Return a value if it has the type and range of a hint; raise ``ValueError`` otherwise.

    Example:
        >>> checked("epochs", 3, Count)
        3
    """
    try:
        TypeAdapter(hint).validate_python(value, strict=True)
    except ValidationError as error:
        raise ValueError(format_error(error, name)) from None
    return value


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ``ValueError`` if ``value`` is not one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def format_error(error: ValidationError, name: str = "") -> str:
    """Describe an invalid value in one line.

    Args:
        error: Errors found by Pydantic. Only the first one is described.
        name: Name of the value, if the error does not have it.

    Example:
        >>> from pydantic import TypeAdapter
        >>> try:
        ...     TypeAdapter(Count).validate_python(0)
        ... except ValidationError as error:
        ...     format_error(error, "epochs")
        'epochs must be at least 1, got 0'
    """
    first = error.errors()[0]
    own = first.get("ctx", {}).get("error")
    if isinstance(own, ValueError):  # raised by the settings themselves
        return str(own)
    names = [part for part in (name, *first["loc"]) if part and isinstance(part, str)]
    wanted = first["msg"].partition(", unable to parse")[0]
    wanted = wanted.replace("Input should", "must").replace("Unexpected", "is an unexpected")
    wanted = wanted.replace("greater than or equal to", "at least")
    wanted = wanted.replace("less than or equal to", "at most").replace("greater than", "above")
    wanted = wanted.replace("less than", "below")
    return f"{'.'.join(names)} {wanted}, got {first['input']}"
