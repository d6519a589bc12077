"""Images as one uint8 tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import Tensor

from bayescl_lab._arrays import UNKNOWN_WORDS
from bayescl_lab.items.store import ItemStore, labeled_store

_CHANNELS = (1, 3, 4)  # usual numbers of channels

Pixels = UInt8[Tensor, "images channels height width"]
"""Images with values from 0 to 255."""


def store_from_arrays(
    images: NDArray[np.generic],
    labels: NDArray[np.generic] | None = None,
    *,
    domains: NDArray[np.generic] | None = None,
    name: str = "arrays",
    unknown: Sequence[str] = UNKNOWN_WORDS,
) -> ItemStore:
    """Create an image store from arrays of images and labels, after checking them.

    Args:
        images: ``[images, height, width]``, ``[images, channels, height, width]`` or ``[images,
            height, width, channels]``: the channels are the axis of length 1, 3 or 4, or else the
            smaller of the second and the last axis. Integers from 0 to 255, or floating-point
            numbers from 0 to 1.
        labels: Integer or word per image. They become the names of classes. Default: all unknown.
        domains: Domain of each image, such as its batch or device, in the same form.
        name: Name of the images in tables and messages.
        unknown: Strings that mean unknown; see :func:`~bayescl_lab._arrays.numbered`.

    Example:
        >>> import numpy as np
        >>> store = store_from_arrays(np.zeros((4, 8, 8)), np.array([3, 5, -1, 5]))
        >>> store.item_shape, store.labels.tolist(), store.class_names
        ((1, 8, 8), [0, 1, -1, 1], ('3', '5'))
    """
    images = np.asarray(images)
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim != 4:
        raise ValueError(
            f"{name}: images must have shape [images, height, width], optionally with an axis of "
            f"channels, got {list(images.shape)}"
        )
    elif _has_channels_last(images, name):
        images = images.transpose(0, 3, 1, 2)
    pixels = torch.from_numpy(np.ascontiguousarray(_as_bytes(images, name)))
    return labeled_store(pixels, labels, domains, name=name, unknown=unknown)


def _has_channels_last(images: NDArray[np.generic], name: str) -> bool:
    """Return whether the last axis holds the channels; see :func:`store_from_arrays`."""
    first, last = images.shape[1], images.shape[3]
    usual = (first in _CHANNELS, last in _CHANNELS)
    if usual == (True, True) or (usual == (False, False) and first == last):
        raise ValueError(
            f"{name}: images of shape {list(images.shape)} may have their channels first or last: "
            "such shapes are not supported"
        )
    return usual[1] or (not usual[0] and last < first)


def _as_bytes(images: NDArray[np.generic], name: str) -> NDArray[np.uint8]:
    """Convert pixel values to uint8; raise on other values."""
    if images.dtype == np.uint8 or images.size == 0:
        return images.astype(np.uint8)
    if images.dtype.kind not in "iuf":
        raise ValueError(f"{name}: images must contain numbers, got {images.dtype}")
    bad = int((~np.isfinite(images)).sum())
    if bad:
        raise ValueError(f"{name}: images must be finite, got {bad} NaN or infinite values")
    limit = 1 if images.dtype.kind == "f" else 255
    low, high = images.min(), images.max()
    if low < 0 or high > limit:
        raise ValueError(
            f"{name}: {images.dtype} images must lie in [0, {limit}], got {low} to {high}"
        )
    return np.round(images.astype(np.float64) * (255 // limit)).astype(np.uint8)
