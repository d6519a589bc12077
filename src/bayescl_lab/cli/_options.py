"""What several commands share: marks of options, their dataclasses, and checks of files."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import yaml
from cyclopts import Group, Parameter
from pydantic import BeforeValidator
from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count
from bayescl_lab._files import open_atomically

if TYPE_CHECKING:
    import polars as pl
    import torch
    from torch import nn

FLAT = Parameter(name="*")
"""Marks a dataclass with an option for every field."""

RUNTIME_OPTION = Parameter(group=Group("Where and how", help="A resumed run may change these."))
"""Marks an option that says where and how a run happens, not what it is."""

RUNTIME_OPTIONS = Parameter(name="*", group=RUNTIME_OPTION.group)
"""The same of a dataclass."""

Typed = Annotated[frozenset[str], Parameter(parse=False, show=False)]
"""The names of the options that were typed, as opposed to those from a file or a run's folder."""


def _mapping(value: Any) -> Any:
    """What a YAML text says."""
    try:
        return yaml.safe_load(value) if isinstance(value, str) else value
    except yaml.YAMLError:
        raise ValueError(f"it must be a mapping in YAML, got {value}") from None


ByLoss = Annotated[
    dict[str, dict[str, Any]],
    BeforeValidator(_mapping),
    Parameter(accepts_keys=False, converter=lambda _, tokens: tokens[0].value, negative=()),
]
"""Values by loss and name, written as YAML."""


@dataclass(frozen=True)
class Place:
    """The folder of a run.

    Attributes:
        out: the folder; default: a new one under runs/.
        resume: continue the run in the folder, with its settings.
    """

    out: str | None = None
    resume: bool = False

    def folder(self, name: str) -> Path:
        """The given folder, or a new one such as ``runs/hard-digits-20240506-070809``."""
        if self.out is not None:
            return Path(self.out)
        plain = re.sub(r"[^\w.]+", "-", name).strip("-.")
        return Path("runs") / f"{plain}-{datetime.now():%Y%m%d-%H%M%S}"

    @contextmanager
    def interruptible(self, command: str, folder: Path, rank: int = 0) -> Iterator[None]:
        """On Ctrl-C or SIGTERM within the block, print how to continue the run in the folder.

        Of several processes, only the one of ``rank`` 0 prints; the others end at once.
        """
        try:
            yield
        except KeyboardInterrupt as stop:
            if rank:
                os._exit(1)
            again = f"bayescl {command} --out {shlex.quote(str(folder))} --resume"
            if not (folder / "config.yaml").is_file():
                raise type(stop)("nothing was done yet: run the same command again") from None
            has_checkpoint = any(folder.rglob("last.ckpt"))
            place = "from the last checkpoint" if has_checkpoint else "from the start"
            raise type(stop)(f"{again} continues {place}") from None


Workers = Annotated[Count | None, RUNTIME_OPTION]
"""Parallel runs, one thread each; None for :func:`usual_workers`."""


def usual_workers(device: torch.device, runs: int) -> int:
    """One worker per core; one on a GPU, where runs would only wait for one another."""
    from bayescl_lab._cores import usable_cores

    return min(usable_cores(), runs) if device.type == "cpu" else 1


def named_encoder(name: str | None) -> nn.Module | None:
    """The user's own encoder that an option names; None without one."""
    if name is None:
        return None
    from bayescl_lab.runs.images.encoder import own_encoder

    return own_encoder(name)


def check_output(file: Path, *suffixes: str) -> Path:
    """Refuse a file that could not be written, before anything is computed."""
    if file.suffix not in suffixes:
        raise ValueError(f"out must end in {' or '.join(suffixes)}, got {str(file)!r}")
    if not file.parent.is_dir():
        raise ValueError(f"there is no folder {file.parent}")
    if file.is_dir() or not os.access(file.parent, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to {file}")
    return file


def write_table(frame: pl.DataFrame, file: Path) -> None:
    """Write a table in the format of its file's suffix, completely or not at all."""
    write = frame.write_csv if file.suffix == ".csv" else frame.write_parquet
    with open_atomically(file) as opened:
        write(opened)
