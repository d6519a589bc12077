"""Compare losses on short questions: which loss brings questions of one intent together?

    python benchmarks/banking77.py
    python benchmarks/banking77.py --pairs views

Encoder and learning rate are chosen with InfoNCE on a validation part of the training questions.
Then every loss is tuned there with the same number of settings, and scored on the test part over
several seeds: the share of the nearest 1, 10 and 100 training questions with the same intent, and
the accuracy of a linear classifier with 1 or 5 labels per intent. The data (banking77, CC BY 4.0)
are read from ``$BAYESCL_DATA`` or ``../shared/data``. Finished runs are kept in ``runs/``, and the
next call continues from there.

Writes ``benchmarks/results/<name>.json`` and ``.jsonl`` (one line per run).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from intents.training import HEADS, PAIRS, SCORES, TextSettings, train_questions
from tuned_comparison import Plan, parser_of, run_plan

from bayescl_lab.compare.tuning import Grid
from bayescl_lab.report.titles import loss_title

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
        tuning_seeds=(1000, 1001),
        settings=settings,
        train=train_questions,
        criterion=("precision_1", "precision_10", "few_label_5"),
        scores=SCORES,
        titles={loss: loss_title(loss) for loss in GRIDS},
        shared_grid={
            key: (given[key],) if key in given else values for key, values in SHARED_GRID.items()
        },
        shared_values={"temperature": 0.1},
    )


def main(arguments: list[str] | None = None) -> None:
    """Tune, compare and write."""
    default = TextSettings("info_nce")
    parser = parser_of(__doc__, GRIDS)
    parser.add_argument("--pairs", choices=PAIRS, default=default.pairs)
    parser.add_argument("--epochs", type=int, default=default.epochs)
    parser.add_argument("--head", choices=HEADS, help="of the encoder (default: tuned)")
    parser.add_argument("--lr", type=float, help="highest learning rate (default: tuned)")
    parser.add_argument(
        "--deviation", type=float, help="of initial feature vectors (default: tuned)"
    )
    parser.add_argument("--data", help="folder with train.csv and test.csv")
    parser.add_argument("--name", help="of the result files (default: banking77-PAIRS)")
    options = parser.parse_args(arguments)
    given = {name: getattr(options, name) for name in ("pairs", "epochs", *SHARED_GRID)}
    name = options.name or f"banking77-{options.pairs}"
    run_plan(question_plan(data=options.data, given=given, name=name), options)


if __name__ == "__main__":
    main()
