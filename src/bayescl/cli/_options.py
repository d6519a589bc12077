"""Options of a command, from its signature, the command line and a configuration file."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentError, ArgumentParser, Namespace

_NOT_SETTINGS = (
    "out",
    "resume",
    "workers",
    "checkpoint_every",
    "checkpoint_every_steps",
    "tensorboard",
)
"""Options that say where and how a run happens, not what it is."""

_KINDS = {
    "float": "a number",
    "int": "a whole number",
    "bool": "true or false",
    "str": "text",
    "dict": "a mapping",
}
"""What a type is called in messages."""


def parse_options(
    command: Callable[..., object], name: str, words: list[str]
) -> dict[str, Any] | None:
    """Turn the words after a command into its keyword arguments.

    Values come from the command line, then from ``--config FILE``, then from the signature.
    With ``--resume`` the configuration in the run folder takes the place of ``--config``, and an
    option that contradicts it is refused. Options may be spelled with ``_`` or ``-``.

    Args:
        command: the function to be called.
        name: the command as typed, such as "train images".
        words: everything after it.

    Returns:
        Keyword arguments, or None if help or ``--print_config`` was asked for and answered.

    Raises:
        ValueError: if the words make no sense for the command.
    """
    parser = _parser(command, name)
    if "names" in _parameters(command):
        words = _gather_names(words, command)
    words = [_underscored(_lengthened(word, command)) for word in words]
    words = [
        _complete(word, following, command)
        for word, following in zip(words, [*words[1:], ""], strict=False)
    ]
    if {"-h", "--help"} & set(words):
        sys.stdout.write(parser.format_help())
        return None
    print_config = "--print_config" in words
    words = [word for word in words if word != "--print_config"]
    words, file = _without_config(words)
    given = [] if file is None else _as_words(read_config(file), command, str(file))
    explicit = _parse(parser, given + words, defaults=False).as_dict()

    out = explicit.get("out")
    if explicit.get("resume") and "resume" in _parameters(command):
        if out is None:
            raise ValueError("--resume needs --out, the folder of the run to go on with")
        stored_file = Path(out) / "config.yaml"
        if not stored_file.is_file():
            raise ValueError(f"{out} is no run folder: it has no config.yaml")
        stored_words = _as_words(read_config(stored_file), command, str(stored_file))
        _refuse_contradictions(
            explicit, _parse(parser, stored_words, defaults=False).as_dict(), Path(out)
        )
        given = stored_words + given
    options = _parse(parser, given + words, defaults=True)
    if print_config:
        sys.stdout.write(yaml.safe_dump(options.as_dict(), sort_keys=False))
        return None
    return options.as_dict()


def read_config(file: Path) -> dict[str, Any]:
    """The settings in a YAML file.

    Raises:
        ValueError: if there is no such file, or it holds no settings by name.
    """
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no configuration file {file}") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        raise ValueError(f"cannot read the configuration file {file}") from None
    if isinstance(content, dict):
        return content
    raise ValueError(f"{file} holds no settings of the form 'name: value'")


def _parser(command: Callable[..., object], name: str) -> ArgumentParser:
    """A parser of the command's own options."""
    description = inspect.getdoc(command) or ""
    parser = ArgumentParser(
        prog=f"bayescl {name}",
        description=description.partition("\n\nArgs:")[0],
        exit_on_error=False,
    )
    parser.add_function_arguments(command, as_group=False, as_positional=True)
    parser.add_argument(
        "--config", metavar="FILE", help="YAML file with options, as in config.yaml"
    )
    parser.add_argument(
        "--print_config", action="store_true", help="print the options in that form and stop"
    )
    return parser


def _parse(parser: ArgumentParser, words: list[str], *, defaults: bool) -> Namespace:
    """Parse words; what argparse would print and exit for becomes a ``ValueError``."""
    try:
        options = parser.parse_args(words, defaults=defaults)
    except (ArgumentError, TypeError, KeyError) as error:
        raise ValueError(_in_our_words(str(error))) from None
    for name in ("config", "print_config"):
        options.pop(name, None)
    return options


def _in_our_words(message: str) -> str:
    r"""An error of jsonargparse in the wording of the library's own checks.

    Example:
        >>> _in_our_words("Parser key \"lr\":\n  Expected a <class 'float'>. Got value: x")
        'lr must be a number, got x'
    """
    line = " ".join(message.split())
    key = re.search(r'Parser key "(\w+)"', line)
    expected = re.search(r"Expected a <class '(\w+)'>", line)
    value = re.search(r".*(?:Got|Given) value: (.*)", line)
    if not (key and expected and value):
        return line
    kind = _KINDS.get(expected[1], expected[1])
    return f"{key[1]} must be {kind}, got {value[1]}"


def _gather_names(words: list[str], command: Callable[..., object]) -> list[str]:
    """Bare words before the first option with a value as the value of ``--names``."""
    parameters = _parameters(command)
    switches = [f"--{name}" for name, one in parameters.items() if one.default is False]
    options = [
        number for number, word in enumerate(words) if word.startswith("-") and word not in switches
    ]
    leading, rest = (
        words[: options[0]] if options else words,
        words[options[0] :] if options else [],
    )
    names = [word for word in leading if word not in switches]
    return (
        [f"--names={','.join(names)}"] * bool(names)
        + [word for word in leading if word in switches]
        + rest
    )


def _lengthened(word: str, command: Callable[..., object]) -> str:
    """An option of one letter, which may have one hyphen, with two."""
    is_option = len(word) > 1 and word[0] == "-" and word[1:] in _parameters(command)
    return f"-{word}" if is_option else word


def _underscored(word: str) -> str:
    """An option in the spelling of Python's names; values are left alone."""
    if not word.startswith("--"):
        return word
    option, equals, value = word.partition("=")
    return "--" + option[2:].replace("-", "_") + equals + value


def _complete(word: str, following: str, command: Callable[..., object]) -> str:
    """A switch such as ``--resume`` with the value that it leaves out, unless one follows."""
    parameter = _parameters(command).get(word.removeprefix("--"))
    is_switch = word.startswith("--") and parameter is not None and parameter.default is False
    return f"{word}=true" if is_switch and following not in ("true", "false") else word


def _without_config(words: list[str]) -> tuple[list[str], Path | None]:
    """The words without ``--config FILE``, and that file."""
    rest: list[str] = []
    file = None
    remaining = iter(words)
    for word in remaining:
        if word == "--config":
            value = next(remaining, None)
            if value is None:
                raise ValueError("--config needs the name of a file")
            file = Path(value)
        elif word.startswith("--config="):
            file = Path(word.partition("=")[2])
        else:
            rest.append(word)
    return rest, file


def _as_words(config: dict[str, Any], command: Callable[..., object], source: str) -> list[str]:
    """Settings from a file as if they had been typed."""
    parameters = _parameters(command)
    words = []
    for key, value in config.items():
        name = str(key).replace("-", "_")
        if name not in parameters:
            raise ValueError(f"{source}: there is no option {key}")
        positional = parameters[name].default is inspect.Parameter.empty
        text = value if isinstance(value, str) else json.dumps(value)
        words.append(text if positional else f"--{name}={text}")
    return words


def _parameters(command: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Parameters of a command by name."""
    return dict(inspect.signature(command).parameters)


def _refuse_contradictions(explicit: dict[str, Any], stored: dict[str, Any], out: Path) -> None:
    """Refuse options that differ from those of the run to go on with."""
    for name, value in explicit.items():
        if name in _NOT_SETTINGS or value is None:
            continue
        if name not in stored or stored[name] != value:
            raise ValueError(
                f"the run in {out} has {name} = {stored.get(name)}, got {value}: "
                "a resumed run keeps its settings"
            )
