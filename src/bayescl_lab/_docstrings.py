"""What docstrings say, for the help of commands."""

from __future__ import annotations

import inspect
import re


def descriptions(owner: object) -> dict[str, str]:
    """What a docstring says of each argument or attribute, on one line and without markup."""
    from docstring_parser import parse

    params = parse(inspect.getdoc(owner) or "").params
    return {one.arg_name: without_markup(one.description or "") for one in params}


def without_markup(text: str) -> str:
    """A docstring's text on one line, without markup.

    Example:
        >>> without_markup("``beta``; see :class:`~bayescl.losses.HardContrastiveLoss`")
        'beta; see HardContrastiveLoss'
    """
    plain = " ".join(text.split())
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`|``([^`]*)``", r"\1\2", plain)
