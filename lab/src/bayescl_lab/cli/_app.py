"""The command line application and its error messages."""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError
from cyclopts.argument import ArgumentCollection

from bayescl import __version__
from bayescl_lab._interrupts import Terminated, handled
from bayescl_lab.cli._console import notes, printable

BAD_INPUT, INTERRUPTED, TERMINATED = 2, 130, 143

COMMANDS = {
    "compare": "Compare losses over several seeds, for encoders or recommenders.",
    "data": "List and fetch data sets.",
    "embed": "Write the embeddings of a run's items or users to a file.",
    "evaluate": "Evaluate a run: encoders by every probe, recommenders by full ranking.",
    "export": "Export a run's model for use without this library.",
    "inspect": "Measure false negatives and nuisances in embeddings, and recommend a loss.",
    "recommend": "Show the best new items for a user, or write lists for all users.",
    "report": "Make an HTML page of runs and comparisons.",
    "train": "Train an encoder on arrays or images, or a recommender.",
}
"""Summaries of the commands of ``bayescl``."""

SECOND_WORDS = {
    "compare": ("arrays", "images", "ranking"),
    "data": ("fetch", "list"),
    "train": ("arrays", "images", "ranking"),
}
"""Commands of ``bayescl`` with two words."""

_FINISHED = ("embed", "evaluate", "export", "recommend", "report")
_MODULES = dict.fromkeys(_FINISHED, "finished")


@dataclass(frozen=True)
class Program:
    """A program with typed commands. Help and errors import only the module of their command.

    Attributes:
        name: Name in messages.
        summary: Description of the program.
        commands: Summaries of the commands by name.
        modules: Template of the modules' names, with the command's name for ``{}``. A command is
            the function with the command's name.
        second_words: Second words of commands that have one: further functions of the module.
    """

    name: str
    summary: str
    commands: Mapping[str, str]
    modules: str
    second_words: Mapping[str, Sequence[str]] = field(default_factory=dict)


BAYESCL = Program(
    "bayescl",
    "Train, compare and serve models with contrastive losses that handle false negatives.",
    COMMANDS,
    "bayescl_lab.cli.{}",
    SECOND_WORDS,
)

_OUT_OF_MEMORY = ("can't allocate memory", "out of memory", "Storage size calculation overflowed")
"""Messages of torch if memory does not suffice. On the CPU there is no exception class for it."""


def main(arguments: Sequence[str] | None = None, program: Program = BAYESCL) -> int:
    """Run a command line and return its exit status.

    Args:
        arguments: Words after the program's name. Default: the arguments of this process.
        program: Program to run.

    Returns:
        0 on success, 2 on bad input, 130 on Ctrl-C and 143 on SIGTERM. Errors print one line to
        standard error. A second Ctrl-C or SIGTERM ends the process at once.
    """
    words = [*(sys.argv[1:] if arguments is None else arguments)] or ["--help"]
    for index, word in enumerate(words):
        # Options may be spelled with _ or -. A shell does not expand ~ after =.
        word = re.sub(r"^--[^=]+", lambda name: name[0].replace("_", "-"), word)
        words[index] = re.sub(r"^(--[^=]+=)~(?=/|$)", lambda it: f"{it[1]}{Path.home()}", word)
    notes.messages.clear()
    logging.getLogger("bayescl_lab").addHandler(notes)  # once, if called again
    try:
        with handled(), warnings.catch_warnings():
            warnings.showwarning = _print_warning
            application(words, program).meta(
                words, exit_on_error=False, print_error=False, result_action="return_none"
            )
    except KeyboardInterrupt as stop:
        is_sigterm = isinstance(stop, Terminated)
        said = ": ".join(["terminated" if is_sigterm else "interrupted", *stop.args])
        _print_error(said, program)
        return TERMINATED if is_sigterm else INTERRUPTED
    except Exception as error:
        message = _message(error)
        if message is None:
            raise
        _print_error(message, program)
        return BAD_INPUT
    return 0


def application(words: list[str] | None = None, program: Program = BAYESCL) -> App:
    """Return the application with the command of a command line imported.

    Args:
        words: Command line. Default: import all commands.
        program: Program with these commands.
    """
    app = Command(program.name, version=__version__, help_format="plaintext")
    app.default_parameter = Parameter(negative_iterable=(), allow_repeating=True)
    for word, summary in program.commands.items():
        command = Command(word, help=summary)
        app.command(command)
        if words is not None and words[:1] != [word]:
            continue
        from pydantic import validate_call  # the overview of the commands does not need it

        command.help_format = "markdown"  # for docstrings; the overview is faster without
        module = import_module(program.modules.format(_MODULES.get(word, word)))
        if hasattr(module, word):
            command.help = None  # use the function's docstring
            command.default(validate_call(getattr(module, word)))
        for name in program.second_words.get(word, ()):
            command.command(validate_call(getattr(module, name)), name=name)

    def launch(
        *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        config: Path | None = None,
        print_config: Annotated[bool, Parameter(negative=())] = False,
    ) -> None:
        """Run a command.

        Args:
            words: Command and options.
            config: YAML file with options, such as a run's config.yaml.
            print_config: Print the options as YAML and exit.
        """
        from bayescl_lab.cli._config import call

        call(app, words, config=config, print_config=print_config)

    app.meta.default(launch)
    app.meta.help = program.summary
    app.meta.suppress_keyboard_interrupt = False
    return app


class Command(App):
    """Command or group of commands. The help shows the ranges of options."""

    def assemble_argument_collection(self, **options: Any) -> ArgumentCollection:
        """Return the options with ranges in their help, without empty defaults."""
        arguments = super().assemble_argument_collection(**options)
        for argument in arguments:
            shown = Parameter(show_default=False) if argument.field_info.default == () else None
            if words := _range_words(argument.field_info.annotation):
                shown = Parameter(help=f"{argument.parameter.help or ''} ({words})")
            argument.parameter = Parameter.combine(argument.parameter, shown)
        return arguments


def _range_words(hint: object) -> str:
    """Return the range of an option in words, according to its type."""
    parts = [*getattr(hint, "__metadata__", ()), *get_args(hint)]
    words = (getattr(part, "description", None) or _range_words(part) for part in parts)
    return next(filter(None, words), "")


def _message(error: Exception) -> str | None:
    """Return the message for a user's error; ``None`` if the error is a bug."""
    from pydantic import ValidationError

    from bayescl_lab._fields import format_error

    cause = error.__cause__ if isinstance(error, CycloptsError) else error
    if isinstance(cause, ValidationError):
        argument = getattr(error, "argument", None)
        return format_error(cause, "" if argument is None else argument.name.lstrip("*"))
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, UnusedCliTokensError):
        return f"unrecognized arguments: {' '.join(error.unused_tokens or ())}"
    if isinstance(error, (CycloptsError, ValueError, OSError)):
        return str(error) or type(error).__name__
    is_full = isinstance(error, RuntimeError) and any(word in str(error) for word in _OUT_OF_MEMORY)
    if is_full or isinstance(error, MemoryError):
        return "not enough memory for these sizes: choose smaller ones"
    return None


def _print_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Write a warning to standard error without its location in the source."""
    sys.stderr.write(f"note: {' '.join(str(message).split())}\n")


def _print_error(message: str, program: Program) -> None:
    """Write a message to standard error as one line, since it may quote a damaged file."""
    line = printable(" ".join(message.split()))
    sys.stderr.write(f"{program.name}: {line if len(line) <= 2000 else line[:2000] + ' ...'}\n")
