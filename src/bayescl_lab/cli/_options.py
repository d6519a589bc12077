"""Options of a command: from its signature to the values that it is called with.

An argument of a command is one of

* a plain value, with a type hint of :mod:`bayescl_lab._fields`: one option, or one bare word if the
  signature takes it by position;
* a dataclass: an option for every field, and the command gets the dataclass;
* ``partial`` of a dataclass: the same, but without fields that are dataclasses themselves or
  arguments of the command; the command gets a ``functools.partial`` to complete;
* a mapping marked with :class:`OneEach`: an option for each name, and the command gets those given;
* :class:`Typed`: not an option; the command gets the names of the options on the command line.

Names, types, ranges, choices and defaults come from signatures and dataclasses, help from their
docstrings. jsonargparse parses values by their types and formats the help. It gets the fields one
at a time, since its ``add_class_arguments`` runs imports that are meant only for type checkers.
This module adds alternative spellings, resumed runs and one-line messages.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from argparse import Action, ArgumentError, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterable, Mapping, Set
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import yaml
from jsonargparse import ArgumentParser, DefaultHelpFormatter

from bayescl_lab._fields import Kind, descriptions, kind_of, kinds_of

if TYPE_CHECKING:
    from bayescl_lab.runs.losses import LossOption

Command = Callable[..., object]
Builder = Callable[[Mapping[str, Any]], Any]

_PLACEHOLDERS = {
    bool: "true|false",
    int: "N",
    float: "X",
    str: "TEXT",
    dict: "MAPPING",
    tuple: "A,B,...",
}
"""Placeholder of a value in help, by type."""


_TYPED = "(typed)"
"""Key for the names of the options that were typed; not the name of any option."""


class Circumstances:
    """Marks dataclasses that say where and how a run happens, not what it is.

    A resumed run may change them.
    """


class Typed(frozenset[str]):
    """Options that were typed, as opposed to those from a file or a run's folder."""


@dataclasses.dataclass(frozen=True)
class OneEach:
    """Marks a mapping with an option for each of its names; None if it is not typed."""

    offers: Callable[[], Iterable[LossOption]]


def parse_options(
    command: Command,
    name: str,
    words: list[str],
    *,
    fixed: Mapping[str, Any] | None = None,
    summary: str = "",
) -> dict[str, Any] | None:
    """Turn the words after a command into its arguments.

    Values come from the command line, then from ``--config FILE``, then from the defaults. With
    ``--resume``, the configuration in the run folder comes before the defaults, and an option that
    contradicts it is an error. Options may be spelled with ``_`` or ``-``.

    Args:
        command: the function to be called.
        name: the command as typed, such as "train images".
        words: everything after it.
        fixed: arguments that are not options.
        summary: summary of the command, if its docstring describes several.

    Returns:
        Keyword arguments, or None if help or ``--print-config`` was printed.

    Raises:
        ValueError: if the words are not valid for the command.
    """
    fixed = fixed or {}
    form = _Form(command, fixed)
    if {"-h", "--help"} & set(words):
        sys.stdout.write(form.help(name, summary))
        return None
    given = form.typed(words)
    typed = Typed(given)
    file, print_config = given.pop("config", None), given.pop("print_config", False)
    if file is not None:
        given = {**form.configured(read_config(Path(file)), file), **given}
    if given.get("resume"):
        given = form.resumed(given, name)
    values = {**form.defaults, **given}
    missing = [name for name, value in values.items() if value is inspect.Parameter.empty]
    if missing:
        raise ValueError(f"the following arguments are required: {', '.join(missing)}")
    if print_config:
        sys.stdout.write(yaml.safe_dump(values, sort_keys=False))
        return None
    values[_TYPED] = typed
    return {**fixed, **{name: build(values) for name, build in form.builders.items()}}


def offered_options(command: Command, fixed: Mapping[str, Any]) -> list[tuple[str, Kind, bool]]:
    """Every option of a command: its name, its type, and whether it is a bare word.

    Args:
        command: the function to be called.
        fixed: arguments that are not options.
    """
    return _Form(command, fixed).offered()


def read_config(file: Path) -> dict[str, Any]:
    """The settings in a YAML file.

    Raises:
        ValueError: if there is no such file, or it does not hold named settings.
    """
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no configuration file {file}") from None
    except (OSError, ValueError, yaml.YAMLError):  # a date that is none is a ValueError
        raise ValueError(f"cannot read the configuration file {file}") from None
    if isinstance(content, dict):
        return content
    raise ValueError(f"{file} must hold settings of the form 'name: value'")


class _Form:
    """A command's options, and how its arguments are built from their values.

    Attributes:
        defaults: by option; ``inspect.Parameter.empty`` if there is none.
        builders: for every argument of the command, a function that builds it from the values of
            all options.
    """

    def __init__(self, command: Command, fixed: Mapping[str, Any]) -> None:
        self._command = command
        self._parser = ArgumentParser(
            exit_on_error=False, add_help=False, formatter_class=_HelpFormatter
        )
        self._kinds: dict[str, Kind] = {}
        self._bare = [
            name
            for name, parameter in inspect.signature(command).parameters.items()
            if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and name not in fixed
        ]
        self._circumstances: set[str] = set()
        self._may_change: set[str] = set()
        self.defaults: dict[str, Any] = {}
        hints = get_type_hints(command, include_extras=True)
        self.builders = {
            name: self._add(name, hint, command, {*hints})
            for name, hint in hints.items()
            if name not in {*fixed, "return"}
        }
        own = {
            "config": (str, "a YAML file with options, as in config.yaml"),
            "print_config": (bool, "print the options in that form and exit"),
        }
        for name, (base, words) in own.items():
            self._add_option(name, Kind(base), base, None, words)
            del self.defaults[name]

    def _add(self, name: str, hint: Any, command: Command, taken: set[str]) -> Builder:
        """Add the options of one argument of a command, and return its builder."""
        if hint is Typed:
            return lambda values: values[_TYPED]
        if kind_of(hint) is not None:
            self._add_options(command, {name})
            return lambda values: values[name]
        if get_origin(hint) is Annotated:
            offers = list(get_args(hint)[1].offers())
            for one in offers:
                kind = Kind(one.type, optional=True)
                self._add_option(one.name, kind, one.type | None, None, one.help)
            given = [one.name for one in offers]
            return lambda values: {name: values[name] for name in given if values[name] is not None}
        is_partial = get_origin(hint) is partial
        owner = get_args(hint)[0] if is_partial else hint
        chosen = kinds_of(owner).keys() - (taken if is_partial else ())
        self._add_options(owner, chosen)
        if issubclass(owner, Circumstances):
            self._circumstances |= chosen
        self._may_change |= getattr(owner, "may_change", frozenset()) & chosen
        make = partial(partial, owner) if is_partial else owner
        return lambda values: make(**{name: values[name] for name in chosen})

    def _add_options(self, owner: Callable[..., object], names: Set[str]) -> None:
        """Add options for some arguments of a command or fields of a dataclass."""
        kinds, hints, said = kinds_of(owner), get_type_hints(owner), descriptions(owner)
        for name, parameter in inspect.signature(owner).parameters.items():
            if name in names and name not in self._kinds:
                default = parameter.default
                self._add_option(name, kinds[name], hints[name], default, said.get(name, ""))

    def _add_option(self, name: str, kind: Kind, hint: Any, default: Any, said: str) -> None:
        """Add one option."""
        self._kinds[name], self.defaults[name] = kind, default
        shown = None if default is inspect.Parameter.empty else default
        dashes = "-" if len(name) == 1 else "--"
        words = said.rstrip(".")
        self._parser.add_argument(f"{dashes}{name}", type=hint, default=shown, help=words)

    def typed(self, words: list[str]) -> dict[str, Any]:
        """The values on a command line: bare words may be anywhere, switches need no value."""
        given: dict[str, str] = {}
        bare, remaining = list(self._bare), list(reversed(words))
        while remaining:
            word = remaining.pop()
            is_letter = len(word) == 2 and word[0] == "-" and word[1] in self._kinds  # as in -k 10
            if not word.startswith("--") and not is_letter:
                if not bare:
                    raise ValueError(f"unrecognized arguments: {word}")
                takes_all = self._kinds[bare[0]].base is tuple
                name = bare[0] if takes_all else bare.pop(0)
                given[name] = f"{given[name]},{word}" if name in given else word
                continue
            spelled, equals, value = word.partition("=")
            name = spelled.lstrip("-").replace("-", "_")
            if name not in self._kinds:
                raise ValueError(f"unrecognized arguments: {word}{self._meant(name)}")
            following = remaining[-1] if remaining else "--"
            if not equals and self._kinds[name].base is bool and following not in ("true", "false"):
                value = "true"
            elif not equals and following.startswith("--"):
                wanted = "the name of a file" if name == "config" else "a value"
                raise ValueError(f"{spelled} needs {wanted}")
            elif not equals:
                value = remaining.pop()
            given[name] = value
        return {name: self._read(name, value) for name, value in given.items()}

    def configured(self, config: Mapping[str, Any], source: object) -> dict[str, Any]:
        """The values of a configuration file."""
        given = {}
        for key, value in config.items():
            name = str(key).replace("-", "_")
            if name not in self.defaults:
                raise ValueError(f"{source}: unknown option {key}{self._meant(name)}")
            given[name] = self._read(name, value)
        return given

    def resumed(self, given: Mapping[str, Any], command: str) -> dict[str, Any]:
        """The settings of the run to resume, and how to resume it.

        Raises:
            ValueError: if there is no such run, or a given setting differs from the run's.
        """
        from bayescl_lab.runs.folder import RunFolder

        out = given.get("out")
        if out is None:
            raise ValueError("--resume needs --out, the folder of the run to resume")
        if not (Path(out) / "config.yaml").is_file():
            raise ValueError(f"{out} is not a run folder: it has no config.yaml")
        folder = RunFolder.open(Path(out), command)
        stored = self.configured(folder.config(), folder.config_file)
        # Of a single run the settings judge what may change; runs side by side all keep theirs.
        free = self._circumstances | (self._may_change if command.startswith("train ") else set())
        for key, value in given.items():
            is_setting = key not in free and value is not None
            if is_setting and stored.get(key) != value:
                raise ValueError(
                    f"the run in {out} has {key} = {stored.get(key)}, got {value}: "
                    "a resumed run keeps its settings"
                )
        return {**stored, **given}

    def offered(self) -> list[tuple[str, Kind, bool]]:
        """Name and type of every option, and whether it is a bare word."""
        return [(name, kind, name in self._bare) for name, kind in self._kinds.items()]

    def help(self, name: str, summary: str) -> str:
        """The output of ``bayescl NAME --help``."""
        docstring = (inspect.getdoc(self._command) or "").partition("\n\nArgs:")[0]
        self._parser.description = f"{summary}\n\n{docstring}".strip()
        words = ""
        for action in self._parser._actions:
            kind = self._kinds[action.dest]
            action.option_strings = [one.replace("_", "-") for one in action.option_strings]
            action.metavar = "|".join(kind.choices) or _PLACEHOLDERS[kind.base]
            if kind.base is bool and not action.default:  # the name alone says it
                action.metavar = ""
            elif action.dest in self._bare:
                action.option_strings, action.metavar = [], action.dest.upper()
                shown = action.metavar + (" ..." if kind.base is tuple else "")
                is_required = self.defaults[action.dest] is inspect.Parameter.empty
                words += f" {shown}" if is_required else f" [{shown}]"
            action.help = _explained(action.help or "", kind, action)
        self._parser.usage = f"bayescl {name}{words} [options]"
        return self._parser.format_help()

    def _read(self, name: str, value: Any) -> Any:
        """A typed word, or a value from a file, converted to the option's type."""
        kind, given = self._kinds[name], value
        if kind.base is tuple and isinstance(value, str):
            given = [one.strip() for one in value.split(",") if one.strip()]
        elif kind.base is str and type(value) in (int, float):
            given = str(value)
        try:
            found = self._parser.parse_object({name: given}, defaults=False)[name]
            is_of_type = found is not None or kind.optional
        except ArgumentError:
            found, is_of_type = value, False
        if not (is_of_type or kind.choices):
            raise ValueError(f"{name} must be {kind.wanted}, got {value}")
        kind.check(name, found)
        return found

    def _meant(self, name: str) -> str:
        """A suggestion of a similarly named option, in brackets; empty if there is none."""
        near = get_close_matches(name, self._kinds, n=1)
        return f" (is it --{near[0].replace('_', '-')}?)" if near else ""


class _HelpFormatter(DefaultHelpFormatter, RawDescriptionHelpFormatter):
    """Help without type hints, which say little to users."""

    def _get_help_string(self, action: Action) -> str:
        return action.help or ""


def _explained(said: str, kind: Kind, action: Action) -> str:
    """An option's description, range and default."""
    notes = [one.words for one in kind.ranges if one.words]
    default = action.default
    if not (default in (None, False, "", ()) or "default:" in said):
        written = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
        notes.append(f"default: {'true' if default is True else written}")
    return said + (f" ({'; '.join(notes)})" if notes else "")
