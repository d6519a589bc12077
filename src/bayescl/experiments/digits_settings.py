"""Choose the settings of the digits comparison, on the validation part alone.

    python -m bayescl.experiments.digits_settings

First the strength of the views and the learning rate, with InfoNCE, for all losses; then the
hyper-parameters of each loss, with the same number of settings, seeds and epochs for each. The
validation images are carved out of the training part and left out of training; test images play
no part, and the seeds are not those of the comparison. 216 runs: about 15 minutes on two cores.

Writes every score to ``results/digits/settings.json`` and the choice to ``digits_choice.json``
beside this file, from where ``bayescl compare images`` takes it.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bayescl.experiments.comparison_summary import mean_and_spread
from bayescl.experiments.image_run import train_images
from bayescl.experiments.image_settings import ImageSettings
from bayescl.experiments.loss_settings import LOSSES, LossSettings
from bayescl.experiments.parallel_runs import train_runs
from bayescl.experiments.provenance import provenance, usable_cores
from bayescl.experiments.run_folder import as_json, write_atomically

SEEDS = (1000, 1001, 1002)
"""Far from those of the comparison."""

CRITERION = ("few_label_1", "few_label_5")
"""A setting's score is the mean accuracy of these probes on the validation part."""

_FIXED: dict[str, Any] = {"evaluate_on": "validation", "device": "cpu"}

SHARED_GRID: dict[str, Sequence[float]] = {
    "strength": (0.5, 0.75, 1.0, 1.25),
    "lr": (1e-3, 3e-3, 1e-2),
}
"""Tried with InfoNCE at its default temperature; the choice holds for every loss."""

_TEMPERATURES = (0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)

LOSS_GRIDS: dict[str, dict[str, Sequence[float]]] = {
    "info_nce": {"temperature": _TEMPERATURES},
    "debiased": {"temperature": (0.2, 0.3, 0.5, 0.7), "tau_plus": (0.05, 0.1, 0.15)},
    "hard": {
        "temperature": (0.3, 0.5, 0.7, 1.0),
        "tau_plus": (0.1,),
        "concentration": (0.25, 0.5, 1.0),
    },
    "bayesian": {
        "temperature": (0.2, 0.3, 0.5, 0.7),
        "tau_plus": (0.1,),
        "alpha": (0.8, 0.9, 1.0),
        "beta": (0.5,),
    },
    "oracle": {"temperature": _TEMPERATURES},
}
"""Twelve settings for each loss. ``tau_plus`` = 0.1 is one over the number of classes."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both stages and write the two files."""
    parser = argparse.ArgumentParser(
        description="Choose the settings of the digits comparison on the validation part."
    )
    parser.add_argument("--results", type=Path, default=Path("results/digits"))
    parser.add_argument(
        "--runs", type=Path, default=Path("runs/digits-settings"), help="finished runs are kept"
    )
    parser.add_argument("--workers", type=int, default=usable_cores())
    options = parser.parse_args(arguments)
    origin = provenance()

    first, first_commits = _score_all(
        {"info_nce": settings_of(SHARED_GRID)},
        lambda loss, values: ImageSettings(loss=LossSettings(loss), **_FIXED, **values),
        options,
    )
    shared_scores = first["info_nce"]
    shared = best(shared_scores)
    second, commits = _score_all(
        {loss: settings_of(LOSS_GRIDS[loss]) for loss in LOSSES},
        lambda loss, values: ImageSettings(loss=LossSettings(loss, values), **_FIXED, **shared),
        options,
    )
    losses = {loss: {"choice": best(scores), "scores": scores} for loss, scores in second.items()}

    choice = {"shared": shared, "losses": {loss: entry["choice"] for loss, entry in losses.items()}}
    options.results.mkdir(parents=True, exist_ok=True)
    record = {
        "criterion": f"mean of {' and '.join(CRITERION)} on the validation part",
        "seeds": list(SEEDS),
        "spread": "standard deviation over seeds",
        "choice": choice,
        "shared": {"choice": shared, "scores": shared_scores},
        "losses": losses,
        "commits_of_runs": sorted(first_commits | commits),
        **origin,
    }
    write_atomically(options.results / "settings.json", as_json(record))
    write_atomically(Path(__file__).with_name("digits_choice.json"), as_json(choice))


def settings_of(grid: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """Every combination of a grid.

    Example:
        >>> settings_of({"a": (1.0, 2.0), "b": (3.0,)})
        [{'a': 1.0, 'b': 3.0}, {'a': 2.0, 'b': 3.0}]
    """
    return [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]


def best(scores: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """The values of the setting with the highest mean score; of equals the first."""
    return max(scores.values(), key=lambda entry: entry["score"]["mean"])["values"]


def _score_all(
    grids: Mapping[str, list[dict[str, float]]],
    settings: Callable[[str, dict[str, float]], ImageSettings],
    options: argparse.Namespace,
) -> tuple[dict[str, dict[str, Any]], set[str]]:
    """Train every setting of every loss with every seed, and score it on the validation part.

    Also returns the commits that the runs were made at: finished runs are kept from call to call.
    """
    runs = {}
    keys: dict[tuple[str, str, int], str] = {}
    for loss, grid in grids.items():
        for values in grid:
            base = settings(loss, values)
            for seed in SEEDS:
                run = f"{loss}-{_name({'strength': base.strength, 'lr': base.lr, **values})}"
                keys[loss, _name(values), seed] = f"{run}-seed{seed}"
                runs[f"{run}-seed{seed}"] = replace(base, seed=seed)
    total = sum(run.epochs for run in runs.values())
    results = train_runs(
        runs,
        options.runs,
        train=train_images,
        workers=options.workers,
        progress=lambda run, _, done: sys.stderr.write(f"\r{done} of {total} epochs: {run:<70}"),
    )
    sys.stderr.write("\n")
    scores: dict[str, dict[str, Any]] = {}
    for loss, grid in grids.items():
        scores[loss] = {}
        for values in grid:
            probes = [results[keys[loss, _name(values), seed]]["probes"] for seed in SEEDS]
            means = [sum(one[probe] for probe in CRITERION) / len(CRITERION) for one in probes]
            scores[loss][_name(values)] = {
                "values": values,
                "score": mean_and_spread(means),
                **{probe: mean_and_spread([one[probe] for one in probes]) for probe in CRITERION},
            }
    return scores, {str(result["commit"]) for result in results.values()}


def _name(values: Mapping[str, float]) -> str:
    """Values as a part of a file name."""
    return "-".join(f"{name}{value:g}" for name, value in values.items())


if __name__ == "__main__":
    main()
