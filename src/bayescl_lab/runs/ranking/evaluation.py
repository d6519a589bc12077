"""A stored recommender, evaluated again or on other data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.ranking.baselines import LIST_LENGTHS, evaluate_baselines, ranking_figures
from bayescl_lab.runs.ranking.serving import load_recommender
from bayescl_lab.runs.ranking.settings import KIND
from bayescl_lab.runs.run import write_evaluation


def evaluate_run(
    path: Path, ks: Sequence[int] = LIST_LENGTHS, *, data: str | None = None
) -> dict[str, Any]:
    """Evaluate a run, finished or not, by full ranking; write and return ``evaluation.json``.

    With ``data``, it is evaluated on other interactions, without those that it was trained on.
    """
    folder = RunFolder.open(path, KIND)
    config = folder.config()
    recommender = load_recommender(path)
    if data is None:
        recommender.record.refuse_changes()
        parts = recommender.parts
    else:
        parts = recommender.record.on(data, config).parts(recommender.parts.evaluated_on)
    evaluation = {
        "epochs": recommender.epochs,
        "of_epochs": None if recommender.epochs is None else config["epochs"],
        "evaluated_on": parts.evaluated_on if data is None else data,
        **ranking_figures(recommender.scorer, parts, ks),
        "baselines": evaluate_baselines(parts, ks, without=config["encoder"]),
        "report": dict(parts.report),
        "settings": config,
    }
    return write_evaluation(folder, evaluation)
