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

from bayescl_lab._types import Config, Values
from bayescl_lab.cli._options import RUNTIME
from bayescl_lab.runs.folder import RunFolder


def call(app: App, words: Sequence[str], *, config: Path | None, print_config: bool) -> None:
    """Call a command, or print its options.

    Values come from the command line, then from the configuration file, then (with ``--resume``)
    from the configuration in the run's folder, then from the defaults.

    Raises:
        ValueError: if an option is invalid, or there is no run to resume.
    """
    given: dict[str, Argument] = {}
    runtime: set[str] = set()
    methods: Config = {}

    def fill_in(app: App, command: tuple[str, ...], arguments: ArgumentCollection) -> None:
        if config is not None:
            values = read_config(config)
            methods.update(values.pop("methods", {}))
            _fill_in(values, config, app, arguments)
        given.update({_name(argument): argument for argument in arguments if argument.tokens})
        for argument in arguments:
            groups = argument.parameter.group
            if isinstance(groups, tuple) and RUNTIME in groups:
                runtime.add(_name(argument))
        if "resume" in given and given["resume"].convert():
            if "out" not in given:
                raise ValueError("--resume needs --out, the folder of the run to resume")
            folder = RunFolder.open(Path(given["out"].convert()), " ".join(command))
            values = folder.config()
            methods.update({**values.pop("methods", {}), **methods})
            _fill_in(values, folder.config_file, app, arguments)

    app.config = (fill_in,)
    function, bound, hidden = app.parse_args(words, exit_on_error=False, print_error=False)
    bound.apply_defaults()
    values: Config = {}
    for name, value in bound.arguments.items():
        values |= vars(value) if is_dataclass(value) else {name: value}
    plain = json.loads(json.dumps(values, default=str))
    if methods and "methods" not in hidden:
        raise ValueError(f"{config}: methods is for comparisons")
    typed = {name for name, argument in given.items() if argument.tokens[0].source == "cli"}
    left_out = {*runtime, *hidden}
    options = {name: _plain(value) for name, value in plain.items() if name not in left_out}
    known = {"typed": frozenset(typed), "options": options, "methods": methods}
    bound.arguments.update({name: value for name, value in known.items() if name in hidden})
    if print_config and "print_config" in hidden:
        bound.arguments["print_config"] = True
        plain = function(*bound.args, **bound.kwargs)
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
        raise ValueError(f"{file} must hold settings of the form 'name: value'")  # noqa: TRY004
    methods = content.get("methods", {})
    if not isinstance(methods, dict) or not all(isinstance(it, dict) for it in methods.values()):
        raise ValueError(f"{file}: methods must hold a mapping of values for each loss")
    return content


def _fill_in(values: Values, source: Path, app: App, arguments: ArgumentCollection) -> None:
    """Set arguments without a value from a file."""
    plain = {str(name): _plain(value) for name, value in values.items()}
    Dict(plain, source=str(source))(app, (), arguments)


def _plain(value: object) -> object:
    """Format a value for an option, a list as words with commas."""
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value


def _name(argument: Argument) -> str:
    """Return an option's name in a configuration file."""
    return argument.name.lstrip("-").replace("-", "_").lower()
