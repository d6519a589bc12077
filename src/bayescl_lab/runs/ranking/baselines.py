"""Recommenders without embeddings, evaluated like the trained ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from bayescl_lab.ranking.ease import ease_memory
from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.ranking.fitting import fitted
from bayescl_lab.runs.ranking.memory import RankingMemory
from bayescl_lab.runs.ranking.settings import (
    BASELINES,
    EASE_NAME,
    IALS_NAME,
    KIND,
    POPULARITY,
    AnyBaseline,
    BaselineSettings,
)
from bayescl_lab.runs.ranking.watch import judged_figures, metrics_and_users
from bayescl_lab.runs.run import Result, Watching, Work, run_in_folder

TITLES = {POPULARITY: "popularity", EASE_NAME: "EASE", IALS_NAME: "iALS"}
"""Titles of baselines for readers."""

_MOST_BESIDE = 2**30
"""Bytes that EASE may use if it was not requested."""


def fit_baseline(
    settings: AnyBaseline,
    out: Path,
    *,
    resume: bool = False,
    beside: bool = False,
    **watching: Unpack[Watching],
) -> Result:
    """Fit a baseline, evaluate it by full ranking and write the metrics to a run folder.

    The folder has no checkpoint; recommending fits the baseline again.

    Args:
        settings: the settings of the baseline.
        out: the run folder.
        resume: read the result if there is one; otherwise start again.
        beside: whether to evaluate other baselines too; see :func:`baselines_beside`.
        **watching: ignored, since nothing trains.

    Returns:
        The content of ``result.json``: settings, metrics, seconds, and provenance.

    Raises:
        ValueError: if the data cannot be used, or ``out`` is not writable or holds another run.
    """
    del watching
    return run_in_folder(out, KIND, settings, lambda: _carry_out(settings, beside), resume=resume)


def baselines_beside(
    parts: RankingParts, ks: Sequence[int] = (5, 10, 20), *, without: str | None = None
) -> dict[str, dict[str, Any]]:
    """Results of the baselines on the data that a recommender is evaluated on.

    EASE is left out if its matrix of items times items would take more than a gigabyte; inverting
    such a matrix would also take minutes.

    Args:
        parts: training and evaluation interactions.
        ks: lengths of lists.
        without: a baseline to skip.

    Returns:
        By name: ``metrics``, ``settings``, ``fit_seconds`` and ``evaluation_seconds``, or
        ``left_out`` with the reason. Empty if there is nothing to evaluate on.
    """
    found: dict[str, dict[str, Any]] = {}
    if parts.evaluation.num_interactions == 0:
        return found
    for name in BASELINES:
        if name == without:
            continue
        needed = ease_memory(parts.train.num_items)
        if name == EASE_NAME and needed > _MOST_BESIDE:
            found[name] = {
                "left_out": f"EASE is left out: its matrix for {parts.train.num_items:,} items "
                f"takes {needed / 2**30:.1f} GiB; --encoder ease fits it on its own"
            }
            continue
        settings = BaselineSettings(name)
        started = time.perf_counter()
        recommender = fitted(settings, parts.train)
        done = time.perf_counter()
        metrics = metrics_and_users(judged_figures(recommender, parts, ks))["metrics"]
        is_ease = name == EASE_NAME
        found[name] = {
            "metrics": metrics,
            "fit_seconds": done - started,
            "evaluation_seconds": time.perf_counter() - done,
            "settings": {"regularization": settings.regularization} if is_ease else {},
        }
    return found


def _carry_out(settings: AnyBaseline, beside: bool) -> Work:
    """Fit a baseline; what remains is to evaluate it."""
    memory = RankingMemory.of(settings.data, settings.evaluate_on, watches=False)
    parts = memory.parts(settings.evaluate_on)
    started = time.perf_counter()
    recommender = fitted(settings, parts.train)
    done = time.perf_counter()

    def judge(folder: RunFolder) -> Result:
        memory.write(folder, settings.data)
        began = time.perf_counter()
        figures = metrics_and_users(judged_figures(recommender, parts))
        result = _result(settings, parts, figures, done - started, time.perf_counter() - began)
        if beside:
            result["baselines"] = baselines_beside(parts, without=settings.encoder)
        return result

    return judge


def _result(
    settings: AnyBaseline,
    parts: RankingParts,
    figures: dict[str, Any],
    fit_seconds: float,
    evaluation_seconds: float,
) -> Result:
    """The content of a baseline's ``result.json``."""
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
