"""Options from configuration files and from resumed runs.

Cyclopts creates options from a command's signature and docstring, and Pydantic checks them. This
module adds ``--config``, ``--print-config`` and ``--resume``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import is_dataclass
from pathlib import Path

import yaml
from cyclopts import App
from cyclopts.argument import Argument, ArgumentCollection
from cyclopts.config import Dict

from bayescl_lab._types import Config
from bayescl_lab.cli._options import RUNTIME, Call
from bayescl_lab.runs.folder import RunFolder


def call(app: App, words: Sequence[str], *, config: Path | None, print_config: bool) -> None:
    """Call a command, or print its options.

    Values come from the command line, then from the configuration file, then (with ``--resume``)
    from the configuration in the run's folder, then from the defaults.

    Raises:
        ValueError: if an option is invalid, or there is no run to resume.
    """
    given: dict[str, Argument] = {}
    left_out: set[str] = set()
    methods: dict[str, Config] = {}

    def fill_in(app: App, command: tuple[str, ...], arguments: ArgumentCollection) -> None:
        def use(values: Config, source: Path) -> None:
            own = values.pop("methods", {})
            if own and command[0] != "compare":
                raise ValueError(f"{source}: methods is only for 'bayescl compare'")
            methods.update({**own, **methods})
            plain = {str(name): _plain(value) for name, value in values.items()}
            Dict(plain, source=str(source))(app, (), arguments)  # for arguments without a value

        if config is not None:
            use(read_config(config), config)
        given.update({_name(argument): argument for argument in arguments if argument.tokens})
        runtime = [it for it in arguments if it.parameter.group == (RUNTIME,)]
        left_out.update(map(_name, runtime))
        if "resume" in given and given["resume"].convert():
            if "out" not in given:
                raise ValueError("--resume needs --out, the folder of the run to resume")
            folder = RunFolder.open(Path(given["out"].convert()), " ".join(command))
            use(folder.config(), folder.config_file)

    app.config = (fill_in,)
    function, bound, hidden = app.parse_args(words, exit_on_error=False, print_error=False)
    bound.apply_defaults()
    values: Config = {}
    for name, value in bound.arguments.items():
        values |= vars(value) if is_dataclass(value) else {name: value}
    plain = json.loads(json.dumps(values, default=str))
    if "called" in hidden:
        typed = {name for name, argument in given.items() if argument.tokens[0].source == "cli"}
        options = {name: _plain(value) for name, value in plain.items() if name not in left_out}
        bound.arguments["called"] = Call(frozenset(typed), options, methods, print_config)
        plain = function(*bound.args, **bound.kwargs) if print_config else plain
    if print_config:
        sys.stdout.write(yaml.safe_dump(plain, sort_keys=False))
    else:
        function(*bound.args, **bound.kwargs)


def read_config(file: Path) -> Config:
    """Return the settings in a YAML file; raise ``ValueError`` if there are none."""
    if not file.exists():
        raise ValueError(f"there is no configuration file {file}")
    try:
        content = yaml.safe_load(file.read_bytes())  # UTF-8, or UTF-16 as PowerShell writes
    except (OSError, ValueError, RecursionError, yaml.YAMLError):  # ValueError: impossible dates
        raise ValueError(f"cannot read the configuration file {file}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{file} must contain settings of the form 'name: value'")  # noqa: TRY004
    methods = content.get("methods", {})
    if not isinstance(methods, dict) or not all(isinstance(it, dict) for it in methods.values()):
        raise ValueError(f"{file}: methods must map names of losses to their settings")
    return content


def _plain(value: object) -> object:
    """Format a value for an option, a list as words with commas."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _name(argument: Argument) -> str:
    """Return an option's name in a configuration file."""
    return argument.name.lstrip("-").replace("-", "_").lower()
