"""The module that a run on images trains, built from its settings."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab._types import Config
from bayescl_lab.images.augmentation import AffineNoise, Normalization
from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation
from bayescl_lab.items.augmentation import Augmentation
from bayescl_lab.items.networks import ProjectionHead, feature_dim_of
from bayescl_lab.items.simclr import SimCLR
from bayescl_lab.items.store import ItemStore
from bayescl_lab.runs.images.encoder import build_encoder
from bayescl_lab.runs.images.image_settings import ImageSettings

AFFINE_STRENGTH, RECIPE_STRENGTH = 0.75, 1.0
"""Default strengths of the augmentations."""
LARGEST_DRAWING = 32
"""Largest side in pixels at which ``auto`` uses affine noise for images of one channel."""


def build_model(
    settings: ImageSettings,
    train: ItemStore,
    *,
    steps_per_epoch: int,
    encoder: nn.Module | None = None,
) -> SimCLR:
    """Build the module of a run for its training images, with weights drawn from its seed.

    A custom ``encoder`` replaces the encoder in the settings.
    """
    with seeded(derived_seed(settings.seed, Purpose.WEIGHTS)):
        if encoder is None:
            encoder = build_encoder(settings, train.item_shape)
        feature_dim = feature_dim_of(encoder, train.item_shape)
        head = ProjectionHead(feature_dim, settings.hidden_dim, settings.embedding_dim)
    options: Config = {"ranks": settings.ranks} if settings.loss.takes_ranks else {}
    if not settings.loss.loss_class.needs_labels:  # SupCon computes its target from labels only
        options["positive_share"] = settings.positive_share
    loss = settings.loss.build(gather=settings.num_processes > 1, **options)
    if settings.channels_last:
        encoder.to(memory_format=torch.channels_last)
    same = ("weight_decay", "channels_last", "seed")
    return SimCLR(
        encoder=encoder,
        projection_head=head,
        loss=loss,
        augmentation=build_augmentation(settings, train.item_shape),
        normalization=Normalization(train),
        embeds_items=settings.teacher == "items" and settings.positive_share < 1,
        learning_rate=settings.lr,
        total_steps=settings.epochs * steps_per_epoch,
        **{name: getattr(settings, name) for name in same},
    )


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
