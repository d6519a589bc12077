"""Baselines: recommenders that are fitted without gradients."""

from __future__ import annotations

from collections.abc import Mapping
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
    RankingSettings,
)
from bayescl_lab.runs.result import Result, Row, Score
from bayescl_lab.runs.run import Kind, RunStart

USER_GROUPS = {
    "known_users": "users known to training",
    "unknown_users": "other users, who get popular items",
}
"""Groups of users with scores of their own, with their titles."""

TITLES = {POPULARITY: "popularity", EASE_NAME: "EASE", IALS_NAME: "iALS", **USER_GROUPS}
"""Titles of baselines and groups in tables."""

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
    stored. Other baselines are fitted again for recommending. Arguments, result and errors
    are the same as in :func:`~bayescl_lab.runs.ranking.run.train_ranking`.
    """
    del fit_options
    start = RunStart(out, Kind.RANKING, settings.as_config(), resume=resume)
    if start.results:
        return start.results[0]
    record = RankingRecord.of(settings.data, settings.evaluate_on)
    parts = record.parts(settings.evaluate_on)
    scorer = settings.fitted(parts.train)
    result = ranking_result(scorer, parts, settings, baselines=baselines)
    with start.work() as folder:
        record.write(folder)
        if isinstance(scorer, EmbeddingScorer):
            write_embeddings(folder, scorer, settings.epochs)
    return start.finish(result)[0]


def ranking_result(
    scorer: Scorer,
    parts: RankingParts,
    settings: RankingSettings | BaselineSettings,
    *,
    trained_on: Interactions | None = None,
    part: str | None = None,
    baselines: bool = False,
    **row: Any,
) -> Result:
    """Evaluate a recommender by full ranking, and return its result.

    Args:
        scorer: Model to evaluate.
        parts: Interactions to evaluate on.
        settings: Settings of the run.
        trained_on: Training interactions. Default: the ``train`` of the parts.
        part: Name of the evaluated part. Default: the part of the data.
        baselines: Whether to evaluate popularity and EASE too.
        **row: Further fields of the row of the method.
    """
    train, part = trained_on or parts.train, part or parts.evaluated_on
    figures = evaluate_ranking(scorer, parts, trained_on=train)
    groups = {name: figures[name] for name in USER_GROUPS if name in figures}
    sizes = {
        "users": train.num_users,
        "items": train.num_items,
        "train": train.num_interactions,
        part: parts.evaluation.num_interactions,
        "judged": figures["users"],
        "users_left_out": figures["users_left_out"],
        **{name: group["users"] for name, group in groups.items()},
    }
    others, remarks = _baselines(parts, settings.encoder) if baselines else ({}, [])
    if not figures["metrics"]:
        remarks = ["all data were trained on: nothing is left to evaluate"]
    return Result(
        settings.data.title,
        part,
        {settings.method: _row(figures, **row)},
        1,
        baselines=others,
        groups={name: _row(group) for name, group in groups.items()},
        encoder=settings.encoder,
        sizes=sizes,
        settings=settings.as_config(),
        skipped=parts.report,
        remarks=remarks,
    )


def _row(figures: Mapping[str, Any], **more: Any) -> Row:
    """Return a row with the metrics of an evaluation."""
    return Row({name: Score(value) for name, value in figures["metrics"].items()}, **more)


def _baselines(parts: RankingParts, without: str) -> tuple[dict[str, Row], list[str]]:
    """Evaluate popularity and EASE on the data that a recommender is evaluated on.

    EASE is skipped with a remark if its matrix of items times items needs more than a gigabyte.
    Inverting a larger matrix would take minutes. There are no rows without an evaluation part.
    """
    rows: dict[str, Row] = {}
    for name in BASELINES:
        if name == without or parts.evaluation.num_interactions == 0:
            continue
        if name == EASE_NAME and (reason := ease_left_out(parts.train.num_items)):
            return rows, [reason]
        rows[name] = _row(evaluate_ranking(BaselineSettings(name).fitted(parts.train), parts))
    return rows, []


def ease_left_out(items: int) -> str | None:
    """Return the reason to skip EASE as an additional baseline, or ``None``."""
    needed = ease_memory(items)
    if needed <= _MOST_UNASKED:
        return None
    return (
        f"EASE is left out: its matrix for {items:,} items takes {needed / 2**30:.1f} GiB; "
        "--encoder ease fits it on its own"
    )
