"""Evaluate a run again, finished or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.provenance import provenance
from bayescl_lab.runs.ranking.baselines import baselines_beside
from bayescl_lab.runs.ranking.data import RankingData
from bayescl_lab.runs.ranking.memory import RankingMemory
from bayescl_lab.runs.ranking.serving import load_recommender
from bayescl_lab.runs.ranking.settings import KIND
from bayescl_lab.runs.ranking.watch import judged_figures, metrics_and_users


def evaluate_run(
    path: Path, ks: Sequence[int] = (5, 10, 20), *, data: str | None = None
) -> dict[str, Any]:
    """Evaluate a run's weights by full ranking, and write ``evaluation.json``.

    Args:
        path: the run folder.
        ks: lengths of lists.
        data: other interactions to evaluate on, without those that the run was trained on;
            default: the run's own.

    Returns:
        The content of ``evaluation.json``: metrics, also of the baselines, the epochs the weights
        saw, and provenance.

    Raises:
        ValueError: if the folder does not hold a recommender with a usable checkpoint, or the run's
            data have changed.
    """
    folder = RunFolder.open(path, KIND)
    memory = RankingMemory.read(folder)
    if memory is not None and data is None:
        memory.refuse_changes()
    recommender = load_recommender(path)
    parts = recommender.parts
    if data is not None:
        if memory is None:
            raise ValueError(f"{path} has no record of its data: other data cannot be used")
        reading = RankingData.taken_from(folder.config())
        other = memory.on(replace(reading, data=data, test_data=None))
        parts = other.parts(parts.evaluated_on)
    figures = judged_figures(recommender.scorer, parts, ks)
    evaluation = {
        "epochs": recommender.epochs,
        "of_epochs": recommender.of_epochs,
        "evaluated_on": parts.evaluated_on if data is None else data,
        **metrics_and_users(figures),
        "baselines": baselines_beside(parts, ks, without=folder.config().get("encoder")),
        "report": dict(parts.report),
        "settings": folder.config(),
        **provenance(),
    }
    folder.write_result(evaluation, name="evaluation.json")
    return evaluation
