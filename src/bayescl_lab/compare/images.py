"""Comparison of methods on images, and the hyper-parameters recorded for some data sets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from typing_extensions import Self

from bayescl_lab.compare.comparison import Comparison
from bayescl_lab.compare.plan import Plan, with_values
from bayescl_lab.compare.result import Result
from bayescl_lab.images.datasets import known_data_sets
from bayescl_lab.images.probes import PROBES
from bayescl_lab.runs.images.encoder import own_encoder
from bayescl_lab.runs.images.run import ImageRun, train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.run import Result as RunResult


def train_with_own_encoder(settings: ImageSettings, out: Path, **options: Any) -> RunResult:
    """Train one run with an encoder that the user named, and that may be the user's own code."""
    encoder = own_encoder(settings.encoder, settings.seed)
    return train_images(settings, out, encoder=encoder, **options)


@dataclass(frozen=True)
class ImagePlan(Plan[ImageSettings]):
    """A plan on images."""

    train = staticmethod(train_images)

    def prepared(self, out: Path) -> Self:
        """The plan; images that cannot be used, or have no labels, are a ``ValueError``."""
        del out
        # Each choice of images is read once.
        chosen = {(one.data, one.classes): one for one in self.methods.values()}
        first = next(iter(chosen.values()))
        tried = [with_values(first, {"evaluate_on": "validation"})] if self.stages else []
        for settings in (*chosen.values(), *tried):
            run = self.opened(settings)
            _ = run.batches  # refuses settings that cannot train
            if not run.parts.has_labels:
                raise ValueError(f"{settings.data}: a comparison needs labels to evaluate encoders")
        return self

    def opened(self, settings: ImageSettings) -> ImageRun:
        """A run, which checks its input."""
        return ImageRun(settings)

    def finished(self, result: Result, run: Mapping[str, Any]) -> Result:
        """The result with the numbers of images."""
        return replace(result, sizes=run["images"])


@dataclass(frozen=True)
class OwnEncoderPlan(ImagePlan):
    """A plan with an encoder that the user named, and that may be the user's own code."""

    train = staticmethod(train_with_own_encoder)

    def opened(self, settings: ImageSettings) -> ImageRun:
        """A run with the encoder."""
        return ImageRun(settings, own_encoder(settings.encoder))


@dataclass(frozen=True)
class ImageComparison(Comparison[ImageSettings]):
    """Methods to compare on the same images; see :class:`.Comparison`.

    Attributes:
        allows_own_encoder: whether the user named the encoder, which may be their own code.
    """

    kind = "compare images"
    settings_type = ImageSettings

    allows_own_encoder: bool = False

    def plan(self) -> ImagePlan:
        """The runs to make."""
        kind = OwnEncoderPlan if self.allows_own_encoder else ImagePlan
        shared = self.shared
        known = Result(shared.data, shared.evaluate_on, {}, 0, encoder=shared.encoder)
        return kind(**self.common(), measures=PROBES, result=known)


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
