"""One run on images: train, resume, evaluate."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bayescl_lab._types import Config
from bayescl_lab.images.augmentation import AffineNoise, Normalization
from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation
from bayescl_lab.images.datasets import known_data_sets, load_images
from bayescl_lab.items.augmentation import Augmentation
from bayescl_lab.items.parts import Parts
from bayescl_lab.items.simclr import SimCLR
from bayescl_lab.runs.captured import CapturedStep
from bayescl_lab.runs.encoder_run import EncoderRun
from bayescl_lab.runs.folder import Kind, RunFolder
from bayescl_lab.runs.images.encoder import build_encoder
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.loop import Journal

_logger = logging.getLogger(__name__)

AFFINE_STRENGTH, RECIPE_STRENGTH = 0.75, 1.0
"""Default strengths of the augmentations."""
LARGEST_DRAWING = 32
"""Largest side in pixels at which ``auto`` uses affine noise for images of one channel."""


class ImageRun(EncoderRun[ImageSettings]):
    """A run on images; see :class:`EncoderRun`."""

    kind = Kind.IMAGES
    settings_type = ImageSettings
    source_of_domains = (
        "give a column of a table (--domain-column), folders (--folders domains), or an array "
        "'domains' in an .npz file"
    )

    def load_parts(self, item_shape: tuple[int, ...] | None, *, split: bool) -> Parts:
        """Load the images of the run, or other images of the same shape."""
        choice = self.settings.choice_of_images()
        if item_shape is not None:
            choice |= _choice_of_other_images(self.data, item_shape, split=split)
        return load_images(self.data, **choice)

    def build_model(self, encoder: nn.Module | None) -> SimCLR:
        """Build the module for the training images."""
        settings, train = self.settings, self.parts.train

        shape = train.item_shape
        model = self.simclr(
            lambda: build_encoder(settings, shape) if encoder is None else encoder,
            build_augmentation(settings, shape),
            Normalization(train),
            channels_last=settings.channels_last,
        )
        if settings.channels_last:
            model.encoder.to(memory_format=torch.channels_last)
        return model

    def is_published(self) -> bool:
        """Return whether the images are a published data set."""
        return self.data in known_data_sets()

    def fit(self, folder: RunFolder, **options: Any) -> Journal:
        """Train, with the step as one CUDA graph if the settings ask for it."""
        if self.settings.captured:
            self.model.captured = self._captured_step()
        try:
            return super().fit(folder, precision=self.settings.precision, **options)
        finally:
            self.model.captured = None  # the model is moved off its GPU

    def _captured_step(self) -> CapturedStep | None:
        """Return the step as a CUDA graph; ``None`` with a warning if it is not possible."""
        settings, augmentation = self.settings, self.model.augmentation
        is_one_gpu = self.device.type == "cuda" and settings.num_processes == 1
        is_own = ":" in settings.encoder
        if is_one_gpu and not is_own and isinstance(augmentation, SimCLRAugmentation):
            return CapturedStep(self.model)
        _logger.warning(
            "captured has no effect: it needs one GPU, the simclr augmentation, and a network that "
            "is not custom"
        )
        return None


def build_augmentation(settings: ImageSettings, image_shape: Sequence[int]) -> Augmentation:
    """Build the augmentation of a run for images of a given shape."""
    channels, *sides = image_shape
    kind = settings.augmentation
    if kind == "auto":
        kind = "affine" if channels == 1 and max(sides) <= LARGEST_DRAWING else "simclr"
    strength = AFFINE_STRENGTH if kind == "affine" else RECIPE_STRENGTH
    strength = strength if settings.strength is None else settings.strength
    if kind == "simclr":
        return SimCLRAugmentation(strength, settings.view_size)
    if settings.view_size is not None:
        raise ValueError("view_size is only for the simclr augmentation, not for affine noise")
    return AffineNoise(strength)


def _choice_of_other_images(data: str, item_shape: Sequence[int], *, split: bool) -> Config:
    """Return how to load other images in the shape of the run's images."""
    _, height, width = item_shape
    choice: Config = {"table": None, "image_size": None}
    if Path(data).is_dir():
        choice["image_size"] = height if height == width else None
    if split:
        return choice
    return {
        **choice,
        **dict.fromkeys(("classes", "max_train_images", "labels_per_class")),
        "evaluate_on": "test",
        "split": False,
    }


train_images = ImageRun.train
"""Train an encoder on images; see :meth:`.TrainedRun.train`."""
