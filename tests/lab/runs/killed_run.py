"""A run in a process of its own that is killed without notice at a certain point."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch


def train(settings: Any, out: Path, **options: Any) -> Any:
    """Train on images or interactions, whichever the settings are for."""
    from bayescl_lab.runs.images.image_run import train_images
    from bayescl_lab.runs.images.image_settings import ImageSettings
    from bayescl_lab.runs.ranking.ranking_run import train_ranking

    of_images = isinstance(settings, ImageSettings)
    return (train_images if of_images else train_ranking)(settings, out, **options)


def run_until_killed(point: str, call: Callable[..., Any], *given: Any, **options: Any) -> None:
    """Call a function that trains in another process, with as many threads, which kills itself.

    ``point`` is "view 7" (while the seventh view is drawn, in the middle of a step),
    "step 7" (before the seventh step of any run), "checkpoint 2" (the second one is written, but
    not yet in its place), "metrics 2" (so is the second ``metrics.csv``), or "row 2" (the row of
    the second epoch is on disk, its checkpoint is not).
    """
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    process = context.Process(
        target=_run, args=(point, torch.get_num_threads(), call, given, options)
    )
    process.start()
    process.join(timeout=240)
    process.kill()
    assert process.exitcode == -signal.SIGKILL


def _run(point: str, threads: int, call: Any, given: Any, options: dict[str, Any]) -> None:
    from bayescl_lab.images.augmentation import AffineNoise
    from bayescl_lab.ranking.module import RankingModule
    from bayescl_lab.runs.folder import RunFolder

    torch.set_num_threads(threads)
    kind, _, number = point.partition(" ")
    owner, name = {
        "view": (AffineNoise, "forward"),
        "step": (RankingModule, "training_step"),
        "checkpoint": (Path, "replace"),
        "metrics": (Path, "replace"),
        "row": (RunFolder, "write_metrics"),
    }[kind]
    method = getattr(owner, name)
    calls = 0

    def deadly(self: Any, *arguments: Any, **named: Any) -> Any:
        nonlocal calls
        written = {"checkpoint": "ckpt", "metrics": "metrics"}.get(kind)
        if written is not None and written not in self.name:
            return method(self, *arguments, **named)
        calls += 1
        if kind == "row":
            method(self, *arguments, **named)
        if calls == int(number):
            os.kill(os.getpid(), signal.SIGKILL)
        return None if kind == "row" else method(self, *arguments, **named)

    setattr(owner, name, deadly)
    call(*given, **options)
