"""Baselines: recommenders that are fitted without gradients. They are evaluated, not served."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from bayescl_lab.ranking.datasets import load_interactions
from bayescl_lab.ranking.ease import ease_left_out
from bayescl_lab.ranking.interactions import RankingParts
from bayescl_lab.ranking.metrics import Evaluation, evaluate_ranking
from bayescl_lab.ranking.scorers import Scorer
from bayescl_lab.runs.ranking.ranking_settings import (
    BASELINES,
    EASE_NAME,
    IALS_NAME,
    POPULARITY,
    BaselineSettings,
    RankingSettings,
)
from bayescl_lab.runs.result import Result, Row, Score
from bayescl_lab.runs.run import RunStart

TITLES = {
    POPULARITY: "popularity",
    EASE_NAME: "EASE",
    IALS_NAME: "iALS",
    "known_users": "users known to training",
    "unknown_users": "other users, who get popular items",
}
"""Titles of baselines, and of groups of users with scores of their own, in tables."""


def fit_baseline(
    settings: BaselineSettings, out: Path, *, resume: bool = False, **fit_options: object
) -> Result:
    """Fit a baseline, evaluate it by full ranking and write the metrics to a run folder.

    The folder has no checkpoint: an interrupted run starts again. Arguments, result and errors
    are the same as in :func:`~bayescl_lab.runs.ranking.ranking_run.train_ranking`.
    """
    del fit_options
    start = RunStart(out, "baseline", settings.as_config(), resume=resume)
    if start.results:
        return start.results[0]
    parts = load_interactions(**asdict(settings.data), evaluate_on=settings.evaluate_on)
    result = ranking_result(settings.fitted(parts.train), parts, settings)
    with start.work():
        return start.finish(result)[0]


def ranking_result(
    scorer: Scorer,
    parts: RankingParts,
    settings: RankingSettings | BaselineSettings,
    *,
    part: str | None = None,
    baselines: bool = False,
) -> Result:
    """Evaluate a recommender by full ranking, and return its result.

    Args:
        scorer: Model to evaluate.
        parts: Interactions to evaluate on.
        settings: Settings of the run.
        part: Name of the evaluated split in the result. Default: the evaluation split of ``parts``.
        baselines: Whether to evaluate popularity and EASE too. EASE is skipped with a remark if
            there are too many items.
    """
    train, part = parts.train, part or parts.evaluated_on
    evaluation = evaluate_ranking(scorer, parts)
    remarks: list[str] = []
    others: dict[str, Row] = {}
    if not evaluation.users:
        remarks.append("training used all data: nothing is left to evaluate on")
    for name in BASELINES if baselines and evaluation.users else ():
        if name == EASE_NAME and (reason := ease_left_out(train.num_items)):
            remarks.append(reason)
            continue
        others[name] = _row(evaluate_ranking(BaselineSettings(name).fitted(train), parts))
    return Result(
        settings.data.title,
        part,
        {settings.method: _row(evaluation)},
        1,
        baselines=others,
        groups={name: _row(group) for name, group in evaluation.groups.items()},
        encoder=settings.encoder,
        sizes={
            "users": train.num_users,
            "items": train.num_items,
            "train": train.num_interactions,
            part: parts.evaluation.num_interactions,
            "judged": evaluation.users,
            "users_left_out": evaluation.users_left_out,
            **{name: group.users for name, group in evaluation.groups.items()},
        },
        settings=settings.as_config(),
        skipped=parts.report,
        remarks=remarks,
    )


def _row(evaluation: Evaluation) -> Row:
    """Return a row with the metrics of an evaluation."""
    return Row({name: Score(value) for name, value in evaluation.metrics.items()})
