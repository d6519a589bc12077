"""Comparisons of methods on images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import Self, Unpack

from bayescl_lab._types import Values
from bayescl_lab.compare.comparison import compared
from bayescl_lab.compare.plan import Plan, with_values
from bayescl_lab.items.probes import PROBES
from bayescl_lab.runs.images.encoder import own_encoder
from bayescl_lab.runs.images.image_run import ImageRun, train_images
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.parallel import Train, TrainOptions
from bayescl_lab.runs.result import Result


def train_with_own_encoder(
    settings: ImageSettings, out: Path, **options: Unpack[TrainOptions]
) -> Result:
    """Train one run with an encoder named by the user, possibly custom code."""
    encoder = own_encoder(settings.encoder, settings.seed)
    return train_images(settings, out, encoder=encoder, **options)


@dataclass(frozen=True)
class ImagePlan(Plan[ImageSettings]):
    """Plan on images."""

    train: Train = train_images

    def prepared(self, out: Path) -> Self:
        """Return the plan; raise ``ValueError`` if images cannot be used or have no labels."""
        del out
        is_own = self.train is train_with_own_encoder
        # Each choice of images is read once.
        chosen = {(one.data, one.classes): one for one in self.methods.values()}
        first = next(iter(chosen.values()))
        tried = [with_values(first, {"evaluate_on": "validation"})] if self.stages else []
        for settings in (*chosen.values(), *tried):
            run = ImageRun(settings, own_encoder(settings.encoder) if is_own else None)
            _ = run.batches  # raises on invalid settings
            if not run.parts.has_labels:
                raise ValueError(f"{settings.data}: a comparison needs labels to evaluate encoders")
        return self


def compare_images(
    methods: Mapping[str, Values],
    shared: ImageSettings,
    *,
    seeds: int,
    tune: int = 0,
    allows_own_encoder: bool = False,
) -> ImagePlan:
    """Return the plan of a comparison on the same images; see :func:`.compared`.

    ``allows_own_encoder`` is True if the user named the encoder, which may then be custom code.
    """
    train = train_with_own_encoder if allows_own_encoder else train_images
    given = compared(methods, shared, seeds=seeds, tune=tune)
    return ImagePlan(**given, train=train, measures=PROBES)
