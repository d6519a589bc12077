"""Choose the settings of a comparison, on the validation part alone.

    python -m bayescl_lab.compare.images.tuning digits

The validation images are carved out of the training part and left out of training; test images
play no part, and the seeds are not those of the comparison. What is tried says
:mod:`~bayescl_lab.compare.images.plans`: as many settings for each loss, over the same seeds
and epochs.

Writes every score to ``results/<name>/settings.json`` and the choice to ``<name>_choice.json``
beside this file, from where ``bayescl compare images`` takes it. With ``--losses`` only these are
tried, at the shared settings that the file has, and the scores of the others stay as they are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayescl_lab._cores import usable_cores
from bayescl_lab._files import write_atomically
from bayescl_lab.compare.grids import Scores, Trial, choose_settings, name_of
from bayescl_lab.compare.images.plans import PLANS, TuningPlan
from bayescl_lab.runs.folder import as_json, read_json
from bayescl_lab.runs.images.run import train_images
from bayescl_lab.runs.parallel import Progress, train_runs
from bayescl_lab.runs.provenance import provenance
from bayescl_lab.runs.statistics import mean_and_spread

CRITERION = ("few_label_1", "few_label_5")
"""A setting's score is the mean accuracy of these probes on the validation part."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a plan and write the two files."""
    parser = argparse.ArgumentParser(
        description="Choose the settings of a comparison on the validation part."
    )
    parser.add_argument("plan", choices=sorted(PLANS))
    parser.add_argument("--data", help="where the images are (default: the plan's own place)")
    parser.add_argument("--results", type=Path, help="default: results/<plan>")
    parser.add_argument("--runs", type=Path, help="default: runs/<plan>-settings")
    parser.add_argument("--workers", type=int, default=usable_cores())
    parser.add_argument("--losses", help="names with commas between (default: all)")
    options = parser.parse_args(arguments)
    plan = PLANS[options.plan]
    results = options.results or Path("results") / plan.name
    recorded = None
    if options.losses is not None:
        wanted = options.losses.split(",")
        plan = replace(plan, loss_grids={loss: plan.loss_grids[loss] for loss in wanted})
        recorded = read_json(results / "settings.json")
    record = tune(
        plan,
        options.runs or Path("runs") / f"{plan.name}-settings",
        recorded=recorded,
        data=options.data,
        workers=options.workers,
        progress=_tell,
    )
    sys.stderr.write("\n")
    results.mkdir(parents=True, exist_ok=True)
    write_atomically(results / "settings.json", as_json(record))
    choice = Path(__file__).with_name(f"{plan.name}_choice.json")
    write_atomically(choice, as_json(record["choice"]))


def _tell(run: str, _: int, done: int) -> None:
    """Show how far the runs are, in one line."""
    sys.stderr.write(f"\r{done} epochs: {run:<70}")


def tune(
    plan: TuningPlan,
    runs: Path,
    *,
    recorded: Mapping[str, Any] | None = None,
    data: str | None = None,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Try everything that a plan names and choose by the validation part.

    Args:
        plan: what to try.
        runs: the folder of the run folders; finished runs in it are kept.
        recorded: an earlier record, whose shared settings are taken and whose other losses stay.
        data: where the images are; default: the plan's own place.
        workers: processes that train at a time, each with one thread.
        progress: told of every finished epoch.

    Returns:
        What ``settings.json`` holds: criterion, choice, every score, and provenance.
    """
    origin = provenance()
    earlier: Mapping[str, Any] = recorded or {"losses": {}, "commits_of_runs": ()}
    commits = set(earlier["commits_of_runs"])

    def score(trials: Mapping[str, Trial]) -> Scores:
        """Train every setting over all seeds; finished runs are kept, so commits may differ."""
        settings = {
            name: {
                f"{loss}-{name_of({**shared, **values})}-seed{seed}": plan.settings(
                    loss, values, shared, seed=seed, data=data
                )
                for seed in plan.seeds
            }
            for name, (loss, values, shared) in trials.items()
        }
        every = {name: run for of_one in settings.values() for name, run in of_one.items()}
        results = train_runs(every, runs, train=train_images, workers=workers, progress=progress)
        commits.update(str(result["commit"]) for result in results.values())
        return {
            name: _score([results[run]["probes"] for run in of_one])
            for name, of_one in settings.items()
        }

    shared_entry, tuned = choose_settings(
        plan.shared_grid, plan.loss_grids, score, shared_loss={}, shared=earlier.get("shared")
    )
    shared, losses = shared_entry["choice"], {**earlier["losses"], **tuned}
    example = plan.settings("info_nce", {}, shared, seed=plan.seeds[0], data=data).as_config()
    return {
        "criterion": f"mean of {' and '.join(CRITERION)} on the validation part",
        "seeds": list(plan.seeds),
        "spread": "standard deviation over seeds",
        "choice": {
            "shared": shared,
            "losses": {loss: entry["choice"] for loss, entry in losses.items()},
        },
        "fixed": {
            name: value
            for name, value in example.items()
            if name not in {"loss", "temperature", "seed", *shared}
        },
        "shared": shared_entry,
        "losses": losses,
        "commits_of_runs": sorted(commits),
        **origin,
    }


def _score(probes: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The score of a setting, from what its runs came to."""
    means = [sum(one[probe] for probe in CRITERION) / len(CRITERION) for one in probes]
    return {
        "score": mean_and_spread(means),
        **{probe: mean_and_spread([one[probe] for one in probes]) for probe in CRITERION},
    }


if __name__ == "__main__":
    main()
