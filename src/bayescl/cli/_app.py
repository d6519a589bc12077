"""From the words of a command line to a call of a command, and to an exit status."""

from __future__ import annotations

import importlib
import os
import pkgutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bayescl import __version__
from bayescl.cli._options import parse_options

SUCCESS, BAD_INPUT, INTERRUPTED = 0, 2, 130

DEBUG_VARIABLE = "BAYESCL_DEBUG"
"""Set to anything, shows the traceback behind an error's one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    Args:
        arguments: the words after ``bayescl``; those of this process unless given.

    Returns:
        0 when all went well, 2 on bad input, after one line on standard error, and 130 on
        Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except (ValueError, OSError) as error:
        if os.environ.get(DEBUG_VARIABLE):
            raise
        _complain(str(error) or type(error).__name__)
        return BAD_INPUT
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("bayescl"):
            raise
        _complain(f"this command needs {error.name}: pip install 'bayescl[all]'")
        return BAD_INPUT
    except KeyboardInterrupt:
        # A second Ctrl-C while Python shuts down would only add a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _complain("interrupted")
        return INTERRUPTED


def commands() -> dict[str, str]:
    """Module name by command, such as "train images"."""
    folder = str(Path(__file__).parent)
    modules = sorted(module.name for module in pkgutil.iter_modules([folder]))
    return {
        name.replace("_", " "): f"bayescl.cli.{name}"
        for name in modules
        if not name.startswith("_")
    }


def _run(words: list[str]) -> int:
    """Find the command, parse its options and call it."""
    known = commands()
    if words == ["--version"]:
        sys.stdout.write(f"bayescl {__version__}\n")
        return SUCCESS
    leading = []
    for word in words:
        if word.startswith("-"):
            break
        leading.append(word)
    for length in range(len(leading), 0, -1):
        name = " ".join(leading[:length])
        if name in known:
            function = importlib.import_module(known[name]).command
            options = parse_options(function, name, words[length:])
            return SUCCESS if options is None else int(function(**options) or SUCCESS)
    return _answer_without_command(leading, words, known)


def _answer_without_command(leading: list[str], words: list[str], known: dict[str, str]) -> int:
    """List the commands if that was asked for; else say what is wrong."""
    group = " ".join(leading)
    below = {
        name: module for name, module in known.items() if name.startswith(f"{group} ".lstrip())
    }
    asked_for_help = not words or set(words[len(leading) :]) & {"-h", "--help"}
    if below and asked_for_help:
        sys.stdout.write(_overview(below))
        return SUCCESS
    if below and leading:
        raise ValueError(f"bayescl {group} needs one of: {', '.join(_last_words(below, group))}")
    if leading:
        raise ValueError(f"there is no command {group!r}; see bayescl --help")
    raise ValueError(f"there is no option {words[0]} here; see bayescl --help")


def _last_words(below: dict[str, str], group: str) -> list[str]:
    """What may follow a group's name."""
    return [name.removeprefix(group).strip() for name in below]


def _overview(known: dict[str, str]) -> str:
    """Every command with the first line of its docstring."""
    lines = ["usage: bayescl COMMAND [options]", ""]
    width = max(map(len, known))
    for name, module in known.items():
        function: Callable[..., object] = importlib.import_module(module).command
        first = (function.__doc__ or "").strip().partition("\n")[0]
        lines.append(f"  {name:<{width}}  {first}")
    lines += ["", "bayescl COMMAND --help lists a command's options."]
    return "\n".join(lines) + "\n"


def _complain(message: str) -> None:
    """Write one line to standard error, whatever line breaks the message has."""
    sys.stderr.write(f"bayescl: {' '.join(message.split())}\n")
