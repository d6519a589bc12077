"""Features of the frozen encoder."""

from __future__ import annotations

import torch
from torch import nn

from bayescl.axes import Float, Tensor
from bayescl.checks import check_count
from bayescl.diagnostics import in_eval_mode
from bayescl_lab.images.store import ImageStore

LARGEST_BATCH = 1024
PIXELS_AT_ONCE = LARGEST_BATCH * 32 * 32
"""Pixels per forward call; the memory of feature maps grows with them."""


@torch.no_grad()
def extract_features(
    model: nn.Module, store: ImageStore, *, batch_size: int | None = None
) -> Float[Tensor, "images features"]:
    """Features of every image, from the model in ``eval()`` mode and without augmentation.

    Args:
        model: maps uint8 images to features, as :class:`~bayescl_lab.images.simclr.SimCLR` does.
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
