"""Results that are made up: by method, its scores seed by seed."""

from collections.abc import Sequence

from bayescl_lab.ranking.metrics import METRICS
from bayescl_lab.runs.losses import RankingLossSettings
from bayescl_lab.runs.ranking.ranking_settings import BASELINES, RankingSettings
from bayescl_lab.runs.result import Result, Row, Score, Trial, Tuning

NAMES = [f"{metric}@{k}" for k in (5, 10, 20) for metric in METRICS]
ORIGIN = {
    "command": "bayescl compare",
    "commit": "0123456789abc",
    "hardware": {"gpu": None, "cpu": "one", "cores": 2},
    "versions": {"torch": "2"},
}


def images(measures: Sequence[str] = ("few_label_1", "knn"), **methods: list[float]) -> Result:
    """A comparison on images in which k-NN is the same for all, and other measures are equal."""
    rows = {
        name: Row(
            {
                measure: Score.of([0.5] * len(values) if measure == "knn" else values)
                for measure in measures
            },
            seconds=Score.of([1.0] * len(values)),
        )
        for name, values in methods.items()
    }
    seeds = len(next(iter(methods.values())))
    return Result("digits", "test", rows, seeds, encoder="small", settings={"epochs": 1})


def cell(
    data: str = "ml-100k, author split", encoder: str = "mf", **methods: list[float]
) -> Result:
    """A cell of the ranking table whose metrics are all the same."""
    methods = methods or {"info_nce": [0.5, 0.52], "bayesian": [0.53, 0.54]}
    settings = RankingSettings(encoder=encoder, loss=RankingLossSettings("hard")).as_config()
    tuning = Tuning({}, {name: Trial({}, Score(0.5)) for name in "ab"})

    def row(values: Sequence[float]) -> Row:
        scores = {name: Score.of(values) for name in NAMES}
        return Row(scores, settings, Score.of([1.5]), 7, tuning=tuning)

    sizes = {"users": 943, "items": 1682, "train": 80000, "test": 20000}
    return Result(
        data,
        "test",
        {name: row(values) for name, values in methods.items()},
        len(next(iter(methods.values()))),
        baselines={name: Row({one: Score.of([0.25]) for one in NAMES}) for name in BASELINES},
        encoder=encoder,
        sizes={**sizes, "judged": 940, "users_left_out": 3},
        criterion="mean of ndcg@20 on the validation split",
        origin=ORIGIN,
    )
