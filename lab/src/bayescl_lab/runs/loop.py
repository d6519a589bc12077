"""The training loop of all runs: Lightning, with metrics and checkpoints in the run's folder.

Lightning's ``CSVLogger`` and ``ModelCheckpoint`` are not used, because they write in place, delete
earlier rows when a run is resumed, and store paths in checkpoints. Here files are complete even if
a run is killed, and a resumed run gives the same files as an uninterrupted one.
"""

from __future__ import annotations

import io
import logging
import math
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch.strategies import DDPStrategy

from bayescl_lab._files import write_atomically
from bayescl_lab._interrupts import check
from bayescl_lab._types import Config
from bayescl_lab.runs.digest import archive_with_digest
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.weights import read_checkpoint

_PULSE_SECONDS = 0.25
_ROWS = "metrics"
"""Name of the rows of ``metrics.csv`` in a checkpoint."""


def fit_in_folder(
    module: pl.LightningModule,
    batches: Iterable[object],
    folder: RunFolder,
    *,
    epochs: int,
    device: torch.device,
    devices: int = 1,
    num_nodes: int = 1,
    share_buffers: bool = True,
    precision: str = "float32",
    **journal_options: Any,
) -> Journal:
    """Train a module up to ``epochs`` epochs, from the folder's last checkpoint if there is one.

    With several devices, one process per device calls this function. Lightning starts the processes
    that ``torchrun`` did not start. Only the first process writes. On several GPUs, batch
    normalization uses statistics over all of them. The journal has one row per epoch.

    Args:
        module: Module with a ``training_step`` that returns the loss.
        batches: Batches of one epoch.
        folder: Folder for ``metrics.csv`` and checkpoints.
        epochs: Number of epochs of the whole run, including epochs before a resume.
        device: Device of this process.
        devices: Number of devices per node.
        num_nodes: Number of nodes.
        share_buffers: Whether the first process sends the module's buffers to the others before
            every step. Not needed for constant buffers.
        precision: "float32", or "bfloat16" by autocast.
        **journal_options: Arguments of :class:`Journal`.

    Raises:
        ValueError: if the loss or the weights are not finite, or another process has ended.
        OSError: if a checkpoint or the metrics cannot be written. Previous files are kept.
    """
    journal = Journal(folder, **journal_options)
    on_gpu = device.type == "cuda"
    several = devices * num_nodes > 1
    # Gradients are views of the communication buffers, which saves memory.
    ddp = DDPStrategy(broadcast_buffers=share_buffers, gradient_as_bucket_view=True)
    with quiet_lightning():
        trainer = pl.Trainer(
            accelerator="gpu" if on_gpu else "cpu",
            devices=devices,
            num_nodes=num_nodes,
            strategy=ddp if several else "auto",
            sync_batchnorm=several and on_gpu,
            use_distributed_sampler=False,
            precision="bf16-mixed" if precision == "bfloat16" else "32-true",
            max_epochs=epochs,
            logger=False,
            callbacks=[journal],
            plugins=[AtomicCheckpointIO(folder)],
            enable_checkpointing=False,  # the journal saves checkpoints
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder.path,
        )
        # Lightning's handler of SIGTERM would end the run with status 0.
        connector: Any = trainer._signal_connector
        connector.register_signal_handlers = lambda: None
        last = folder.checkpoint if folder.checkpoint.is_file() else None
        try:
            if several:
                _start_without_signals(trainer)
            trainer.fit(module, batches, ckpt_path=last)
        except RuntimeError as error:
            if not (several and _lost_connection(error)):
                raise
            if not trainer.is_global_zero:
                raise SystemExit(1) from None
            raise ValueError(
                "another process of the run has ended, perhaps for lack of memory: use --resume"
            ) from None
        except SystemExit as stop:
            # Lightning turns a KeyboardInterrupt into an exit with another status.
            if isinstance(stop.__context__, KeyboardInterrupt):
                raise stop.__context__ from None
            raise
    return journal


@dataclass(eq=False)
class Journal(pl.Callback):
    """Write a row of ``metrics.csv`` after every epoch, then a checkpoint if one is due.

    Checkpoints have the rows too. A resumed run starts with the rows of its checkpoint. The loss of
    an epoch is the mean over its steps.

    Args:
        folder: Folder of the run.
        progress: Function called with the number of finished epochs and the mean loss after every
            epoch, and with a fraction of epochs and ``None`` between steps, at most a few times per
            second.
        checkpoint_every: Number of epochs between checkpoints. The last epoch always has one.
    """

    folder: RunFolder
    progress: Callable[[float, float | None], None] | None = None
    checkpoint_every: int = 1

    def __post_init__(self) -> None:
        self.rows: list[dict[str, float]] = []
        self._total: torch.Tensor | float = 0.0
        self._steps, self._since, self._told = 0, 0.0, 0.0

    def on_save_checkpoint(self, trainer: object, pl_module: object, checkpoint: Config) -> None:
        """Add the rows to a checkpoint."""
        del trainer, pl_module
        checkpoint[_ROWS] = self.rows

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: object, checkpoint: Config
    ) -> None:
        """Continue with the rows of a checkpoint, and write them."""
        del pl_module
        self.rows = [*checkpoint[_ROWS]]
        if trainer.is_global_zero:
            self.folder.write_metrics(self.rows)

    def on_train_epoch_start(self, *_: object) -> None:
        """Start an epoch."""
        self._total, self._steps = 0.0, 0
        self._since = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, *_: object
    ) -> None:
        """Add a step's loss on its device, without synchronization; end after a signal."""
        del pl_module
        check()
        self._total = self._total + outputs["loss"].detach().double()
        self._steps += 1
        now = time.perf_counter()
        if self.progress and trainer.is_global_zero and now - self._told >= _PULSE_SECONDS:
            self._told = now
            share = trainer.fit_loop.batch_idx / trainer.num_training_batches
            self.progress(trainer.current_epoch + share, None)

    def on_exception(self, trainer: pl.Trainer, *_: object) -> None:
        """End the other processes that Lightning started, and do not wait for them."""
        launcher: Any = trainer.strategy.launcher
        if trainer.world_size == 1:
            return
        trainer._teardown = lambda: None  # type: ignore[method-assign]
        if launcher is not None:
            launcher.kill(getattr(signal, "SIGKILL", signal.SIGTERM))
            launcher.procs.clear()  # Lightning's observer would end this process too

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Write the epoch to ``metrics.csv`` in the first process, and save a checkpoint if due.

        Raises:
            ValueError: if the loss or a weight is not finite.
        """
        epoch = trainer.current_epoch + 1
        mean = torch.as_tensor(self._total, dtype=torch.float64) / max(1, self._steps)
        if trainer.world_size > 1:
            mean = trainer.strategy.reduce(mean.to(trainer.strategy.root_device), reduce_op="mean")
        loss = float(mean)
        weights = torch.stack([weight.isfinite().all() for weight in pl_module.parameters()])
        what = "weights became infinite or NaN" if math.isfinite(loss) else f"loss became {loss}"
        if not (math.isfinite(loss) and bool(weights.all())):
            raise ValueError(f"the {what} in epoch {epoch}: lower the learning rate")
        # Read the time after the loss: the device has then finished all steps.
        seconds = time.perf_counter() - self._since
        if trainer.is_global_zero:
            row = {"epoch": epoch, "loss": loss, "seconds": round(seconds, 4)}
            self.rows.append(row)
            self.folder.write_metrics(self.rows)
            if self.progress is not None:
                self.progress(epoch, loss)
        if epoch == trainer.max_epochs or epoch % self.checkpoint_every == 0:
            trainer.save_checkpoint(self.folder.checkpoint)


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write each checkpoint to a temporary file and move it into place once it is complete.

    Lightning's writer uses the system's temporary folder. A move from there to another file system
    is a copy, which can be interrupted.
    """

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder

    def save_checkpoint(
        self, checkpoint: Config, path: str | Path, *_: object, **__: object
    ) -> None:
        """Save a checkpoint. The previous one is kept if this fails, for example on a full disk."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        content = io.BytesIO()  # torch's writer would hide the error of a file behind its own
        torch.save(checkpoint, content)
        write_atomically(target, archive_with_digest(content.getvalue(), self.folder.identity))

    def load_checkpoint(self, path: str | Path, *_: object, **__: object) -> Config:
        """Load tensors and plain values of the run; see :func:`read_checkpoint`."""
        del path
        return read_checkpoint(self.folder)


def _start_without_signals(trainer: pl.Trainer) -> None:
    """Let processes that Lightning starts ignore Ctrl-C and SIGTERM. The first process ends them.

    Otherwise their tracebacks would be printed after the first process has ended.
    """
    launcher: Any = trainer.strategy.launcher
    if launcher is None or sys.platform == "win32":
        return
    start = launcher._call_children_scripts

    def start_without_signals() -> None:
        signals = (signal.SIGINT, signal.SIGTERM)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # new processes inherit it
        try:
            start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    launcher._call_children_scripts = start_without_signals


def _lost_connection(error: RuntimeError) -> bool:
    """Return whether an error means that another process of the run has ended."""
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide Lightning's announcements, and warnings that do not apply to runs."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            # Lightning 2.6 with torch >= 2.12 asks isinstance(..., LeafSpec), which warns.
            warnings.filterwarnings("ignore", message=r".isinstance\(treespec, LeafSpec\)")
            # Torch 2.15 recommends a successor, which does not support sparse buffers.
            warnings.filterwarnings("ignore", message=".broadcast_buffers. is deprecated")
            # The library recommends a sampler for small domains. Runs have an option instead.
            warnings.filterwarnings("ignore", message="half of the anchors have at most")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
