"""Comparison of losses on images, and the hyper-parameters recorded for some data sets."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bayescl_lab.compare.comparison import Comparison, Results
from bayescl_lab.compare.summary import summarise
from bayescl_lab.compare.tuning import Values
from bayescl_lab.images.datasets import known_data_sets
from bayescl_lab.runs.images.encoder import own_encoder
from bayescl_lab.runs.images.run import ImageRun, train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import SHARE
from bayescl_lab.runs.parallel import Train
from bayescl_lab.runs.run import Result


@dataclass(frozen=True)
class ImageComparison(Comparison[ImageSettings]):
    """Losses to compare on the same images; see :class:`.Comparison`.

    Attributes:
        allows_own_encoder: whether the user named the encoder, which may be their own code.
    """

    kind = "compare images"
    settings_type = ImageSettings
    kept = ("settings", "images", "labels_known", "probes", "seconds_per_epoch")

    allows_own_encoder: bool = False

    def settings(self, name: str, values: Values, seed: int, **changes: Any) -> ImageSettings:
        """The settings of one run; without a share to distribute, no teacher is read."""
        if values.get(SHARE) == 1:
            changes["teacher"] = None
        return super().settings(name, values, seed, **changes)

    @property
    def train(self) -> Train:
        """Trains one run."""
        return train_with_own_encoder if self.allows_own_encoder else train_images

    def open_data(self, out: Path) -> None:
        """Refuse images that cannot be used, or have no labels."""
        del out
        first, seed = next(iter(self.methods.items())), self.shared.seed
        examples = [self.settings(*first, seed)]
        if self.tune:
            examples.append(self.tried(*first, seed))
        for settings in examples:
            own = own_encoder(settings.encoder) if self.allows_own_encoder else None
            run = ImageRun(settings, own)
            _ = run.batches  # refuses settings that cannot train
            if not run.parts.has_labels:
                raise ValueError(
                    f"{self.shared.data}: a comparison needs labels to evaluate encoders"
                )

    def summary(self, results: Results, data: None) -> dict[str, Any]:
        """The summary of all runs."""
        del data
        return {"summary": summarise(results)}


def train_with_own_encoder(settings: ImageSettings, out: Path, **options: Any) -> Result:
    """Train one run with an encoder that the user named, and that may be the user's own code."""
    encoder = own_encoder(settings.encoder, settings.seed)
    return train_images(settings, out, encoder=encoder, **options)


def recorded_hyperparameters(data: str, loss: str) -> dict[str, float]:
    """The hyper-parameters that were chosen for a loss on these data; none if nothing was.

    ``results/<name>/settings.json`` has every score, and the commit that chose.

    Args:
        data: name of a data set, or the path of a folder of images, which is known by the
            folder's name.
        loss: name of a loss, or of a loss with a teacher.
    """
    name = Path(data).name
    file = Path(__file__).with_name(f"{name}_choice.json")
    if not file.is_file() or (data != name and name in known_data_sets()):
        return {}
    return dict(json.loads(file.read_text("utf-8"))["losses"].get(loss, {}))
