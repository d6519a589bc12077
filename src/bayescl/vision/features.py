"""Features of the frozen encoder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from bayescl._axes import Float, Tensor
from bayescl._checks import check_count
from bayescl.vision.store import ImageStore

LARGEST_BATCH = 1024
PIXELS_AT_ONCE = LARGEST_BATCH * 32 * 32
"""Pixels per forward call; the memory of feature maps grows with them."""


@torch.no_grad()
def extract_features(
    model: nn.Module, store: ImageStore, *, batch_size: int | None = None
) -> Float[Tensor, "images features"]:
    """Features of every image, from the model in ``eval()`` mode and without augmentation.

    Args:
        model: maps uint8 images to features, as :class:`~bayescl.vision.simclr.SimCLR` does.
            Its mode is restored afterwards.
        store: the images, on the model's device.
        batch_size: images per forward call; affects the result only by rounding. Default: 1024, or
            fewer where images have more than 32 x 32 pixels: as many pixels as 1024 such images.

    Returns:
        One feature per image, in float32, on the store's device.
    """
    if batch_size is None:
        _, height, width = store.image_shape
        batch_size = min(LARGEST_BATCH, max(1, PIXELS_AT_ONCE // (height * width)))
    check_count("batch_size", batch_size, 1)
    with in_eval_mode(model):
        chunks = torch.arange(len(store)).split(batch_size)
        features = [model(images).float() for images in store.in_batches(chunks, batch_size)]
    return torch.cat(features)


@contextmanager
def in_eval_mode(model: nn.Module) -> Iterator[None]:
    """Put every part of a model into ``eval()`` mode, and restore the modes afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
