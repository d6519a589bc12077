"""Comparisons of methods on images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from typing_extensions import Unpack

from bayescl_lab._types import Values
from bayescl_lab.compare.comparison import compared
from bayescl_lab.compare.encoders import EncoderPlan
from bayescl_lab.items.probes import MEASURES
from bayescl_lab.runs.images.image_run import ImageRun, train_images
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.own_code import own_encoder
from bayescl_lab.runs.parallel import Train, TrainOptions
from bayescl_lab.runs.result import Result


def train_with_own_encoder(
    settings: ImageSettings, out: Path, **options: Unpack[TrainOptions]
) -> Result:
    """Train one run with an encoder named by the user, possibly custom code."""
    encoder = own_encoder(settings.encoder, settings.seed)
    return train_images(settings, out, encoder=encoder, **options)


@dataclass(frozen=True)
class ImagePlan(EncoderPlan[ImageSettings]):
    """Plan on images."""

    train: Train = train_images

    def open_run(self, settings: ImageSettings) -> ImageRun:
        """Open a run with its images."""
        is_own = self.train is train_with_own_encoder
        return ImageRun(settings, own_encoder(settings.encoder) if is_own else None)


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
    return ImagePlan(**given, train=train, measures=MEASURES)
