"""The help of a command as text."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterable

from bayescl.cli._option import Option

_COLUMN = 30
"""Where the help of an option begins."""

_PLACEHOLDERS = {int: "N", float: "X", str: "TEXT", dict: "MAPPING", tuple: "A,B,..."}
"""What stands for a value of a type."""


def help_page(name: str, summary: str, docstring: str, options: Iterable[Option]) -> str:
    """What ``bayescl NAME --help`` shows.

    Args:
        name: the command as typed.
        summary: what it does, where the docstring is about several commands.
        docstring: of the command; its sections are left out.
        options: all of them.
    """
    options = list(options)
    words = [option for option in options if option.is_word]
    width = max(60, min(100, shutil.get_terminal_size().columns))
    bare = [_bare(word) for word in words]
    lines = [" ".join(["usage: bayescl", name, *bare, "[options]"]), ""]
    lines += [summary, ""] if summary else []
    lines += [docstring.partition("\n\nArgs:")[0], ""]
    for option in sorted(options, key=lambda option: not option.is_word):
        lines += _entry(_spelled(option), _explained(option), width)
    return "\n".join(lines) + "\n"


def _bare(word: Option) -> str:
    """A bare word in the usage line."""
    name = word.name.upper() + (" ..." if word.is_list else "")
    return name if word.is_required else f"[{name}]"


def _spelled(option: Option) -> str:
    """The option as it is typed."""
    if option.is_word:
        return option.name.upper()
    dashes = "-" if len(option.name) == 1 else "--"
    name = dashes + option.name.replace("_", "-")
    if option.is_switch:
        return f"{name} true|false" if option.default else name
    return f"{name} {'|'.join(option.choices) or _PLACEHOLDERS[option.kind.base]}"


def _explained(option: Option) -> str:
    """What the docstring says of an option, its range and its default."""
    notes = [str(one) for one in option.kind.ranges if str(one)]
    is_nothing = option.default is None or option.default is False or option.default in ("", ())
    if not (option.is_required or is_nothing or "default:" in option.help):
        notes.append(f"default: {_written(option.default)}")
    return option.help + (f" ({'; '.join(notes)})" if notes else "")


def _entry(spelled: str, explained: str, width: int) -> list[str]:
    """An option and its help, side by side where there is room."""
    space = " " * _COLUMN
    text = textwrap.wrap(explained, width, initial_indent=space, subsequent_indent=space)
    if len(spelled) + 4 <= _COLUMN and text:
        return [f"  {spelled}".ljust(_COLUMN) + text[0].lstrip(), *text[1:]]
    return [f"  {spelled}", *text]


def _written(value: object) -> str:
    """A default as it would be typed."""
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "true" if value is True else str(value)
