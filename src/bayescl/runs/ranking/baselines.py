"""Recommenders without embeddings, judged as the trained ones are."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from bayescl.recsys.interactions import RankingParts
from bayescl.runs.folder import RunFolder
from bayescl.runs.ranking.fitting import fitted
from bayescl.runs.ranking.memory import RankingMemory
from bayescl.runs.ranking.settings import EASE_NAME, KIND, POPULARITY, BaselineSettings
from bayescl.runs.ranking.watch import judged_figures, metrics_and_users
from bayescl.runs.run import Result, Watching, Work, run_in_folder

TITLES = {POPULARITY: "popularity", EASE_NAME: "EASE"}
"""What a reader sees instead of a baseline's name."""


def fit_baseline(
    settings: BaselineSettings,
    out: Path,
    *,
    resume: bool = False,
    **watching: Unpack[Watching],
) -> Result:
    """Fit a baseline, judge it by a full ranking and write the figures into a run folder.

    The folder has no checkpoint: to make lists, the baseline is fitted again.

    Args:
        settings: the settings of the baseline.
        out: the run folder.
        resume: read the result if there is one, else begin again.
        **watching: has no meaning here: nothing trains.

    Returns:
        What ``result.json`` holds: settings, metrics, seconds, and provenance.

    Raises:
        ValueError: if the data cannot be used, or ``out`` cannot hold the run or holds
            another one.
    """
    del watching
    return run_in_folder(out, KIND, settings, lambda: _carry_out(settings), resume=resume)


def _carry_out(settings: BaselineSettings) -> Work:
    """Fit a baseline; what is left to do is to judge it."""
    memory = RankingMemory.of(settings.data, settings.evaluate_on, watches=False)
    parts = memory.parts(settings.evaluate_on)
    started = time.perf_counter()
    recommender = fitted(settings, parts.train)
    done = time.perf_counter()

    def judge(folder: RunFolder) -> Result:
        memory.write(folder, settings.data)
        began = time.perf_counter()
        figures = metrics_and_users(judged_figures(recommender, parts))
        return _result(settings, parts, figures, done - started, time.perf_counter() - began)

    return judge


def _result(
    settings: BaselineSettings,
    parts: RankingParts,
    figures: dict[str, Any],
    fit_seconds: float,
    evaluation_seconds: float,
) -> Result:
    """What ``result.json`` holds of a baseline."""
    return {
        "settings": settings.as_config(),
        "protocol": "standard",
        "evaluated_on": settings.evaluate_on,
        **figures,
        "interactions": {
            "users": parts.train.num_users,
            "items": parts.train.num_items,
            "train": parts.train.num_interactions,
            settings.evaluate_on: parts.evaluation.num_interactions,
        },
        "density": parts.train.density,
        "report": dict(parts.report),
        "fit_seconds": fit_seconds,
        "evaluation_seconds": evaluation_seconds,
    }
