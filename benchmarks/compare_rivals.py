"""Compare other people's methods against false negatives with the library's losses, on digits.

    python benchmarks/compare_rivals.py

Each method of ``benchmarks/rivals/`` is tuned on the validation part with as many settings as
the library's losses, and scored beside them on the test part over several seeds. The library's
losses have the choice in ``results/digits/settings.json``, made with the same number of settings,
the same seeds and the same criterion; strength of views and learning rate come from there too.
NNCLR and SwAV need lightly and are left out without it. Finished runs are kept in ``runs/``.

Writes ``benchmarks/results/rivals-digits.json`` and ``.jsonl`` (one line per run).
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rivals.training import train_rival
from tuned_comparison import Plan, parser_of, run_plan

from bayescl_lab.compare.tuning import Grid
from bayescl_lab.report.tables import data_title, loss_title
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings, losses_of

LOSSES = losses_of("images")
"""Names of the library's losses, in the order of tables."""

NEED_LIGHTLY = ("nnclr", "swav")

NAMES = {
    "fnc_eliminate": "FNC, left out",
    "fnc_attract": "FNC, attracted",
    "glofnd": "GloFND",
    "nnclr": "NNCLR",
    "swav": "SwAV",
}
"""What a reader sees, in the order of tables."""

ORDER = (
    *(loss for loss in LOSSES if "oracle" not in loss),
    *NAMES,
    *(loss for loss in LOSSES if "oracle" in loss),
)
"""Methods in the order of tables, oracles last."""

_FNC: Grid = {"temperature": (0.2, 0.3, 0.5), "top_k": (10, 50), "threshold": (0.7, 0.8)}
GRIDS: dict[str, Grid] = {
    "fnc_eliminate": _FNC,
    "fnc_attract": _FNC,
    "glofnd": {"temperature": (0.2, 0.3, 0.5, 0.7), "share": (0.05, 0.1, 0.15)},
    "nnclr": {"temperature": (0.1, 0.2, 0.3, 0.5), "queue": (256, 1024, 4096)},
    "swav": {"temperature": (0.1, 0.2), "epsilon": (0.03, 0.05), "prototypes": (15, 30, 100)},
}
"""Hyper-parameters to try, by method."""

SETTINGS = Path(__file__).parents[1] / "results" / "digits" / "settings.json"
"""Where the library's own tuning is recorded."""

_LABELS = ("few_label_1", "few_label_5")


def train_planned(
    method: str, seed: int, evaluate_on: str, epochs: int | None, **values: Any
) -> dict[str, Any]:
    """Train one run with the settings that the library's own plan has."""
    shared = json.loads(SETTINGS.read_text(encoding="utf-8"))["choice"]["shared"]
    shared |= {"epochs": epochs} if epochs else {}
    part: Any = {"seed": seed, "evaluate_on": evaluate_on, "device": "cpu"}
    settings = ImageSettings(loss=LossSettings("info_nce"), **shared, **part)
    return train_rival(settings, method, values)


def image_plan(epochs: int | None = None) -> Plan:
    """The plan; ``epochs`` of every run in place of the library's own are for quick looks."""
    losses = json.loads(SETTINGS.read_text(encoding="utf-8"))["choice"]["losses"]
    return Plan(
        name="rivals-digits",
        title=data_title("digits"),
        grids=GRIDS,
        tuning_seeds=(1000, 1001, 1002),
        train=train_planned,
        criterion=_LABELS,
        scores=(*_LABELS, "knn", "linear"),
        titles={**{loss: loss_title(loss) for loss in LOSSES}, **NAMES},
        fixed={"epochs": epochs},
        recorded={loss: LossSettings(loss, losses.get(loss, {})).resolved() for loss in LOSSES},
    )


def main(arguments: list[str] | None = None) -> None:
    """Tune, compare and write."""
    parser = parser_of(__doc__, ORDER)
    parser.add_argument("--epochs", type=int, help="of every run; for a quick look")
    options = parser.parse_args(arguments)
    if not find_spec("lightly"):
        print(f"lightly is not installed: {', '.join(NEED_LIGHTLY)} are left out")
        options.methods = [name for name in options.methods if name not in NEED_LIGHTLY]
    run_plan(image_plan(options.epochs), options)


if __name__ == "__main__":
    main()
