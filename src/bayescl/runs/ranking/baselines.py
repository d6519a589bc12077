"""Recommenders without embeddings, judged as the trained ones are."""

from __future__ import annotations

import time
from pathlib import Path

from typing_extensions import Unpack

from bayescl.recsys.ease import EASE
from bayescl.recsys.interactions import Interactions
from bayescl.recsys.metrics import evaluate_ranking
from bayescl.recsys.popularity import Popularity
from bayescl.recsys.scorers import Scorer
from bayescl.runs.ranking.run import KIND
from bayescl.runs.ranking.settings import EASE_NAME, POPULARITY, BaselineSettings
from bayescl.runs.ranking.watch import metrics_and_users
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

    The folder has no checkpoint: who wants lists fits the baseline anew.

    Args:
        settings: the settings of the baseline.
        out: the run folder.
        resume: read the result if there is one, else begin again.
        **watching: has no meaning here: nothing trains.

    Returns:
        What ``result.json`` holds: settings, metrics, seconds, and provenance.

    Raises:
        ValueError: if the data cannot be used, or ``out`` is no place for the run or holds
            another one.
    """
    del watching
    return run_in_folder(out, KIND, settings, lambda: _carry_out(settings), resume=resume)


def fitted(settings: BaselineSettings, train: Interactions) -> Scorer:
    """The recommender itself.

    Raises:
        ValueError: if it would need more memory than there is.
    """
    if settings.encoder == POPULARITY:
        return Popularity(train)
    return EASE(train, settings.regularization)


def _carry_out(settings: BaselineSettings) -> Work:
    """Fit a baseline; what is left to do is to judge it."""
    parts = settings.data.load(settings.evaluate_on)
    started = time.perf_counter()
    recommender = fitted(settings, parts.train)
    done = time.perf_counter()
    return lambda _: {
        "settings": settings.as_config(),
        "protocol": "standard",
        "evaluated_on": settings.evaluate_on,
        **metrics_and_users(evaluate_ranking(recommender, parts)),
        "interactions": {
            "users": parts.train.num_users,
            "items": parts.train.num_items,
            "train": parts.train.num_interactions,
            settings.evaluate_on: parts.evaluation.num_interactions,
        },
        "density": parts.train.density,
        "report": dict(parts.report),
        "fit_seconds": done - started,
        "evaluation_seconds": time.perf_counter() - done,
    }
