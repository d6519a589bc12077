"""Judge a run again, finished or not."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bayescl.recsys.metrics import evaluate_ranking as full_ranking_figures
from bayescl.runs.folder import RunFolder
from bayescl.runs.provenance import provenance
from bayescl.runs.ranking.run import KIND
from bayescl.runs.ranking.serving import load_recommender
from bayescl.runs.ranking.watch import metrics_and_users


def evaluate_run(path: Path, ks: Sequence[int] = (5, 10, 20)) -> dict[str, Any]:
    """Judge the weights that a run keeps by a full ranking, and write ``evaluation.json``.

    Args:
        path: the run folder.
        ks: lengths of lists.

    Returns:
        What ``evaluation.json`` holds: metrics, the epochs the weights saw, and provenance.

    Raises:
        ValueError: if the folder holds no recommender, or no usable checkpoint yet.
    """
    recommender = load_recommender(path)
    folder = RunFolder.open(path, KIND)
    figures = full_ranking_figures(recommender.scorer, recommender.parts, ks)
    evaluation = {
        "epochs": recommender.epochs,
        "of_epochs": recommender.of_epochs,
        "evaluated_on": recommender.parts.evaluated_on,
        **metrics_and_users(figures),
        "report": dict(recommender.parts.report),
        "settings": folder.config(),
        **provenance(),
    }
    folder.write_result(evaluation, name="evaluation.json")
    return evaluation
