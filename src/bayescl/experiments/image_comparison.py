"""Several losses over several seeds on the same images, with everything else alike."""

from __future__ import annotations

import multiprocessing
import queue
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bayescl._checks import check_choice, check_count
from bayescl.experiments.comparison_summary import summarise
from bayescl.experiments.image_run import ImageRun, train_images
from bayescl.experiments.image_settings import ImageSettings
from bayescl.experiments.loss_settings import LOSSES, LossSettings, choose_hyperparameters, takes
from bayescl.experiments.provenance import provenance
from bayescl.experiments.recorded import recorded_hyperparameters
from bayescl.experiments.run_folder import RunFolder

KIND = "compare images"
"""The kind of run: the command that makes it."""

Progress = Callable[[str, int, int], None]
"""Called with the name of a run, its number of finished epochs and that of all runs together."""


@dataclass(frozen=True)
class ImageComparison:
    """Losses to compare and what all their runs share.

    Runs of one seed start from the same weights and see the same batches and the same views,
    whatever their loss, so that differences between losses can be taken seed by seed.

    Attributes:
        losses: the losses, each once.
        seeds: number of seeds.
        shared: settings of every run; its own loss is replaced, and its seed is the first one.

    Raises:
        ValueError: if a loss is named twice, or there are no losses or seeds.
    """

    losses: tuple[LossSettings, ...]
    seeds: int
    shared: ImageSettings

    def __post_init__(self) -> None:
        check_count("seeds", self.seeds, 1)
        names = [loss.loss for loss in self.losses]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"losses must name every loss once, got {', '.join(names) or 'none'}")

    def runs(self) -> dict[str, ImageSettings]:
        """The settings of every run by its name, seed by seed."""
        return {
            f"{loss.loss}-seed{seed}": replace(self.shared, loss=loss, seed=seed)
            for seed in range(self.shared.seed, self.shared.seed + self.seeds)
            for loss in self.losses
        }

    def as_config(self) -> dict[str, Any]:
        """The comparison as plain values, every hyper-parameter resolved."""
        config = self.shared.as_config()
        for name in ("loss", *self.shared.loss.resolved()):
            del config[name]
        return {
            "losses": ",".join(loss.loss for loss in self.losses),
            "seeds": self.seeds,
            "hyperparameters": {loss.loss: loss.resolved() for loss in self.losses},
            **config,
        }


def compare_images(
    comparison: ImageComparison,
    out: Path,
    *,
    resume: bool = False,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Train every loss with every seed, judge each encoder and summarise.

    Args:
        comparison: what to compare.
        out: the folder; every run has its own run folder in ``out/runs``.
        resume: go on with the comparison in ``out``: finished runs are kept, a broken one goes
            on from its last checkpoint.
        workers: processes that train at a time, each with one thread.
        progress: told of every finished epoch.

    Returns:
        What ``result.json`` holds: settings, every run's figures, their summary, provenance.

    Raises:
        ValueError: if the data cannot be used with these settings, or ``out`` is no place for
            the comparison or holds another one.
    """
    check_count("workers", workers, 1)
    runs = comparison.runs()
    if resume:
        folder = RunFolder.open(out, KIND)
        if folder.config() != comparison.as_config():
            raise ValueError(f"{out} holds a comparison with other settings")
        if folder.is_finished:
            return folder.read_result()
    else:
        ImageRun(next(iter(runs.values())))  # finds bad input before there is a folder
        folder = RunFolder.create(out, KIND, comparison.as_config())

    results = _train_all(runs, folder.path / "runs", workers, progress or _ignore)
    result = {
        "settings": comparison.as_config(),
        "runs": {
            name: {key: results[name][key] for key in ("settings", "probes", "seconds_per_epoch")}
            for name in runs
        },
        "summary": summarise([results[name] for name in runs]),
        "workers": workers,
        **provenance(),
    }
    folder.write_result(result)
    return result


def _train_all(
    runs: Mapping[str, ImageSettings], parent: Path, workers: int, progress: Progress
) -> dict[str, dict[str, Any]]:
    """The result of every run."""
    epochs = dict.fromkeys(runs, 0)

    def report(name: str, epoch: int) -> None:
        epochs[name] = epoch
        progress(name, epoch, sum(epochs.values()))

    results = {}
    if workers == 1:
        with _one_thread():
            for name, settings in runs.items():
                results[name] = _train_one(settings, parent / name, partial(_forward, report, name))
                report(name, settings.epochs)
        return results

    context = multiprocessing.get_context("spawn")
    news = context.Queue()
    pool = ProcessPoolExecutor(
        max_workers=min(workers, len(runs)),
        mp_context=context,
        initializer=_start_worker,
        initargs=(news,),
    )
    try:
        pending = {
            pool.submit(_train_in_worker, settings, parent / name, name): name
            for name, settings in runs.items()
        }
        while pending:
            done, _ = wait(pending, timeout=0.2, return_when=FIRST_COMPLETED)
            for name, epoch in _drain(news):
                report(name, epoch)
            for future in done:
                name = pending.pop(future)
                results[name] = future.result()
                report(name, runs[name].epochs)
    except BaseException:
        # Checkpoints and results are written whole or not at all: nothing is lost by this.
        for child in multiprocessing.active_children():
            child.kill()
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()
    return results


def _train_one(
    settings: ImageSettings, out: Path, progress: Callable[[int, float], None]
) -> dict[str, Any]:
    """Begin, go on with, or merely read one run."""
    return train_images(
        settings,
        out,
        resume=out.is_dir(),
        checkpoint_every=max(1, settings.epochs // 3),
        progress=progress,
    )


_news: Any = None
"""In a worker: the queue to the parent."""


def _start_worker(news: Any) -> None:
    """Prepare a worker process: one thread, and Ctrl-C left to the parent."""
    global _news
    _news = news
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)


def _train_in_worker(settings: ImageSettings, out: Path, name: str) -> dict[str, Any]:
    """Train one run and tell the parent of every epoch."""
    return _train_one(settings, out, lambda epoch, _: _news.put((name, epoch)))


def _drain(news: Any) -> Iterator[tuple[str, int]]:
    """Everything that workers have told so far."""
    while True:
        try:
            yield news.get_nowait()
        except queue.Empty:
            return


@contextmanager
def _one_thread() -> Iterator[None]:
    """Train with one thread, as workers do, so that their number does not change a figure."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _forward(report: Callable[[str, int], None], name: str, epoch: int, loss: float) -> None:
    """Pass a run's progress on under its name."""
    del loss
    report(name, epoch)


def _ignore(name: str, epoch: int, total: int) -> None:
    """Tell nobody."""


def settle_losses(
    names: Sequence[str],
    data: str,
    *,
    given: Mapping[str, float | None],
    num_classes: int | None = None,
    hyperparameters: Mapping[str, Mapping[str, float]] | None = None,
) -> tuple[LossSettings, ...]:
    """Settle the hyper-parameters of every loss of a comparison.

    Args:
        names: the losses.
        data: the data set whose recorded hyper-parameters are the start.
        given: values for every loss that takes them; None where nothing was asked for.
        num_classes: sets ``tau_plus`` and ``beta`` for the losses that take them.
        hyperparameters: by loss, values that stand in for recorded ones.

    Raises:
        ValueError: if a name is unknown, or no loss takes what was asked for.
    """
    for name in names:
        check_choice("loss", name, LOSSES)
    unused = set(hyperparameters or {}) - set(names)
    if unused:
        raise ValueError(f"hyperparameters names losses not compared: {', '.join(sorted(unused))}")
    for name, value in given.items():
        if value is not None and not any(takes(loss, name) for loss in names):
            raise ValueError(f"none of the losses {', '.join(names)} takes {name}")
    return tuple(
        choose_hyperparameters(
            loss,
            {name: value for name, value in given.items() if takes(loss, name)},
            num_classes=num_classes if takes(loss, "tau_plus") else None,
            recorded=(hyperparameters or {}).get(loss, recorded_hyperparameters(data, loss)),
        )
        for loss in names
    )
