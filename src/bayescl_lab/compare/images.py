"""Comparison of losses on images, and the plans behind the recorded ones.

    python -m bayescl_lab.compare.images digits

tries what a plan in ``image_plans.yaml`` names. It writes every score to
``results/<name>/settings.json`` and the choice to ``<name>_choice.json`` beside this file, from
where ``bayescl compare images`` takes it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from bayescl_lab._cores import usable_cores
from bayescl_lab._files import write_atomically
from bayescl_lab.compare.comparison import Comparison, Results
from bayescl_lab.compare.summary import summarise
from bayescl_lab.compare.tuning import Plan, Trials, tune
from bayescl_lab.runs.folder import as_json
from bayescl_lab.runs.images.run import ImageRun, train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import BASELINE, LossSettings
from bayescl_lab.runs.parallel import Progress
from bayescl_lab.runs.provenance import provenance

_FOLDER = Path(__file__).parent

PLANS: dict[str, Plan[ImageSettings]] = {
    name: Plan(
        fixed=ImageSettings(loss=LossSettings(BASELINE), **plan.pop("fixed")), name=name, **plan
    )
    for name, plan in yaml.safe_load((_FOLDER / "image_plans.yaml").read_text("utf-8")).items()
}
"""Every plan by its name."""


@dataclass(frozen=True)
class ImageComparison(Comparison[ImageSettings]):
    """Losses to compare on the same images; see :class:`.Comparison`."""

    kind = "compare images"
    settings_type = ImageSettings
    train = staticmethod(train_images)
    kept = ("settings", "images", "labels_known", "probes", "seconds_per_epoch")

    def open_data(self, out: Path) -> None:
        """Refuse images that cannot be used, or have no labels."""
        del out
        first, seed = self.losses[0], self.shared.seed
        examples = [self.with_loss(first, seed)]
        if self.tune:
            examples.append(self.tried(first.loss, first.hyperparameters, seed))
        for settings in examples:
            if not ImageRun(settings).parts.has_labels:
                raise ValueError(
                    f"{self.shared.data}: a comparison needs labels to evaluate encoders"
                )

    def summary(self, results: Results, data: None) -> dict[str, Any]:
        """The summary of all runs."""
        del data
        return {"summary": summarise(list(results.values()))}


def recorded_hyperparameters(data: str, loss: str) -> dict[str, float]:
    """The hyper-parameters that a plan chose for a loss; none if there was no plan for these data.

    Args:
        data: name of a data set, or the path of a folder of images, which is known by the
            folder's name.
        loss: name of a loss.
    """
    name = Path(data).name
    plan, file = PLANS.get(name), _FOLDER / f"{name}_choice.json"
    is_other = plan is None or (plan.fixed.data == name and data != name)
    if is_other or not file.is_file():
        return {}
    return dict(json.loads(file.read_text("utf-8"))["losses"].get(loss, {}))


def _say(run: str, _: float, done: float) -> None:
    sys.stderr.write(f"\r{done} epochs: {run:<70}")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a plan and write the two files."""
    parser = argparse.ArgumentParser(
        description="Choose the settings of a comparison on the validation part."
    )
    parser.add_argument("plan", choices=sorted(PLANS))
    parser.add_argument("--data", help="where the images are (default: the plan's own place)")
    parser.add_argument("--workers", type=int, default=usable_cores())
    options = parser.parse_args(arguments)
    plan = PLANS[options.plan]
    if options.data is not None:
        plan = replace(plan, fixed=replace(plan.fixed, data=options.data))
    runs = Path("runs") / f"{plan.name}-settings"
    record = tune_images(plan, runs, workers=options.workers, progress=_say)
    results = Path("results") / plan.name
    results.mkdir(parents=True, exist_ok=True)
    write_atomically(results / "settings.json", as_json(record))
    write_atomically(_FOLDER / f"{plan.name}_choice.json", as_json(record["choice"]))


def tune_images(
    plan: Plan[ImageSettings], runs: Path, *, workers: int = 1, progress: Progress | None = None
) -> dict[str, Any]:
    """Try everything that a plan names, choose on the validation part: ``settings.json``.

    ``runs`` is the folder of the run folders, of which finished ones are kept; so many ``workers``
    train at a time, and ``progress`` is called after every epoch.
    """
    origin = provenance()
    tuning = tune(
        plan, list(plan.loss_grids), Trials(runs, plan.seeds, train_images, workers, progress)
    )
    shared = tuning["shared"]["choice"]
    example = plan.settings(BASELINE, {}, shared, plan.seeds[0]).as_config()
    varied = {"loss", "temperature", "seed", *shared}
    return {
        **tuning,
        "choice": {
            "shared": shared,
            "losses": {loss: entry["choice"] for loss, entry in tuning["losses"].items()},
        },
        "fixed": {name: value for name, value in example.items() if name not in varied},
        **origin,
    }


if __name__ == "__main__":
    main()
