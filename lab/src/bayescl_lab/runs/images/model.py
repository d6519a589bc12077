"""The augmentation of a run on images, built from its settings."""

from __future__ import annotations

from collections.abc import Sequence

from bayescl_lab.images.augmentation import AffineNoise
from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation
from bayescl_lab.items.augmentation import Augmentation
from bayescl_lab.runs.images.image_settings import ImageSettings

AFFINE_STRENGTH, RECIPE_STRENGTH = 0.75, 1.0
"""Default strengths of the augmentations."""
LARGEST_DRAWING = 32
"""Largest side in pixels at which ``auto`` uses affine noise for images of one channel."""


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
