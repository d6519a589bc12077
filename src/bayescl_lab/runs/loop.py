"""The loop of every run: Lightning, with checkpoints and metrics in the run's folder."""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import lightning.pytorch as pl
import torch
from lightning.pytorch.loggers import (
    CSVLogger,
    Logger,
    MLFlowLogger,
    TensorBoardLogger,
    WandbLogger,
)
from lightning.pytorch.strategies import DDPStrategy

from bayescl.checks import check_choice
from bayescl_lab.runs.checkpoints import AtomicCheckpointIO, LastCheckpoint
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.journal import Evaluate, Journal, Progress, Pulse, PulseCallback

_PRECISIONS: dict[str, Literal["32-true", "bf16-mixed"]] = {
    "float32": "32-true",
    "bfloat16": "bf16-mixed",
}
"""Lightning's names."""


def fit_in_folder(
    module: pl.LightningModule,
    batches: Iterable[Any],
    folder: RunFolder,
    *,
    epochs: int,
    device: torch.device,
    devices: int = 1,
    num_nodes: int = 1,
    share_buffers: bool = True,
    precision: str = "float32",
    checkpoint_every: int = 1,
    checkpoint_every_steps: int | None = None,
    progress: Progress | None = None,
    pulse: Pulse | None = None,
    evaluate: Evaluate | None = None,
    throughput: tuple[str, int] | None = None,
    loggers: Sequence[Logger] = (),
    callbacks: Sequence[pl.Callback] = (),
) -> Journal:
    """Train a module up to a number of epochs, from the folder's last checkpoint if there is one.

    Checkpoints within an epoch need ``batches`` with ``state_dict`` and ``load_state_dict``, which
    continue where they stopped, as :class:`~bayescl_lab.images.batches.StoreBatches` does.

    With several devices, one process per device calls this (Lightning starts those that
    ``torchrun`` did not); all but the first train without writing. On several GPUs, batch
    normalisation uses statistics over all of them.

    Args:
        module: a module whose ``training_step`` returns the loss.
        batches: one pass is an epoch.
        folder: folder for ``metrics.csv`` and checkpoints.
        epochs: epochs of the whole run, including those before a resume.
        device: a CPU or GPU; with several GPUs, this process's own.
        devices: devices on each of ``num_nodes``.
        num_nodes: nodes.
        share_buffers: whether the first process sends the module's buffers to the others before
            every step; not needed if they never change.
        precision: "float32", or "bfloat16" by autocast.
        checkpoint_every: epochs between checkpoints.
        checkpoint_every_steps: steps between checkpoints within an epoch; default: none.
        progress: as in :class:`~bayescl_lab.runs.run.Watching`.
        pulse: likewise.
        evaluate: gives further columns of ``metrics.csv``, and may end the run early; its time is
            not part of an epoch's seconds.
        throughput: name of a column for counts per second, and the count of one step.
        loggers: Lightning's, given every row of ``metrics.csv``.
        callbacks: Lightning's, called before the journal and the checkpoint are written.

    Returns:
        The journal, with one row per epoch.

    Raises:
        ValueError: if the loss is no longer finite.
        OSError: if a checkpoint or the metrics cannot be written; previous files are kept.
    """
    if checkpoint_every_steps is not None and not hasattr(batches, "load_state_dict"):
        raise ValueError("checkpoint_every_steps must be None for batches that cannot continue")
    journal = Journal(folder, progress, evaluate, throughput)
    # The journal's row of an epoch must be on disk before the checkpoint that skips it.
    all_callbacks = [
        *callbacks,
        journal,
        *([] if pulse is None else [PulseCallback(pulse)]),
        *([_EndsAtOnce()] if devices * num_nodes > 1 else []),
        LastCheckpoint(folder, checkpoint_every, checkpoint_every_steps, journal),
    ]
    on_gpu = device.type == "cuda"
    several = devices * num_nodes > 1
    # Gradients are views of the communication buffers, so that they are held only once.
    ddp = DDPStrategy(broadcast_buffers=share_buffers, gradient_as_bucket_view=True)
    with quiet_lightning():
        trainer = pl.Trainer(
            accelerator="gpu" if on_gpu else "cpu",
            devices=devices,
            num_nodes=num_nodes,
            strategy=ddp if several else "auto",
            sync_batchnorm=several and on_gpu,
            use_distributed_sampler=False,
            precision=_PRECISIONS[precision],
            max_epochs=epochs,
            logger=list(loggers) or False,
            log_every_n_steps=1,  # for values that modules log; rows come from the journal
            callbacks=all_callbacks,
            plugins=[AtomicCheckpointIO()],
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder.path,
        )
        last = folder.checkpoint if folder.checkpoint.is_file() else None
        try:
            trainer.fit(module, batches, ckpt_path=last)
        except SystemExit as stop:
            # Lightning turns Ctrl-C into its own exit, with the status of a failure.
            if isinstance(stop.__context__, KeyboardInterrupt):
                raise KeyboardInterrupt from None
            raise
    return journal


class _EndsAtOnce(pl.Callback):
    """End on SIGTERM at once, with the processes that this one started.

    Lightning's own handler waits for a broadcast that the other processes may never join.
    """

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Replace Lightning's handler; Lightning later restores the original one."""
        del pl_module
        if threading.current_thread() is not threading.main_thread():
            return

        def end(number: int, _: object) -> None:
            if trainer.strategy.launcher is not None:
                trainer.strategy.launcher.kill(signal.Signals(number))
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, end)


def made_loggers(names: Sequence[str], run: Path) -> list[Logger]:
    """Lightning's loggers by name; those that write files write into the run's folder.

    Raises:
        ValueError: if a name is unknown, or a logger's package is not installed.
    """
    makers: dict[str, Callable[[], Logger]] = {
        "csv": lambda: CSVLogger(run, name="", version="csv"),
        "tensorboard": lambda: TensorBoardLogger(run, name="", version="tensorboard"),
        "wandb": lambda: WandbLogger(name=run.name, save_dir=run),
        "mlflow": lambda: MLFlowLogger(run_name=run.name, save_dir=str(run / "mlflow")),
    }
    loggers = []
    for name in names:
        check_choice("logger", name, tuple(makers))
        try:
            loggers.append(makers[name]())
        except ModuleNotFoundError:
            raise ValueError(
                f"the logger {name} needs a package that is not installed: pip install {name}"
            ) from None
    return loggers


@contextmanager
def quiet_lightning() -> Iterator[None]:
    """Hide Lightning's announcements, and warnings that do not apply."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        with warnings.catch_warnings():
            # Lightning 2.6 with torch >= 2.12 asks isinstance(..., LeafSpec), which warns.
            warnings.filterwarnings("ignore", message=r".isinstance\(treespec, LeafSpec\)")
            # Torch 2.15 names a successor, which sends buffers once; sparse ones cannot be sent.
            warnings.filterwarnings("ignore", message=".broadcast_buffers. is deprecated")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
