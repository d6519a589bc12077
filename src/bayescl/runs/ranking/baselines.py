"""Recommenders without embeddings, judged as the trained ones are."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from bayescl._checks import check_choice, check_positive
from bayescl.recsys.datasets import EVALUATION_PARTS
from bayescl.recsys.ease import EASE
from bayescl.recsys.interactions import Interactions, RankingParts
from bayescl.recsys.popularity import Popularity
from bayescl.recsys.scorers import Scorer
from bayescl.runs.folder import RunFolder
from bayescl.runs.ranking.data import RankingData
from bayescl.runs.ranking.memory import RankingMemory
from bayescl.runs.ranking.settings import BASELINES, EASE_NAME, KIND, POPULARITY
from bayescl.runs.ranking.watch import judged_figures, metrics_and_users
from bayescl.runs.run import Result, Watching, Work, run_in_folder

TITLES = {POPULARITY: "popularity", EASE_NAME: "EASE"}
"""What a reader sees instead of a baseline's name."""


@dataclass(frozen=True)
class BaselineSettings:
    """Everything that shapes a baseline.

    Attributes:
        encoder: "popularity" or "ease".
        data: what is read, and how.
        regularization: the penalty of EASE; popularity has none.
        evaluate_on: the part that the result is about, "test" or "validation".

    Raises:
        ValueError: if a value is out of its range.
    """

    encoder: str
    data: RankingData = field(default_factory=RankingData)
    regularization: float = 300.0
    evaluate_on: str = "test"

    def __post_init__(self) -> None:
        check_choice("encoder", self.encoder, BASELINES)
        check_positive("regularization", self.regularization)
        check_choice("evaluate_on", self.evaluate_on, EVALUATION_PARTS)

    @property
    def epochs(self) -> int:
        """A baseline is fitted in one go."""
        return 1

    def fit(self, train: Interactions) -> Scorer:
        """The recommender itself.

        Raises:
            ValueError: if it would need more memory than there is.
        """
        if self.encoder == POPULARITY:
            return Popularity(train)
        return EASE(train, self.regularization)

    def as_config(self) -> dict[str, Any]:
        """The settings as plain values."""
        config = asdict(self)
        del config["data"]
        if self.encoder == POPULARITY:
            del config["regularization"]
        return {**asdict(self.data), **config}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> BaselineSettings:
        """The settings that :meth:`as_config` wrote down.

        Raises:
            ValueError: if a setting is missing, unknown or out of range.
        """
        values = dict(config)
        try:
            return cls(data=RankingData.taken_from(values), **values)
        except TypeError as error:
            raise ValueError(f"the settings of the run are damaged: {error}") from None


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
    return run_in_folder(out, KIND, settings, lambda: _fitted(settings), resume=resume)


def _fitted(settings: BaselineSettings) -> Work:
    """Fit a baseline; what is left to do is to judge it."""
    memory = RankingMemory.of(settings.data, settings.evaluate_on, watches=False)
    parts = memory.parts(settings.evaluate_on)
    started = time.perf_counter()
    recommender = settings.fit(parts.train)
    fitted = time.perf_counter()

    def judge(folder: RunFolder) -> Result:
        memory.write(folder, settings.data)
        began = time.perf_counter()
        figures = metrics_and_users(judged_figures(recommender, parts))
        return _result(settings, parts, figures, fitted - started, time.perf_counter() - began)

    return judge


def _result(
    settings: BaselineSettings,
    parts: RankingParts,
    figures: dict[str, Any],
    fit_seconds: float,
    evaluation_seconds: float,
) -> Result:
    """What ``result.json`` holds of a baseline."""
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
