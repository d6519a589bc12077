"""Compare other people's methods against false negatives with the library's losses, on images.

    python benchmarks/compare_rivals.py --data digits
    python benchmarks/compare_rivals.py --data cifar10-jpeg --images data/cifar10-jpeg --seeds 3

Each method of ``benchmarks/rivals/`` is tuned on the validation part with as many settings as
the library's losses, and scored beside them on the test part over several seeds. The library's
losses have the choice in ``results/<data>/settings.json``, made with the same number of settings,
the same seeds and the same criterion; strength of views and learning rate come from there too.
NNCLR and SwAV need lightly (``pip install lightly``) and are left out without it. Finished runs are
kept in ``runs/``, and the next call continues from there; ``--methods`` runs only some methods.

Writes ``benchmarks/results/rivals-<data>.json`` and ``.jsonl`` (one line per run).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rivals.training import RivalSettings, train_rival
from tuned_comparison import Plan, parser_of, run_plan

from bayescl_lab.compare.images import PLANS
from bayescl_lab.compare.tuning import Grid
from bayescl_lab.report.titles import data_title, loss_title
from bayescl_lab.runs.losses import LossSettings, image_losses

LOSSES = image_losses()
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

_FNC_DIGITS: Grid = {
    "temperature": (0.2, 0.3, 0.5),
    "top_k": (10, 50),
    "threshold": (0.7, 0.8),
}
_FNC_CIFAR: Grid = {"temperature": (0.2, 0.5, 1.0), "top_k": (10,), "threshold": (0.7, 0.9)}
GRIDS: dict[str, dict[str, Grid]] = {
    "digits": {
        "fnc_eliminate": _FNC_DIGITS,
        "fnc_attract": _FNC_DIGITS,
        "glofnd": {
            "temperature": (0.2, 0.3, 0.5, 0.7),
            "share": (0.05, 0.1, 0.15),
        },
        "nnclr": {"temperature": (0.1, 0.2, 0.3, 0.5), "queue": (256, 1024, 4096)},
        "swav": {
            "temperature": (0.1, 0.2),
            "epsilon": (0.03, 0.05),
            "prototypes": (15, 30, 100),
        },
    },
    "cifar10-jpeg": {
        "fnc_eliminate": _FNC_CIFAR,
        "fnc_attract": _FNC_CIFAR,
        "glofnd": {"temperature": (0.2, 0.5, 1.0), "share": (0.05, 0.1)},
        "nnclr": {"temperature": (0.1, 0.2, 0.5), "queue": (1024, 4096)},
        "swav": {"temperature": (0.1,), "epsilon": (0.03, 0.05), "prototypes": (30, 100, 300)},
    },
}
"""Hyper-parameters to try, by data set and method."""

COMPARED: dict[str, dict[str, Any]] = {
    "digits": {},
    "cifar10-jpeg": {
        "max_train_images": 10_000,
        "epochs": 15,
        "width": 16,
        "channels_last": True,
    },
}
"""What the comparison has in place of the tuning plan's settings, as the library's own has."""

RESULTS = Path(__file__).parents[1] / "results"
"""Where the library's own tuning is recorded."""

_LABELS = ("few_label_1", "few_label_5")


def image_plan(
    name: str, *, data: str | None = None, given: Mapping[str, Any] | None = None
) -> Plan:
    """The plan of a data set.

    Args:
        name: a key of :data:`GRIDS`.
        data: where the images are; the library's own plan's place by default.
        given: settings of every run in place of the plan's, for quick looks.
    """
    library = PLANS[name]
    chosen = json.loads((RESULTS / name / "settings.json").read_text(encoding="utf-8"))["choice"]

    def settings(
        method: str,
        values: Mapping[str, Any],
        *,
        shared: Mapping[str, Any],
        seed: int,
        evaluate_on: str,
    ) -> RivalSettings:
        base = library.settings("info_nce", {}, chosen["shared"], seed=seed, data=data)
        other = COMPARED[name] if evaluate_on == "test" else {}
        config = {
            **base.as_config(),
            **other,
            **shared,
            **(given or {}),
            "evaluate_on": evaluate_on,
        }
        return RivalSettings(method, values, type(base).from_config(config))

    return Plan(
        name=f"rivals-{name}",
        title=data_title(name),
        grids=GRIDS[name],
        recorded={
            loss: LossSettings(loss, chosen["losses"].get(loss, {})).resolved() for loss in LOSSES
        },
        tuning_seeds=library.seeds,
        settings=settings,
        train=train_rival,
        criterion=_LABELS,
        scores=(*_LABELS, "knn", "linear"),
        titles={**{loss: loss_title(loss) for loss in LOSSES}, **NAMES},
    )


def main(arguments: list[str] | None = None) -> None:
    """Tune, compare and write."""
    parser = parser_of(__doc__, ORDER)
    parser.add_argument("--data", choices=sorted(GRIDS), default="digits")
    parser.add_argument("--images", help="where the images are (default: the plan's own place)")
    parser.add_argument(
        "--tuning-seeds", type=int, help="of each setting (default: as many as the library's plan)"
    )
    parser.add_argument("--epochs", type=int, help="of every run; for a quick look")
    options = parser.parse_args(arguments)
    if not find_spec("lightly"):
        print(f"lightly is not installed: {', '.join(NEED_LIGHTLY)} are left out")
        options.methods = [name for name in options.methods if name not in NEED_LIGHTLY]
    given = {} if options.epochs is None else {"epochs": options.epochs}
    plan = image_plan(options.data, data=options.images, given=given)
    run_plan(replace(plan, tuning_seeds=plan.tuning_seeds[: options.tuning_seeds]), options)


if __name__ == "__main__":
    main()
