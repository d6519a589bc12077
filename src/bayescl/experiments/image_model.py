"""The module that a run on images trains, from its settings."""

from __future__ import annotations

from torch import nn

from bayescl._randomness import Purpose, derived_seed, seeded
from bayescl.experiments.image_settings import ImageSettings
from bayescl.vision.augmentation import AffineNoise, Normalization
from bayescl.vision.augmentation_recipe import SimCLRAugmentation
from bayescl.vision.encoders import SmallConvEncoder
from bayescl.vision.heads import ProjectionHead
from bayescl.vision.simclr import SimCLR
from bayescl.vision.store import ImageStore

AFFINE_STRENGTH, RECIPE_STRENGTH = 0.75, 1.0
"""Strengths of views where none is given."""
LARGEST_DRAWING = 32
"""Pixels along the longer side of what ``auto`` takes for a drawing."""


def build_model(settings: ImageSettings, train: ImageStore, *, steps_per_epoch: int) -> SimCLR:
    """Build the module of a run, with weights drawn from its seed.

    Args:
        settings: the settings of the run.
        train: the images to train on, for their shape and their mean and deviation.
        steps_per_epoch: batches in an epoch, which the learning rate follows.
    """
    with seeded(derived_seed(settings.seed, Purpose.WEIGHTS)):
        encoder = SmallConvEncoder(train.image_shape[0], settings.width, settings.stride)
        head = ProjectionHead(encoder.feature_dim, settings.hidden_dim, settings.embedding_dim)
    return SimCLR(
        encoder=encoder,
        projection_head=head,
        loss=settings.loss.build(),
        augmentation=build_augmentation(settings, train.image_shape),
        normalization=Normalization(train.images),
        learning_rate=settings.lr,
        weight_decay=settings.weight_decay,
        total_steps=settings.epochs * steps_per_epoch,
        seed=settings.seed,
    )


def build_augmentation(settings: ImageSettings, image_shape: tuple[int, int, int]) -> nn.Module:
    """The views of a run, for images of that many channels and pixels."""
    channels, *sides = image_shape
    kind = settings.augmentation
    if kind == "auto":
        kind = "affine" if channels == 1 and max(sides) <= LARGEST_DRAWING else "simclr"
    if kind == "affine":
        if settings.view_size is not None:
            raise ValueError("view_size belongs to the simclr augmentation, not to affine noise")
        return AffineNoise(AFFINE_STRENGTH if settings.strength is None else settings.strength)
    strength = RECIPE_STRENGTH if settings.strength is None else settings.strength
    return SimCLRAugmentation(strength, settings.view_size)
