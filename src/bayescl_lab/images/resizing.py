"""Resize stored images."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch.nn import functional as F

from bayescl.checks import check_count
from bayescl_lab.images.store import ImageStore

_VALUES_AT_ONCE = 1 << 24


def with_image_size(store: ImageStore, image_size: int) -> ImageStore:
    """Scale images to fit their shorter side, and crop the centre.

    Args:
        store: the images.
        image_size: pixels along both sides of the new images, at least 1.

    Returns:
        The images in the new size; the same store if they already have it.

    Example:
        >>> images = torch.zeros(2, 3, 48, 32, dtype=torch.uint8)
        >>> with_image_size(ImageStore(images, torch.tensor([0, 1]), ("a", "b")), 16).image_shape
        (3, 16, 16)
    """
    check_count("image_size", image_size, 1)
    channels, height, width = store.image_shape
    if (height, width) == (image_size, image_size):
        return store
    pixels = torch.empty(
        len(store), channels, image_size, image_size, dtype=torch.uint8, device=store.device
    )
    shorter = min(height, width)
    scaled_size = [round(side * image_size / shorter) for side in (height, width)]
    top, left = ((side - image_size) // 2 for side in scaled_size)
    at_once = max(1, _VALUES_AT_ONCE // (channels * height * width))
    for rows in torch.arange(len(store), device=store.device).split(at_once):
        scaled = F.interpolate(
            store.take(rows).float(), scaled_size, mode="bicubic", antialias=True
        )
        middle = scaled[:, :, top : top + image_size, left : left + image_size]
        pixels[rows] = middle.round().clamp(0, 255).byte()
    return replace(store, pixels=pixels, rows=None)
