"""``bayescl completion``."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from bayescl_lab.cli._app import Command

_FOLDERS = ("out", "run", "runs", "to", "init")
_FILES = ("config",)


def command(shell: Literal["bash", "zsh", "tcsh"] = "bash") -> int:
    """Print a shell script that completes commands, options and choices.

    For bash: bayescl completion bash > ~/.local/share/bash-completion/completions/bayescl. For
    zsh: bayescl completion zsh > _bayescl, in a folder of $fpath. Then open a new shell.

    Args:
        shell: the shell.
    """
    import shtab

    from bayescl_lab.cli._app import commands

    parser = ArgumentParser("bayescl", description="Contrastive losses and runs that use them")
    _add_commands(parser, {tuple(name.split()): one for name, one in commands().items()})
    sys.stdout.write(shtab.complete(parser, shell))
    return 0


def _add_commands(parser: ArgumentParser, known: Mapping[tuple[str, ...], Command]) -> None:
    """Add commands word by word, as a tree."""
    below: dict[str, dict[tuple[str, ...], Command]] = {}
    for words, one in known.items():
        below.setdefault(words[0], {})[words[1:]] = one
    parts = parser.add_subparsers()
    for word, rest in below.items():
        alone = rest.get(())
        summary = alone.summary if alone is not None else f"{word} ..."
        part = parts.add_parser(word, help=summary.replace("%", "%%"))
        if alone is not None:
            _add_options(part, alone)
        if further := {words: one for words, one in rest.items() if words}:
            _add_commands(part, further)


def _add_options(parser: ArgumentParser, one: Command) -> None:
    """Add the options of a command, with their choices."""
    import importlib

    import shtab

    from bayescl_lab.cli._options import offered_options

    function = importlib.import_module(one.module).command
    fixed = {} if one.item is None else {"item": one.item}
    for name, kind, bare in offered_options(function, fixed):
        spelled = name if bare else f"--{name.replace('_', '-')}" if len(name) > 1 else f"-{name}"
        settings: dict[str, Any] = {"choices": list(kind.choices) or None}
        if bare or kind.base is bool:
            settings["nargs"] = "?"
        action: Any = parser.add_argument(spelled, **settings)
        if name in _FOLDERS:
            action.complete = shtab.DIRECTORY
        elif name in _FILES:
            action.complete = shtab.FILE
