"""Options and checks of files that several commands share."""

from __future__ import annotations

import io
import os
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter
from pydantic.dataclasses import dataclass

from bayescl_lab._files import write_atomically
from bayescl_lab._types import Config

if TYPE_CHECKING:
    import polars as pl
    from torch import nn

FLAT = Parameter(name="*")
"""Marker for a dataclass with an option for every field."""

RUNTIME = Group("Where and how", help="A resumed run may use other values.")

RUNTIME_OPTIONS = Parameter(name="*", group=RUNTIME)
"""Marker for a dataclass of options that do not affect the result of a run."""


@dataclass(frozen=True)
class Call:
    """How a command was called.

    Attributes:
        typed: Names of the options on the command line, without options from a file or a run's
            folder.
        options: Values of all options that affect the result of a run, as plain values.
        methods: Values by method: the mapping "methods" of a configuration file.
        print_config: Whether the command must return its settings instead of using them.
    """

    typed: frozenset[str]
    options: Config
    methods: dict[str, Config]
    print_config: bool


Called = Annotated[Call, Parameter(parse=False, show=False)]
"""Argument of a command that is not an option."""


@dataclass(frozen=True)
class Hyperparameters:
    """Hyper-parameters of losses.

    Attributes:
        temperature: Temperature of the softmax.
        tau_plus: Prior probability that a candidate is a positive, in [0, 1) (debiased, hard,
            bayesian).
        concentration: Exponent of the candidate weights, at least 0 (hard).
        alpha: Probability that a positive outscores a negative (the encoder's AUC), in [0.5, 1]
            (bayesian).
        beta: Hardness of negatives, in [0.5, 1] (bayesian).
    """

    temperature: float | None = None
    tau_plus: float | None = None
    concentration: float | None = None
    alpha: float | None = None
    beta: float | None = None


@dataclass(frozen=True)
class RunOptions:
    """The folder of a run, and whether to resume it.

    Attributes:
        out: Folder of the run. Default: a new folder in runs/.
        resume: Resume the run in the folder with its settings.
    """

    out: str | None = None
    resume: bool = False

    def folder(self, name: str) -> Path:
        """Return the given folder, or a new one such as ``runs/hard-digits-20240506-070809``."""
        if self.out is not None:
            return Path(self.out)
        plain = re.sub(r"[^\w.]+", "-", name).strip("-.")
        return Path("runs") / f"{plain}-{datetime.now():%Y%m%d-%H%M%S}"

    @contextmanager
    def interruptible(self, command: str, folder: Path, rank: int = 0) -> Iterator[None]:
        """Print how to resume the run in the folder if the block is interrupted.

        ``command`` includes the name of the program. With several processes, only the process of
        ``rank`` 0 prints.
        """
        try:
            yield
        except KeyboardInterrupt as stop:
            if rank:
                os._exit(1)
            again = f"{command} --out {shlex.quote(str(folder))} --resume"
            if not (folder / "config.yaml").is_file():
                raise type(stop)("nothing was done yet: run the same command again") from None
            has_checkpoint = any(folder.rglob("last.ckpt"))
            start = "from the last checkpoint" if has_checkpoint else "from the start"
            raise type(stop)(f"{again} continues {start}") from None


def named_encoder(name: str | None) -> nn.Module | None:
    """Return the custom encoder named by an option; ``None`` if there is none."""
    if name is None:
        return None
    from bayescl_lab.runs.own_code import own_encoder

    return own_encoder(name)


def check_output(file: Path, *suffixes: str, option: str = "out") -> Path:
    """Check that a file can be written, before anything is computed."""
    if file.suffix not in suffixes:
        raise ValueError(f"{option} must end in {' or '.join(suffixes)}, got {str(file)!r}")
    if not file.parent.is_dir():
        raise ValueError(f"there is no folder {file.parent}")
    if file.is_dir() or not os.access(file.parent, os.W_OK | os.X_OK):
        raise ValueError(f"cannot write to {file}")
    return file


def write_table(frame: pl.DataFrame, file: Path) -> None:
    """Write a table atomically, in the format of the file's suffix.

    In a CSV file, text that a spreadsheet would run as a formula gets a leading apostrophe.
    """
    from bayescl_lab.runs.record import without_formulas

    content = io.BytesIO()  # Polars would hide the error of a full disk behind its own
    if file.suffix == ".csv":
        without_formulas(frame).write_csv(content)
    else:
        frame.write_parquet(content)
    write_atomically(file, content.getvalue())
