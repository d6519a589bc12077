"""The command line: its commands, and what becomes of their errors."""

from __future__ import annotations

import inspect
import os
import re
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, get_args

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError
from cyclopts.argument import ArgumentCollection

from bayescl import __version__
from bayescl_lab._docstrings import without_markup

SUCCESS, BAD_INPUT, INTERRUPTED = 0, 2, 130

DEBUG_VARIABLE = "BAYESCL_DEBUG"
"""If set, errors show their traceback instead of one line."""

GROUPS = {
    "compare": "Compare losses over several seeds: of encoders of images, or of recommenders.",
    "data": "List, fetch and verify data sets.",
    "train": "Train an encoder on images, or a recommender on interactions.",
}
"""Commands that only have commands below them, with a summary."""

COMMANDS = {
    "compare images": "Train several losses over several seeds and compare their encoders.",
    "compare ranking": "Train several losses over several seeds and compare their recommenders.",
    "completion": "Print a shell script that completes commands, options and choices.",
    "data fetch": "Download a data set into the data folder, or explain how to get it.",
    "data list": "List the data sets that commands know by name, with size and terms of use.",
    "data verify": "Check that a data set can be read and matches known checksums.",
    "embed": "Write the embeddings of a run's users, items or images to a file.",
    "evaluate": "Evaluate a run: images by every probe, recommenders by full ranking.",
    "export": "Write a run's model in a form that works without this library.",
    "inspect": "Show how many false negatives there are, and how a loss weights its candidates.",
    "recommend": "Show the best new items for a user, or write lists for many users.",
    "report": "Make an HTML page of runs and comparisons, or update the results quoted in pages.",
    "reproduce": "Make the paper's tables on images, one or all.",
    "reproduce ranking": "Make the paper's ranking table: choose settings, then judge on test.",
    "simulate": "Run the numerical experiments and write a data file and a figure for each.",
    "train images": "Train an encoder on images with one loss, and evaluate it with every probe.",
    "train ranking": "Train a recommender on interactions, and evaluate it by full ranking.",
}
"""Every command with its docstring's first line, so that an overview need not import them.

``train images`` is the function ``images`` in ``train.py``, ``embed`` is ``command`` in
``embed.py``.
"""

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
    # Options may be spelled with _ or -.
    words = [re.sub(r"^--[^=]+", lambda name: name[0].replace("_", "-"), word) for word in words]
    try:
        return int(
            application(words).meta(
                words, exit_on_error=False, print_error=False, result_action="return_value"
            )
            or SUCCESS
        )
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


def application(words: Sequence[str] | None = None) -> App:
    """The commands, of which only those that a command line begins with are imported.

    Args:
        words: the command line; default: all commands are imported.
    """
    app = Command("bayescl", version=__version__, help_format="plaintext")
    app.default_parameter = Parameter(negative_iterable=(), allow_repeating=True)
    known: dict[str, App] = {"": app}
    for name, summary in sorted({**GROUPS, **COMMANDS}.items()):
        group, _, last = name.rpartition(" ")
        known[name] = Command(last)
        parts = name.split()
        if name in COMMANDS and (words is None or list(words[: len(parts)]) == parts):
            from pydantic import validate_call

            module, function_name = [*parts, "command"][:2]
            function = getattr(import_module(f"bayescl_lab.cli.{module}"), function_name)
            known[name].default(validate_call(function))
            known[name].help = _paragraphs(function)
        else:
            known[name].help = summary
        known[group].command(known[name])

    def launch(
        *words: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        config: Path | None = None,
        print_config: Annotated[bool, Parameter(negative=())] = False,
    ) -> int:
        """Contrastive losses that are not fooled by false negatives, and runs with them.

        Args:
            words: the command and its options.
            config: a YAML file with options, as in config.yaml.
            print_config: print the options in that form and exit.
        """
        from bayescl_lab.cli._options import call

        return call(app, words, config=config, print_config=print_config)

    app.meta.default(launch)
    app.meta.suppress_keyboard_interrupt = False
    return app


class Command(App):
    """A command or a group of commands, whose help shows the ranges of options."""

    def assemble_argument_collection(self, **options: Any) -> ArgumentCollection:
        """The options, with their ranges in their help."""
        arguments = super().assemble_argument_collection(**options)
        for argument in arguments:
            words = _range_words(argument.field_info.annotation)
            text = f"{argument.parameter.help or ''} {f'({words})' if words else ''}"
            shown = Parameter(help=without_markup(text))
            argument.parameter = Parameter.combine(argument.parameter, shown)
        return arguments


def _paragraphs(function: Callable[..., Any]) -> str:
    """A docstring's text above its arguments, a line a paragraph."""
    text = (inspect.getdoc(function) or "").partition("\n\nArgs:")[0]
    return "\n\n".join(map(without_markup, text.split("\n\n")))


def _range_words(hint: Any) -> str:
    """What the type of an option says of its range."""
    parts = [*getattr(hint, "__metadata__", ()), *get_args(hint)]
    words = (getattr(part, "description", None) or _range_words(part) for part in parts)
    return next(filter(None, words), "")


def _complaint(error: Exception) -> str | None:
    """The message for a user's error; None if the error is a bug in the program."""
    if isinstance(error, ModuleNotFoundError):
        if error.name is None or error.name.startswith("bayescl"):
            return None
        return f"this command needs {error.name}: pip install 'bayescl[all]'"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, (CycloptsError, ValueError)):
        from pydantic import ValidationError

        from bayescl_lab._fields import complaint

        cause = error.__cause__ if isinstance(error, CycloptsError) else error
        argument = getattr(error, "argument", None)
        if isinstance(cause, ValidationError):
            name = "" if argument is None else argument.name.strip("-*").replace("-", "_")
            return complaint(cause, name)
    if isinstance(error, UnusedCliTokensError):
        return f"unrecognized arguments: {' '.join(error.unused_tokens or ())}"
    if isinstance(error, (CycloptsError, ValueError, OSError)):
        return str(error) or type(error).__name__
    is_full = isinstance(error, RuntimeError) and any(word in str(error) for word in _OUT_OF_MEMORY)
    if is_full or isinstance(error, MemoryError):
        return "not enough memory for these sizes: choose smaller ones"
    return None


_LONGEST = 2000
"""Characters of a message; a damaged file may have a value of megabytes."""


def _complain(message: str) -> None:
    """Write a message to standard error as one line."""
    line = "".join(letter if letter.isprintable() else "?" for letter in " ".join(message.split()))
    sys.stderr.write(f"bayescl: {line if len(line) <= _LONGEST else line[:_LONGEST] + ' ...'}\n")
