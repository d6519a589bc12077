"""Evaluation of a recommender run by full ranking."""

from __future__ import annotations

from pathlib import Path

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.ranking.baselines import ranking_result
from bayescl_lab.runs.ranking.serving import load_recommender
from bayescl_lab.runs.ranking.settings import RankingSettings, baseline_of
from bayescl_lab.runs.result import Result
from bayescl_lab.runs.run import Kind, write_evaluation


def evaluate_run(path: Path, *, data: str | None = None) -> Result:
    """Evaluate a run, finished or not, by full ranking; write ``evaluation.json``.

    With ``data``, the run is evaluated on other interactions, without its training interactions.
    """
    folder = RunFolder.open(path, Kind.RANKING)
    recommender = load_recommender(path)
    scorer, epochs = recommender.trained
    parts = recommender.parts
    if data is not None:
        parts = recommender.record.on(data, folder).parts(parts.evaluated_on)
    config = folder.config()
    settings = baseline_of(config) or RankingSettings.from_config(config)
    result = ranking_result(
        *(scorer, parts, settings),
        trained_on=recommender.trained_on,
        part=data,
        baselines=True,
        epochs=epochs,
    )
    return write_evaluation(folder, result)
