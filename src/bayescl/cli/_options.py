"""Options of a command: from its signature to the values that it is called with.

An argument of a command is one of

* a plain value, with a type hint of :mod:`bayescl._fields`: one option, or one bare word where
  the signature takes it by position;
* a dataclass: an option for every field, and the command gets the dataclass;
* ``partial`` of a dataclass: the same, without fields that are dataclasses themselves or that
  the command has an argument for; the command gets a ``functools.partial`` to complete;
* a mapping marked with :class:`OneEach`: an option for each name, and the command gets those given.

Names, types, ranges, choices and defaults come from signatures and dataclasses, help from their
docstrings.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Protocol, get_args, get_origin, get_type_hints

import yaml

from bayescl._fields import Kind, kind_of, kinds_of
from bayescl.cli._help import help_page
from bayescl.cli._option import Option

Command = Callable[..., object]


_CONFIG = Option(
    "config",
    Kind(str),
    None,
    "a YAML file with options, as in config.yaml",
    wants="the name of a file",
)
_PRINT_CONFIG = Option("print_config", Kind(bool), False, "print the options in that form and stop")
"""What every command has besides its own."""


class Circumstances:
    """Mark of dataclasses that say where and how a run happens, not what it is.

    A resumed run may be given others of these.
    """


class Offer(Protocol):
    """What :class:`OneEach` makes an option of."""

    @property
    def name(self) -> str:
        """The option's name."""

    @property
    def type(self) -> type:
        """``float`` or ``int``."""

    @property
    def help(self) -> str:
        """A few words."""


@dataclasses.dataclass(frozen=True)
class OneEach:
    """Mark of a mapping that has an option for each of its names, None where none is typed."""

    offers: Callable[[], Iterable[Offer]]


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
    ``--resume`` the configuration in the run folder comes before the defaults, and an option that
    contradicts it is refused. Options may be spelled with ``_`` or ``-``.

    Args:
        command: the function to be called.
        name: the command as typed, such as "train images".
        words: everything after it.
        fixed: arguments that are no options.
        summary: what the command does, where its docstring is about several.

    Returns:
        Keyword arguments, or None if help or ``--print-config`` was asked for and answered.

    Raises:
        ValueError: if the words make no sense for the command.
    """
    fixed = fixed or {}
    parts = [part for part in _parts(command) if part.name not in fixed]
    options = {option.name: option for part in reversed(parts) for option in reversed(part.options)}
    options = {**dict(reversed(options.items())), "config": _CONFIG, "print_config": _PRINT_CONFIG}
    if {"-h", "--help"} & set(words):
        sys.stdout.write(help_page(name, summary, inspect.getdoc(command) or "", options.values()))
        return None
    given = _typed(options, words)
    print_config = given.pop(_PRINT_CONFIG.name, False)
    file = given.pop(_CONFIG.name, None)
    for own in (_CONFIG, _PRINT_CONFIG):
        del options[own.name]
    if file is not None:
        given = {**_from_file(options, read_config(Path(file)), file), **given}
    if given.get("resume"):
        given = _resumed(options, given, name)
    values = {name: given.get(name, option.default) for name, option in options.items()}
    missing = [name for name, value in values.items() if value is inspect.Parameter.empty]
    if missing:
        raise ValueError(f"the following arguments are required: {', '.join(missing)}")
    if print_config:
        sys.stdout.write(yaml.safe_dump(values, sort_keys=False))
        return None
    return {**fixed, **{part.name: part.build(values) for part in parts}}


def read_config(file: Path) -> dict[str, Any]:
    """The settings in a YAML file.

    Raises:
        ValueError: if there is no such file, or it holds no settings by name.
    """
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no configuration file {file}") from None
    except (OSError, ValueError, yaml.YAMLError):  # a date that is none is a ValueError
        raise ValueError(f"cannot read the configuration file {file}") from None
    if isinstance(content, dict):
        return content
    raise ValueError(f"{file} holds no settings of the form 'name: value'")


@dataclasses.dataclass(frozen=True)
class _Part:
    """The options that one argument of a command has, and how it is made of their values."""

    name: str
    options: list[Option]
    build: Callable[[Mapping[str, Any]], Any]


def _parts(command: Command) -> list[_Part]:
    """Every argument of a command with its options."""
    hints = get_type_hints(command, include_extras=True)
    parameters = inspect.signature(command).parameters
    said = _descriptions(command)
    return [
        _part(name, hints[name], parameter, said.get(name, ""), set(parameters))
        for name, parameter in parameters.items()
    ]


def _part(name: str, hint: Any, parameter: inspect.Parameter, said: str, taken: set[str]) -> _Part:
    """One argument of a command."""
    kind = kind_of(hint)
    if kind is not None:
        is_word = parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        option = Option(name, kind, parameter.default, said, is_word)
        return _Part(name, [option], lambda values: values[name])
    if get_origin(hint) is Annotated:
        offers = list(get_args(hint)[1].offers())
        each = [Option(one.name, Kind(one.type, optional=True), None, one.help) for one in offers]
        return _Part(
            name,
            each,
            lambda values: {
                one.name: values[one.name] for one in each if values[one.name] is not None
            },
        )
    is_partial = get_origin(hint) is partial
    owner = get_args(hint)[0] if is_partial else hint
    options = _field_options(owner, taken if is_partial else set())

    def build(values: Mapping[str, Any]) -> Any:
        chosen = {option.name: values[option.name] for option in options}
        return partial(owner, **chosen) if is_partial else owner(**chosen)

    return _Part(name, options, build)


def _field_options(owner: type, taken: set[str]) -> list[Option]:
    """An option for every field of a dataclass that can be one."""
    kinds, said = kinds_of(owner), _descriptions(owner)
    is_setting = not issubclass(owner, Circumstances)
    empty = inspect.Parameter.empty
    return [
        Option(
            field.name,
            kinds[field.name],
            empty if field.default is dataclasses.MISSING else field.default,
            said.get(field.name, ""),
            is_setting=is_setting,
        )
        for field in dataclasses.fields(owner)
        if field.name in kinds and field.name not in taken
    ]


def _descriptions(owner: object) -> dict[str, str]:
    """What a docstring says of each argument or attribute, on one line and without markup."""
    from docstring_parser import parse

    found = parse(inspect.getdoc(owner) or "").params
    plain = {one.arg_name: " ".join((one.description or "").split()) for one in found}
    return {
        name: re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`|``([^`]*)``", r"\1\2", text).rstrip(".")
        for name, text in plain.items()
    }


def _typed(options: Mapping[str, Option], words: list[str]) -> dict[str, Any]:
    """The values of the words of a command line."""
    given: dict[str, Any] = {}
    bare = [option for option in options.values() if option.is_word]
    remaining = list(reversed(words))
    while remaining:
        word = remaining.pop()
        is_letter = len(word) == 2 and word[0] == "-" and word[1] in options  # as in -k 10
        if not word.startswith("--") and not is_letter:
            if not bare:
                raise ValueError(f"unrecognized arguments: {word}")
            option = bare[0]
            if option.is_list:  # takes every bare word
                read = option.kind.read(option.name, word)
                given[option.name] = (*given.get(option.name, ()), *read)
            else:
                given[option.name] = bare.pop(0).kind.read(option.name, word)
            continue
        spelled, equals, value = word.partition("=")
        name = _underscored(spelled)
        if name not in options:
            raise ValueError(f"unrecognized arguments: {word}{_meant(name, options)}")
        following = remaining[-1] if remaining else None
        if not equals:
            if options[name].is_switch:
                value = remaining.pop() if following in ("true", "false") else "true"
            elif following is None or following.startswith("--"):
                raise ValueError(f"{spelled} needs {options[name].wants}")
            else:
                value = remaining.pop()
        given[name] = options[name].kind.read(name, value)
    return given


def _from_file(
    options: Mapping[str, Option], config: Mapping[str, Any], source: str
) -> dict[str, Any]:
    """The values of a configuration file."""
    given = {}
    for key, value in config.items():
        name = str(key).replace("-", "_")
        if name not in options:
            raise ValueError(f"{source}: there is no option {key}{_meant(name, options)}")
        given[name] = options[name].kind.read(name, value)
    return given


def _resumed(options: Mapping[str, Option], given: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The settings of the run to go on with, and how it is to go on.

    Raises:
        ValueError: if there is no such run, or a setting is given that it does not have.
    """
    from bayescl.runs.folder import RunFolder

    out = given.get("out")
    if out is None:
        raise ValueError("--resume needs --out, the folder of the run to go on with")
    if not (Path(out) / "config.yaml").is_file():
        raise ValueError(f"{out} is no run folder: it has no config.yaml")
    folder = RunFolder.open(Path(out), name)
    stored = _from_file(options, folder.config(), str(folder.config_file))
    for key, value in given.items():
        if options[key].is_setting and value is not None and stored.get(key) != value:
            raise ValueError(
                f"the run in {out} has {key} = {stored.get(key)}, got {value}: "
                "a resumed run keeps its settings"
            )
    return {**stored, **given}


def _underscored(option: str) -> str:
    """An option's name in Python's spelling.

    Example:
        >>> _underscored("--batch-size"), _underscored("-k")
        ('batch_size', 'k')
    """
    return option.lstrip("-").replace("-", "_")


def _meant(name: str, options: Mapping[str, Option]) -> str:
    """The option that somebody may have meant, in brackets; nothing where none is near."""
    from difflib import get_close_matches

    near = get_close_matches(name, options, n=1)
    return f" (is it --{near[0].replace('_', '-')}?)" if near else ""
