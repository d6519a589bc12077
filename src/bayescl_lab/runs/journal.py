"""The journal of a run: a row of ``metrics.csv`` per epoch, and progress in between."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import lightning.pytorch as pl
import torch

from bayescl_lab.runs.folder import RunFolder

Progress = Callable[[int, float], None]
"""Called after every epoch with the number of finished epochs and the mean loss."""

Evaluate = Callable[[pl.Trainer, Sequence[Mapping[str, float]]], Mapping[str, float]]
"""Called after every epoch with the trainer and the rows of earlier epochs; gives the row's further
columns. It may set ``trainer.should_stop``."""

Pulse = Callable[[int, int, int, float], None]
"""Called between steps, a few times a second at most, with the number of finished epochs, the
steps done of this epoch, the steps of an epoch and the steps per second."""


class Journal(pl.Callback):
    """Write ``metrics.csv``: one row per epoch; a resumed run drops rows of unfinished epochs.

    Lightning's ``CSVLogger`` writes in place and deletes earlier rows when a run is resumed.

    The loss of an epoch is the mean over its steps. Its running sum is part of every checkpoint, so
    a resumed epoch has the same figures as an uninterrupted one. A loss that has ``readings()``,
    such as ``trust``, adds them as columns, ``evaluate`` gives further ones, and ``throughput``
    names one for counts per second and says the count of one step.
    """

    def __init__(
        self,
        folder: RunFolder,
        progress: Progress | None = None,
        evaluate: Evaluate | None = None,
        throughput: tuple[str, int] | None = None,
    ) -> None:
        self.folder = folder
        self.progress = progress
        self.evaluate = evaluate
        self.throughput = throughput
        self.rows = folder.read_metrics()
        self._total: torch.Tensor | float = 0.0
        self._steps = 0
        self._timed_steps = 0
        self._started = 0.0

    def state_dict(self) -> dict[str, Any]:
        """The losses of the epoch so far, for Lightning's checkpoint."""
        return {"total": float(self._total), "steps": self._steps}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a checkpoint."""
        self._total, self._steps = state_dict["total"], state_dict["steps"]

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Drop rows of epochs after the checkpoint, and start the clock."""
        del pl_module
        self.rows = [row for row in self.rows if row["epoch"] <= trainer.current_epoch]
        self._started = time.perf_counter()
        self._timed_steps = 0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start an epoch; Lightning skips this when it resumes in the middle of one."""
        del trainer, pl_module
        self._total, self._steps, self._timed_steps = 0.0, 0, 0
        self._started = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *_: Any
    ) -> None:
        """Add a step's loss on its own device, without waiting for it."""
        del trainer, pl_module
        self._total = self._total + outputs["loss"].detach().double()
        self._steps += 1
        self._timed_steps += 1

    def check_finite(self, epoch: int) -> None:
        """Raise a ``ValueError`` if a loss of this epoch was infinite or NaN."""
        _refuse_infinite(float(self._total), epoch)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the row of the epoch in the first process, and tell all whether to stop."""
        epoch = trainer.current_epoch + 1
        mean = torch.as_tensor(self._total, dtype=torch.float64) / max(1, self._steps)
        if trainer.world_size > 1:
            mean = trainer.strategy.reduce(mean.to(trainer.strategy.root_device), reduce_op="mean")
        loss = float(mean)
        _refuse_infinite(loss, epoch)
        # Read the clock after the loss, when the device has finished all steps.
        seconds = time.perf_counter() - self._started
        if trainer.is_global_zero:
            self._write(trainer, pl_module, epoch, loss, seconds)
        if trainer.world_size > 1 and self.evaluate is not None:
            trainer.should_stop = trainer.strategy.broadcast(trainer.should_stop)

    def _write(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        epoch: int,
        loss: float,
        seconds: float,
    ) -> None:
        """Write the row of an epoch, with the columns of others."""
        row = {"epoch": epoch, "loss": loss, "seconds": round(seconds, 4)}
        if self.throughput is not None:
            name, per_step = self.throughput
            row[name] = round(per_step * self._timed_steps / seconds, 1)
        readings = getattr(getattr(pl_module, "loss", None), "readings", dict)
        row |= readings()
        self.rows.append({**row, **(self.evaluate(trainer, self.rows) if self.evaluate else {})})
        self.folder.write_metrics(self.rows)
        figures = {name: value for name, value in self.rows[-1].items() if name != "epoch"}
        for logger in trainer.loggers:
            logger.log_metrics(figures, step=epoch)
        if self.progress is not None:
            self.progress(epoch, loss)

    def seconds_per_epoch(self) -> float:
        """The median time of an epoch, robust to warm-up and outliers."""
        return self.medians("seconds")["seconds"]

    def medians(self, *columns: str) -> dict[str, float]:
        """The upper median of each column over the epochs that have it; empty if none has."""
        medians = {}
        for column in columns:
            if values := sorted(row[column] for row in self.rows if column in row):
                medians[column] = values[len(values) // 2]
        return medians


def _refuse_infinite(loss: float, epoch: int) -> None:
    if not math.isfinite(loss):
        raise ValueError(f"the loss became {loss} in epoch {epoch}: lower the learning rate")


class PulseCallback(pl.Callback):
    """Report the progress of a long epoch, at most once in ``interval`` seconds."""

    def __init__(self, pulse: Pulse, interval: float = 0.25) -> None:
        self.pulse = pulse
        self.interval = interval
        self._last = (time.perf_counter(), 0)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start the clock."""
        del pl_module
        self._last = (time.perf_counter(), trainer.global_step)

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        """Call if it is due."""
        now, step = time.perf_counter(), trainer.global_step
        before, done = self._last
        if trainer.is_global_zero and now - before >= self.interval:
            batch = trainer.fit_loop.batch_idx + 1
            speed = (step - done) / (now - before)
            self.pulse(trainer.current_epoch, batch, int(trainer.num_training_batches), speed)
            self._last = (now, step)
