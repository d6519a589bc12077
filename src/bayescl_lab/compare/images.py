"""Comparison of losses on images, and the plans behind the recorded ones.

    python -m bayescl_lab.compare.images digits

tries what a plan names. It writes every score to ``results/<name>/settings.json`` and the choice to
``<name>_choice.json`` beside this file, from where ``bayescl compare images`` takes it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bayescl_lab._cores import usable_cores
from bayescl_lab._files import write_atomically
from bayescl_lab.compare.comparison import Comparison, Results
from bayescl_lab.compare.summary import summarise
from bayescl_lab.compare.tuning import Plan, Trials, tune
from bayescl_lab.runs.folder import as_json
from bayescl_lab.runs.images.run import ImageRun, train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import BASELINE, LossSettings, takes
from bayescl_lab.runs.parallel import Progress
from bayescl_lab.runs.provenance import provenance

KIND = "compare images"
"""The kind of run: the command that makes it."""

_CHOICES = Path(__file__).parent


@dataclass(frozen=True)
class ImageComparison(Comparison[ImageSettings]):
    """Losses to compare on the same images; see :class:`.Comparison`."""

    kind = KIND
    settings_type = ImageSettings
    train = staticmethod(train_images)
    kept = ("settings", "images", "labels_known", "probes", "seconds_per_epoch")

    def with_loss(self, loss: LossSettings, seed: int) -> ImageSettings:
        """The settings of one run; a schedule of alpha applies to the losses that have one."""
        schedule = self.shared.alpha_schedule if takes(loss.loss, "alpha") else "fixed"
        return replace(self.shared, loss=loss, seed=seed, alpha_schedule=schedule)

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

    def figures(self, results: Results, data: None) -> dict[str, Any]:
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
    plan, file = PLANS.get(name), _CHOICES / f"{name}_choice.json"
    is_other = plan is None or (plan.fixed.data == name and data != name)
    if is_other or not file.is_file():
        return {}
    return dict(json.loads(file.read_text("utf-8"))["losses"].get(loss, {}))


_TWELVE_TEMPERATURES = (0.07, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)

DIGITS = Plan(
    name="digits",
    fixed=ImageSettings(data="digits", device="cpu", loss=LossSettings("info_nce")),
    seeds=(1000, 1001, 1002),
    shared_grid={"strength": (0.5, 0.75, 1.0, 1.25), "lr": (1e-3, 3e-3, 1e-2)},
    loss_grids={
        "info_nce": {"temperature": _TWELVE_TEMPERATURES},
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
        "latent": {
            "temperature": (0.15, 0.2, 0.25, 0.3),
            "tau_plus": (0.1,),
            "attraction": (0.5, 1.0, 2.0),
        },
        "oracle": {"temperature": _TWELVE_TEMPERATURES},
        "attracting_oracle": {"temperature": _TWELVE_TEMPERATURES},
    },
)
"""Twelve settings for each loss, 288 runs: about 20 minutes on two cores.

``tau_plus`` = 0.1 is one over the number of classes.
"""

_SIX_TEMPERATURES = (0.1, 0.2, 0.3, 0.5, 0.7, 1.0)
_THREE_TEMPERATURES = (0.2, 0.5, 1.0)

CIFAR10_JPEG = Plan(
    name="cifar10-jpeg",
    fixed=ImageSettings(
        data="data/cifar10-jpeg",
        max_train_images=4000,
        width=32,
        stride=2,
        augmentation="simclr",
        epochs=6,
        device="cpu",
        loss=LossSettings("info_nce"),
    ),
    shared_grid={"strength": (0.5, 1.0), "lr": (1e-3, 3e-3)},
    loss_grids={
        "info_nce": {"temperature": _SIX_TEMPERATURES},
        "debiased": {"temperature": _THREE_TEMPERATURES, "tau_plus": (0.05, 0.1)},
        "hard": {
            "temperature": _THREE_TEMPERATURES,
            "tau_plus": (0.1,),
            "concentration": (0.5, 1.0),
        },
        "bayesian": {
            "temperature": _THREE_TEMPERATURES,
            "tau_plus": (0.1,),
            "alpha": (0.9,),
            "beta": (0.5, 0.9),
        },
        "latent": {
            "temperature": (0.2, 0.25, 0.5),
            "tau_plus": (0.1,),
            "attraction": (0.5, 1.0),
        },
        "oracle": {"temperature": _SIX_TEMPERATURES},
    },
)
"""Six settings for each loss, 40 runs on fewer images and epochs than the comparison's.

The Bayesian loss has its ``alpha`` from the paper; its ``beta`` is 0.5, without hardness, or one
less one over the number of classes. There is one seed: among settings that come close to one
another, chance chooses.
"""

PLANS = {plan.name: plan for plan in (DIGITS, CIFAR10_JPEG)}
"""Every plan by its name."""


def _say(run: str, _: int, done: int) -> None:
    """One line that is written over."""
    sys.stderr.write(f"\r{done} epochs: {run:<70}")


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
    options = parser.parse_args(arguments)
    plan = PLANS[options.plan]
    if options.data is not None:
        plan = replace(plan, fixed=replace(plan.fixed, data=options.data))
    record = tune_images(
        plan,
        options.runs or Path("runs") / f"{plan.name}-settings",
        workers=options.workers,
        progress=_say,
    )
    sys.stderr.write("\n")
    results = options.results or Path("results") / plan.name
    results.mkdir(parents=True, exist_ok=True)
    write_atomically(results / "settings.json", as_json(record))
    write_atomically(_CHOICES / f"{plan.name}_choice.json", as_json(record["choice"]))


def tune_images(
    plan: Plan[ImageSettings],
    runs: Path,
    *,
    workers: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Try everything that a plan names and choose by the validation part.

    Args:
        plan: what to try.
        runs: the folder of the run folders; finished runs in it are kept.
        workers: processes that train at a time, each with one thread.
        progress: called after every epoch.

    Returns:
        The content of ``settings.json``.
    """
    origin = provenance()
    trials = Trials(runs, plan.seeds, train_images, workers, progress)
    tuning = tune(plan, list(plan.loss_grids), trials)
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
