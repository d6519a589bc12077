"""Parallel runs.

The pool is the standard library's, because joblib's workers survive a killed parent. The progress
of a worker is read from its ``metrics.csv``.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from pathlib import Path

import torch

from bayescl_lab._fields import Count, checked
from bayescl_lab._interrupts import check
from bayescl_lab._types import Values
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.result import Result
from bayescl_lab.runs.settings import TrainedSettings

Progress = Callable[[str, float, float], None]
"""Function of the name of a run, its finished epochs and the finished epochs of all runs."""

Train = Callable[..., Result]
"""Picklable function that trains one run in its folder, such as ``train_images``. It takes the
options ``resume``, ``progress`` and ``checkpoint_every``."""

MOST_EPOCHS_WITHOUT_CHECKPOINT = 10
"""Largest number of epochs between checkpoints. A killed run repeats at most as many."""


def train_runs(
    runs: Values,
    parent: Path,
    *,
    train: Train,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, Result]:
    """Train runs, each in its folder with one thread, and return their results by name.

    Existing runs are resumed, or only read if they are finished.

    Args:
        runs: Settings by name, with their number of ``epochs``.
        parent: Parent of the run folders. Each folder has the name of its run.
        train: Function that trains one run. It must be defined at the top level of a module.
        workers: Number of parallel processes. Results do not depend on it.
        progress: Function called after every epoch and, with one worker, between steps.

    Raises:
        ValueError: if a run cannot be trained, or the system kills a worker.
    """
    checked("workers", workers, Count)
    epochs = dict.fromkeys(runs, 0.0)
    if progress is not None:
        progress("starting", 0, 0)  # workers take seconds to import libraries

    def report(name: str, epoch: float, _loss: float | None = None) -> None:
        epochs[name] = epoch
        if progress is not None:
            progress(name, epoch, sum(epochs.values()))

    results = {}
    if workers == 1:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # as in workers, so results do not depend on their number
        try:
            for name, settings in runs.items():
                check()
                results[name] = _train_one(train, settings, parent / name, partial(report, name))
                report(name, settings.epochs)
        finally:
            torch.set_num_threads(threads)
        return results

    pool = ProcessPoolExecutor(
        max_workers=max(1, min(workers, len(runs))),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start_worker,
    )
    try:
        pending = {
            pool.submit(_train_one, train, settings, parent / name): name
            for name, settings in runs.items()
        }
        while pending:
            done, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            check()
            for name in pending.values():
                epoch = RunFolder(parent / name, "").finished_epochs
                if epoch > epochs[name]:
                    report(name, epoch)
            for future in done:
                name = pending.pop(future)
                try:
                    results[name] = future.result()
                except BrokenProcessPool:
                    reason = "a training process was killed, perhaps for lack of memory"
                    raise ValueError(f"{reason}: use --resume and fewer --workers") from None
                report(name, runs[name].epochs)
    except BaseException:
        # Checkpoints and results are written atomically, so nothing is lost.
        for child in multiprocessing.active_children():
            child.kill()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()
    return {name: results[name] for name in runs}  # in the order of runs


def _train_one(
    train: Train,
    settings: TrainedSettings,
    folder: Path,
    progress: Callable[..., None] | None = None,
) -> Result:
    """Start, resume or read one run, and free its memory."""
    every = max(1, min(settings.epochs // 3, MOST_EPOCHS_WITHOUT_CHECKPOINT))
    resume = folder.is_dir()
    try:
        return train(settings, folder, resume=resume, checkpoint_every=every, progress=progress)
    finally:
        gc.collect()  # a trainer and its model refer to each other; the next run needs the device


def _start_worker() -> None:
    """Prepare a worker: use one thread, ignore signals of the group, and end with the parent."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    torch.set_num_threads(1)


def _end_with_parent() -> None:
    """End this process when its parent ends, even if the parent was killed.

    Otherwise it would keep writing to run folders that may have been resumed.
    """
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
