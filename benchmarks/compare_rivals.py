"""Compare other people's methods against false negatives with the library's losses, on images.

    python benchmarks/compare_rivals.py --data digits
    python benchmarks/compare_rivals.py --data cifar10-jpeg --images data/cifar10-jpeg --seeds 3

Each method of ``benchmarks/rivals/`` is tuned on the validation part with as many settings as
the library's losses, and scored beside them on the test part over several seeds. NNCLR and SwAV
need lightly (``pip install lightly``) and are left out without it. Finished runs are kept in
``runs/``, and the next call continues from there; ``--methods`` runs only some methods.

Writes ``benchmarks/results/rivals-<data>.json`` and ``.jsonl`` (one line per run), and ``.md``.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from rivals.library import usable_cores
from rivals.plans import GRIDS, ORDER, image_plan
from tuned_comparison import run_plan

NEED_LIGHTLY = ("nnclr", "swav")


def main(arguments: list[str] | None = None) -> None:
    """Tune, compare and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=sorted(GRIDS), default="digits")
    parser.add_argument("--images", help="where the images are (default: the plan's own place)")
    parser.add_argument("--methods", default=",".join(ORDER), help="names with commas between")
    parser.add_argument("--seeds", type=int, default=4, help="seeds of the comparison, from 0")
    parser.add_argument(
        "--tuning-seeds", type=int, help="of each setting (default: as many as the library's plan)"
    )
    parser.add_argument("--tune", action="store_true", help="tune and stop")
    parser.add_argument("--epochs", type=int, help="of every run; for a quick look")
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--runs", type=Path, help="folder of the runs (default: runs/rivals-DATA)")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    options = parser.parse_args(arguments)
    methods = [name.strip() for name in options.methods.split(",") if name.strip()]
    unknown = set(methods) - set(ORDER)
    if unknown:
        parser.error(f"unknown methods {', '.join(sorted(unknown))}; known: {', '.join(ORDER)}")
    if not find_spec("lightly"):
        left_out = [name for name in methods if name in NEED_LIGHTLY]
        if left_out:
            print(f"left out, as lightly is not installed: {', '.join(left_out)}")
        methods = [name for name in methods if name not in left_out]
    plan = image_plan(
        options.data,
        data=options.images,
        given={} if options.epochs is None else {"epochs": options.epochs},
    )
    if options.tuning_seeds is not None:
        plan = replace(plan, tuning_seeds=plan.tuning_seeds[: options.tuning_seeds])
    run_plan(
        plan,
        methods,
        range(options.seeds),
        runs=options.runs or Path("runs") / plan.name,
        results=options.results,
        script="benchmarks/compare_rivals.py",
        only_tune=options.tune,
        workers=options.workers,
    )
    if not options.tune:
        print((options.results / f"{plan.name}.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
