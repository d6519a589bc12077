"""What is tried for each loss on questions: ten settings for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rivals.library import LOSSES, Grid, loss_title
from tuned_comparison import Plan

from intents.encoder import HEADS
from intents.retrieval import SCORES, TITLES
from intents.training import TextSettings, train_questions

INTENTS = 77
PRIOR = 1 / INTENTS
"""Probability that two questions are of one intent, were intents equally large."""

TEN_TEMPERATURES = (0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)
FIVE_TEMPERATURES = (0.05, 0.1, 0.2, 0.3, 0.5)

GRIDS: dict[str, Grid] = {
    "info_nce": {"temperature": TEN_TEMPERATURES},
    "debiased": {"temperature": FIVE_TEMPERATURES, "tau_plus": (PRIOR / 2, PRIOR)},
    "hard": {
        "temperature": FIVE_TEMPERATURES,
        "tau_plus": (PRIOR,),
        "concentration": (0.25, 1.0),
    },
    "bayesian": {
        "temperature": FIVE_TEMPERATURES,
        "tau_plus": (PRIOR,),
        "alpha": (0.9, 1.0),
        "beta": (0.5,),
    },
    "latent": {"temperature": TEN_TEMPERATURES, "tau_plus": (PRIOR,)},
    "oracle": {"temperature": TEN_TEMPERATURES},
    "attracting_oracle": {"temperature": TEN_TEMPERATURES},
}
"""By name."""

SHARED_GRID: Grid = {"head": HEADS[:2], "lr": (5e-3, 2e-2), "deviation": (0.05, 0.2)}
"""Tried for all losses together, with InfoNCE at temperature 0.1."""


def question_plan(
    *, data: str | None = None, given: Mapping[str, Any] | None = None, name: str = "banking77"
) -> Plan:
    """The plan of the comparison on questions.

    Args:
        data: the folder of the data; found by itself by default.
        given: settings of every run other than :class:`~intents.training.TextSettings`' own;
            what is given is not tried.
        name: of the result files.
    """
    given = {key: value for key, value in (given or {}).items() if value is not None}

    def settings(
        method: str,
        values: Mapping[str, Any],
        *,
        shared: Mapping[str, Any],
        seed: int,
        evaluate_on: str,
    ) -> TextSettings:
        options = {**given, **shared}
        return TextSettings(
            method, values, seed=seed, evaluate_on=evaluate_on, data=data, **options
        )

    of = TextSettings("info_nce", **given)
    pairs = {
        "intents": "pairs of two questions of one intent",
        "views": f"pairs of two views of one question that lack {of.dropout:.0%} of its words",
    }[of.pairs]
    return Plan(
        name=name,
        title=(
            f"Banking77, {pairs}; candidates in batches of {of.batch_size}, {of.epochs} epochs, "
            "bag of words and word pairs from scratch"
        ),
        grids=GRIDS,
        recorded={},
        tuning_seeds=(1000, 1001),
        settings=settings,
        train=train_questions,
        criterion=("precision_1", "precision_10", "few_label_5"),
        scores=SCORES,
        shares=SCORES,
        titles={
            **{loss: loss_title(loss) for loss in LOSSES},
            **TITLES,
        },
        shared_grid={
            key: (given[key],) if key in given else values for key, values in SHARED_GRID.items()
        },
        shared_values={"temperature": 0.1},
    )
