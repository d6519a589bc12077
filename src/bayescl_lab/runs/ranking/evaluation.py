"""Evaluate a run of a recommender by ranking all items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bayescl_lab.ranking.metrics import evaluate_ranking
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.ranking.baselines import evaluate_baselines
from bayescl_lab.runs.ranking.serving import load_recommender
from bayescl_lab.runs.run import Kind, write_evaluation


def evaluate_run(path: Path, *, data: str | None = None) -> dict[str, Any]:
    """Evaluate a run, finished or not, by full ranking; write and return ``evaluation.json``.

    With ``data``, the run is evaluated on other interactions, without its training interactions.
    """
    folder = RunFolder.open(path, Kind.RANKING)
    config = folder.config()
    recommender = load_recommender(path)
    scorer, epochs = recommender.trained
    parts = recommender.parts
    if data is not None:
        parts = recommender.record.on(data, folder).parts(parts.evaluated_on)
    evaluation = {
        "epochs": epochs,
        "of_epochs": None if epochs is None else config["epochs"],
        "evaluated_on": parts.evaluated_on if data is None else data,
        **evaluate_ranking(scorer, parts, trained_on=recommender.trained_on),
        "baselines": evaluate_baselines(parts, without=config["encoder"]),
        "report": parts.report,
        "settings": config,
    }
    return write_evaluation(folder, evaluation)
