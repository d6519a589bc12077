"""Run a command line: find the command, call it, and return an exit status."""

from __future__ import annotations

import ast
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from bayescl import __version__

SUCCESS, BAD_INPUT, INTERRUPTED = 0, 2, 130

DEBUG_VARIABLE = "BAYESCL_DEBUG"
"""If set, errors show their traceback instead of one line."""

_ITEMS = "ITEMS"
"""Name of the mapping, in a file of several commands, from a command's last word to its summary."""

_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")
"""Torch's messages for sizes beyond memory; on the CPU it has no exception for them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status.

    Args:
        arguments: the words after ``bayescl``; default: this process's own.

    Returns:
        0 on success, 2 on bad input, with one line on standard error, and 130 on Ctrl-C.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _run(words)
    except KeyboardInterrupt as interrupt:
        # A second Ctrl-C while Python shuts down would only add a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _complain(": ".join(["interrupted", *map(str, interrupt.args)]))
        return INTERRUPTED
    except Exception as error:
        complaint = _complaint(error)
        if complaint is None or os.environ.get(DEBUG_VARIABLE):
            raise
        _complain(complaint)
        return BAD_INPUT


@dataclass(frozen=True)
class Command:
    """The location of a command, found without importing it.

    Attributes:
        module: its file's module.
        summary: the first line of its docstring.
        item: its name among the file's commands, if there are several.
    """

    module: str
    summary: str
    item: str | None = None


@cache
def commands() -> Mapping[str, Command]:
    """Every command by its name, such as "train images"."""
    found: dict[str, Command] = {}
    for file in sorted(Path(__file__).parent.glob("[!_]*.py")):
        module, name = f"bayescl_lab.cli.{file.stem}", file.stem.replace("_", " ")
        items, summary = _described(file)
        if items:
            found |= {f"{name} {item}": Command(module, does, item) for item, does in items.items()}
        else:
            found[name] = Command(module, summary)
    return dict(sorted(found.items()))


def _described(file: Path) -> tuple[dict[str, str], str]:
    """The summaries of a file's commands, read without running it."""
    items: dict[str, str] = {}
    summary = ""
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == _ITEMS:
            items = ast.literal_eval(node.value)
        elif isinstance(node, ast.FunctionDef) and node.name == "command":
            summary = (ast.get_docstring(node) or "").partition("\n")[0]
    return items, summary


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
            return _call(known[name], name, words[length:])
    return _answer_without_command(leading, words, known)


def _call(command: Command, name: str, words: list[str]) -> int:
    """Import a command and call it."""
    from bayescl_lab.cli._options import parse_options

    function = importlib.import_module(command.module).command
    fixed: dict[str, Any] = {} if command.item is None else {"item": command.item}
    summary = command.summary if fixed else ""
    options = parse_options(function, name, words, fixed=fixed, summary=summary)
    return SUCCESS if options is None else int(function(**options) or SUCCESS)


def _answer_without_command(
    leading: list[str], words: list[str], known: Mapping[str, Command]
) -> int:
    """List the commands if asked to; otherwise say what is wrong."""
    group = " ".join(leading)
    below = {
        name: command for name, command in known.items() if name.startswith(f"{group} ".lstrip())
    }
    asked_for_help = not words or set(words[len(leading) :]) & {"-h", "--help"}
    if below and asked_for_help:
        sys.stdout.write(_overview(below))
        return SUCCESS
    if below and leading:
        last = [name.removeprefix(group).strip() for name in below]
        raise ValueError(f"bayescl {group} needs one of: {', '.join(last)}")
    if leading:
        raise ValueError(f"unknown command {group!r}; see bayescl --help")
    raise ValueError(f"unknown option {words[0]}; see bayescl --help")


def _overview(known: Mapping[str, Command]) -> str:
    """Every command with what it does."""
    width = max(map(len, known))
    lines = [f"  {name:<{width}}  {command.summary}" for name, command in known.items()]
    closing = "bayescl COMMAND --help lists a command's options."
    return "\n".join(["usage: bayescl COMMAND [options]", "", *lines, "", closing, ""])


def _complaint(error: Exception) -> str | None:
    """The message for a user's error; None if the error is a bug in the program."""
    if isinstance(error, ModuleNotFoundError):
        if error.name is None or error.name.startswith("bayescl"):
            return None
        return f"this command needs {error.name}: pip install 'bayescl[all]'"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, (ValueError, OSError)):
        return str(error) or type(error).__name__
    is_full = isinstance(error, RuntimeError) and any(word in str(error) for word in _OUT_OF_MEMORY)
    if is_full or isinstance(error, MemoryError):
        return "not enough memory for these sizes: choose smaller ones"
    return None


def _complain(message: str) -> None:
    """Write a message to standard error as one line."""
    sys.stderr.write(f"bayescl: {' '.join(message.split())}\n")
