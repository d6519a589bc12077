"""Compare losses on short questions: which loss brings questions of one intent together?

    python benchmarks/banking77.py
    python benchmarks/banking77.py --pairs views

Encoder and learning rate are chosen with InfoNCE on a validation part of the training questions.
Then every loss is tuned there with the same number of settings, and scored on the test part over
several seeds: the share of the nearest 1, 10 and 100 training questions with the same intent, and
the accuracy of a linear classifier with 1 or 5 labels per intent. The data (banking77, CC BY 4.0)
are read from ``$BAYESCL_DATA`` or ``../shared/data``. Finished runs are kept in ``runs/``, and the
next call continues from there.

Writes ``benchmarks/results/<name>.json`` and ``.jsonl`` (one line per run), and ``.md``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from intents.encoder import HEADS
from intents.plan import GRIDS, SHARED_GRID, question_plan
from intents.training import PAIRS, TextSettings
from rivals.library import usable_cores
from tuned_comparison import run_plan


def main(arguments: list[str] | None = None) -> None:
    """Tune, compare and write."""
    default = TextSettings("info_nce")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", choices=PAIRS, default=default.pairs)
    parser.add_argument("--methods", default=",".join(GRIDS), help="names with commas between")
    parser.add_argument("--seeds", type=int, default=4, help="seeds of the comparison, from 0")
    parser.add_argument("--tune", action="store_true", help="tune and stop")
    parser.add_argument("--epochs", type=int, default=default.epochs)
    parser.add_argument("--head", choices=HEADS, help="of the encoder (default: tuned)")
    parser.add_argument("--lr", type=float, help="highest learning rate (default: tuned)")
    parser.add_argument(
        "--deviation", type=float, help="of initial feature vectors (default: tuned)"
    )
    parser.add_argument("--data", help="folder with train.csv and test.csv")
    parser.add_argument("--name", help="of the result files (default: banking77-PAIRS)")
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--runs", type=Path, help="folder of the runs (default: runs/NAME)")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    methods = [name.strip() for name in options.methods.split(",") if name.strip()]
    unknown = set(methods) - set(GRIDS)
    if unknown:
        parser.error(f"unknown methods {', '.join(sorted(unknown))}; known: {', '.join(GRIDS)}")
    given = {name: getattr(options, name) for name in ("pairs", "epochs", *SHARED_GRID)}
    name = options.name or f"banking77-{options.pairs}"
    plan = question_plan(data=options.data, given=given, name=name)
    run_plan(
        plan,
        methods,
        range(options.seeds),
        runs=options.runs or Path("runs") / name,
        results=options.results,
        script="benchmarks/banking77.py",
        only_tune=options.tune,
        workers=options.workers,
    )
    if not options.tune:
        print((options.results / f"{name}.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
