"""Baselines: recommenders that are fitted without gradients."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from bayescl_lab.ranking.ease import ease_memory
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.metrics import evaluate_ranking
from bayescl_lab.ranking.scorers import EmbeddingScorer, Scorer
from bayescl_lab.runs.ranking.record import RankingRecord, write_embeddings
from bayescl_lab.runs.ranking.settings import (
    BASELINES,
    EASE_NAME,
    IALS_NAME,
    POPULARITY,
    BaselineSettings,
)
from bayescl_lab.runs.run import Kind, Result, RunStart

TITLES = {POPULARITY: "popularity", EASE_NAME: "EASE", IALS_NAME: "iALS"}
"""Titles of baselines in tables."""

_MOST_UNASKED = 2**30
"""Largest memory in bytes of EASE as an additional baseline."""


def fit_baseline(
    settings: BaselineSettings,
    out: Path,
    *,
    resume: bool = False,
    baselines: bool = False,
    **fit_options: Any,
) -> Result:
    """Fit a baseline, evaluate it by full ranking and write the metrics to a run folder.

    The folder has no checkpoint: an interrupted run starts again. The embeddings of iALS are
    stored. Other baselines are fitted again for recommending. Arguments, result and errors are
    those of :func:`~bayescl_lab.runs.ranking.run.train_ranking`.
    """
    del fit_options
    start = RunStart(out, Kind.RANKING, settings, resume=resume)
    if start.result is not None:
        return start.result
    record = RankingRecord.of(settings.data, settings.evaluate_on)
    parts = record.parts(settings.evaluate_on)
    scorer, figures = _fitted(settings, parts)
    with start.work() as folder:
        record.write(folder)
        if isinstance(scorer, EmbeddingScorer):
            write_embeddings(folder, scorer, settings.epochs)
        result = {
            "settings": settings.as_config(),
            **figures,
            **data_figures(parts.train, parts),
        }
        if baselines:
            result["baselines"] = evaluate_baselines(parts, without=settings.encoder)
    return start.finish(result)


def evaluate_baselines(
    parts: RankingParts, *, without: str | None = None
) -> dict[str, dict[str, Any]]:
    """Evaluate popularity and EASE on the data that a recommender is evaluated on.

    EASE is skipped if its matrix of items times items needs more than a gigabyte. Inverting a
    larger matrix would take minutes.

    Returns:
        By name: ``metrics``, ``settings``, ``fit_seconds`` and ``evaluation_seconds``, or
        ``left_out`` with the reason. Empty if there is nothing to evaluate on.
    """
    results: dict[str, dict[str, Any]] = {}
    for name in BASELINES:
        if name == without or parts.evaluation.num_interactions == 0:
            continue
        if name == EASE_NAME and (reason := ease_left_out(parts.train.num_items)):
            results[name] = {"left_out": reason}
            continue
        settings = BaselineSettings(name)
        _, figures = _fitted(settings, parts)
        results[name] = {
            **{key: figures[key] for key in ("metrics", "fit_seconds", "evaluation_seconds")},
            "settings": {"regularization": settings.regularization} if name == EASE_NAME else {},
        }
    return results


def ease_left_out(items: int) -> str | None:
    """Return the reason to skip EASE as an additional baseline, or ``None``."""
    needed = ease_memory(items)
    if needed <= _MOST_UNASKED:
        return None
    return (
        f"EASE is left out: its matrix for {items:,} items takes {needed / 2**30:.1f} GiB; "
        "--encoder ease fits it on its own"
    )


def _fitted(settings: BaselineSettings, parts: RankingParts) -> tuple[Scorer, dict[str, Any]]:
    """Fit and evaluate a baseline; return it with its metrics and the seconds of both."""
    started = time.perf_counter()
    scorer = settings.fitted(parts.train)
    done = time.perf_counter()
    figures = evaluate_ranking(scorer, parts)
    seconds = {"fit_seconds": done - started, "evaluation_seconds": time.perf_counter() - done}
    return scorer, {**figures, **seconds}


def data_figures(train: Interactions, parts: RankingParts) -> dict[str, Any]:
    """Return the sizes of the parts, the density, and the counts of skipped data."""
    return {
        "evaluated_on": parts.evaluated_on,
        "interactions": {
            "users": train.num_users,
            "items": train.num_items,
            "train": train.num_interactions,
            parts.evaluated_on: parts.evaluation.num_interactions,
        },
        "density": train.density,
        "report": parts.report,
    }
