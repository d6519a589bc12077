"""Compare losses on short questions: which loss brings questions of one intent together?

    python benchmarks/banking77.py
    python benchmarks/banking77.py --pairs views

The learning rate is chosen with InfoNCE on a validation part of the training questions.
Then every loss is tuned there with the same number of settings, and scored on the test part over
several seeds: the share of the nearest 1, 10 and 100 training questions with the same intent, and
the accuracy of a linear classifier with 1 or 5 labels per intent. The data (banking77, CC BY 4.0)
are read from ``$BAYESCL_DATA`` or ``../shared/data``. Finished runs are kept in ``runs/``, and the
next call continues from there.

Writes ``benchmarks/results/<name>.json`` and ``.jsonl`` (one line per run).
"""

from __future__ import annotations

from typing import Literal

from intents.training import PAIRS, SCORES, TextSettings, train_questions
from tuned_comparison import Plan, parser_of, run_plan

from bayescl_lab.compare.tuning import Grid
from bayescl_lab.report.tables import loss_title

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
    "oracle": {"temperature": TEN_TEMPERATURES},
    "attracting_oracle": {"temperature": TEN_TEMPERATURES},
}
"""By name."""


def question_plan(
    pairs: Literal["intents", "views"] = "intents",
    epochs: int = TextSettings.epochs,
    data: str | None = None,
) -> Plan:
    """The plan of the comparison; the folder of the data is found by itself by default."""
    of = TextSettings(pairs, epochs)
    what = {
        "intents": "pairs of two questions of one intent",
        "views": f"pairs of two views of one question that lack {of.dropout:.0%} of its words",
    }[pairs]
    return Plan(
        name=f"banking77-{pairs}",
        title=(
            f"Banking77, {what}; candidates in batches of {of.batch_size}, {epochs} epochs, "
            "bag of words and word pairs from scratch"
        ),
        grids=GRIDS,
        tuning_seeds=(1000, 1001),
        train=train_questions,
        criterion=("precision_1", "precision_10", "few_label_5"),
        scores=SCORES,
        titles={loss: loss_title(loss) for loss in GRIDS},
        fixed={"pairs": pairs, "epochs": epochs, "data": data},
        shared_grid={"lr": (5e-3, 2e-2)},
        shared_values={"temperature": 0.1},
    )


def main(arguments: list[str] | None = None) -> None:
    """Tune, compare and write."""
    parser = parser_of(__doc__, GRIDS)
    parser.add_argument("--pairs", choices=PAIRS, default="intents")
    parser.add_argument("--epochs", type=int, default=TextSettings.epochs)
    parser.add_argument("--data", help="folder with train.csv and test.csv")
    options = parser.parse_args(arguments)
    run_plan(question_plan(options.pairs, options.epochs, options.data), options)


if __name__ == "__main__":
    main()
