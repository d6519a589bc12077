"""Shared options on where and how a run is stored; a resumed run may change them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, Words

if TYPE_CHECKING:
    import torch
    from lightning.pytorch.loggers import Logger
    from torch import nn


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
    def interruptible(self, command: str, folder: Path) -> Iterator[None]:
        """On Ctrl-C within the block, print the command that continues the run in the folder."""
        try:
            yield
        except KeyboardInterrupt:
            if not (folder / "config.yaml").is_file():
                raise
            words = shlex.quote(str(folder))
            raise KeyboardInterrupt(
                f"bayescl {command} --out {words} --resume continues from the last checkpoint"
            ) from None


@dataclass(frozen=True)
class Metrics:
    """Where to write metrics besides the run's folder.

    Attributes:
        logger: comma-separated loggers that also get the metrics: csv, tensorboard, wandb, mlflow.
    """

    logger: Words = ()

    def loggers(self, folder: Path) -> list[Logger]:
        """Lightning's loggers of a run in a folder."""
        from bayescl_lab.runs.loop import made_loggers

        return made_loggers(self.logger, folder)


@dataclass(frozen=True)
class Workers:
    """Runs side by side.

    Attributes:
        workers: parallel runs, one thread each; default: one per core, or one on a GPU.
    """

    workers: Count | None = None

    def number(self, device: torch.device, runs: int) -> int:
        """Number of parallel runs, for a number of runs on a device."""
        from bayescl_lab._cores import usable_cores

        if self.workers is not None:
            return self.workers
        # On a GPU runs would only wait for one another.
        return min(usable_cores(), runs) if device.type == "cpu" else 1


def named_encoder(name: str | None) -> nn.Module | None:
    """The user's own encoder that an option names; None without one."""
    if name is None:
        return None
    from bayescl_lab.runs.images.encoder import own_encoder

    return own_encoder(name)
