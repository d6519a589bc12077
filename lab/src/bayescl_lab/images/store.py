"""Images with labels in one uint8 tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Int, UInt8
from numpy.typing import NDArray
from torch import Tensor

from bayescl_lab._arrays import UNKNOWN_WORDS, numbered

UNLABELED = -1  # the label of an image of unknown class
_CHANNELS = (1, 3, 4)  # usual numbers of channels
_LAYOUTS = ("channels-first", "channels-last")

Pixels = UInt8[Tensor, "images channels height width"]
"""Images with values from 0 to 255."""


@dataclass(frozen=True)
class ImageStore:
    """Images in one uint8 tensor. A batch is selected by one indexing operation.

    The tensor may be a memory-mapped file. A store may have only some rows of the tensor, so
    subsets do not copy pixels.
    """

    pixels: Pixels
    labels: Int[Tensor, " images"]  # counted from 0; -1 where unknown
    class_names: tuple[str, ...]
    name: str = "images"  # in tables and messages
    rows: Int[Tensor, " images"] | None = None  # rows of pixels that are the images; None for all
    ids: NDArray[np.str_] | None = None  # in the data set: files in a folder, or numbers
    domains: Int[Tensor, " images"] | None = None  # -1 if unknown; None if all are unknown
    domain_names: tuple[str, ...] = ()
    values: tuple[int, int] | None = None  # black and white in files of 16 bits, if there are any

    def __post_init__(self) -> None:
        count = len(self)
        if self.pixels.shape.numel() == 0 or count == 0:
            raise ValueError(f"{self.name}: there are no images")
        if self.labels.shape != (count,):
            raise ValueError(
                f"{self.name}: there must be one label per image, "
                f"got {count} images and labels of shape {list(self.labels.shape)}"
            )

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.pixels if self.rows is None else self.rows)

    @property
    def images(self) -> Pixels:
        """All images. A copy if the store has only some rows of the tensor."""
        return self.pixels if self.rows is None else self.pixels[self.rows]

    @property
    def num_classes(self) -> int:
        """Number of classes, including classes without images."""
        return len(self.class_names)

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of every image."""
        _, channels, height, width = self.pixels.shape
        return channels, height, width

    @property
    def device(self) -> torch.device:
        """Device of pixels and labels."""
        return self.labels.device

    def take(self, rows: Int[Tensor, " rows"]) -> Pixels:
        """Return the images of some rows as a new tensor.

        Rows on the device of the store are used without a copy.
        """
        return self.pixels[rows if self.rows is None else self.rows[rows]]

    def to(self, device: torch.device | str) -> ImageStore:
        """Copy the images to another device."""
        if torch.device(device) == self.device:
            return self
        domains = None if self.domains is None else self.domains.to(device)
        pixels, labels = self.images.to(device), self.labels.to(device)
        return replace(self, pixels=pixels, labels=labels, domains=domains, rows=None)

    def subset(self, rows: Tensor) -> ImageStore:
        """Return the images of some rows, in this order, or of a mask. Pixels are shared."""
        rows = (rows.nonzero().squeeze(1) if rows.dtype == torch.bool else rows).cpu()
        ids = None if self.ids is None else self.ids[rows.numpy()]
        domains = None if self.domains is None else self.domains[rows]
        labels, own = self.labels[rows], rows if self.rows is None else self.rows[rows]
        return replace(self, labels=labels, rows=own, ids=ids, domains=domains)

    def labeled(self) -> ImageStore:
        """Return the images with a known class; raise ``ValueError`` if there are none."""
        known = self.labels != UNLABELED
        if not known.any():
            raise ValueError(f"{self.name}: the images have no labels")
        return self if known.all() else self.subset(known)


def copied_to(values: Tensor, device: torch.device) -> Tensor:
    """Copy values from the CPU to a device, through pinned memory for a GPU.

    The copy is asynchronous.
    """
    if device.type == "cuda" and torch.cuda.is_available():
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def store_from_arrays(
    images: NDArray[np.generic],
    labels: NDArray[np.generic] | None = None,
    *,
    domains: NDArray[np.generic] | None = None,
    name: str = "arrays",
    layout: str | None = None,
    unknown: Sequence[str] = UNKNOWN_WORDS,
) -> ImageStore:
    """Create an image store from arrays of images and labels, after checking them.

    Args:
        images: ``[images, height, width]``, ``[images, channels, height, width]`` or ``[images,
            height, width, channels]``. Integers from 0 to 255, or floating-point numbers from 0
            to 1.
        labels: Integer or word per image. They become the names of classes. Default: all unknown.
        domains: Domain of each image, such as its batch or device, in the same form.
        name: Name of the images in tables and messages.
        layout: "channels-first" or "channels-last". Default: the channels are the axis of 1, 3 or
            4, or else the smaller one of the second and the last axis.
        unknown: Words that mean unknown; see :func:`~bayescl_lab._arrays.numbered`.

    Example:
        >>> import numpy as np
        >>> store = store_from_arrays(np.zeros((4, 8, 8)), np.array([3, 5, -1, 5]))
        >>> store.image_shape, store.labels.tolist(), store.class_names
        ((1, 8, 8), [0, 1, -1, 1], ('3', '5'))
    """
    images = np.asarray(images)
    if images.ndim == 3:
        images = images[:, None]
    elif images.ndim != 4:
        raise ValueError(
            f"{name}: images must have shape [images, height, width] or "
            f"[images, channels, height, width], got {list(images.shape)}"
        )
    elif _has_channels_last(images, name, layout):
        images = images.transpose(0, 3, 1, 2)
    pixels = torch.from_numpy(np.ascontiguousarray(_as_bytes(images, name)))
    return labeled_store(pixels, labels, domains, name=name, unknown=unknown)


def _has_channels_last(images: NDArray[np.generic], name: str, layout: str | None) -> bool:
    """Return whether the last axis holds the channels; see :func:`store_from_arrays`."""
    if layout is not None:
        if layout not in _LAYOUTS:
            raise ValueError(f"{name}: layout must be one of {', '.join(_LAYOUTS)}, got {layout!r}")
        return layout == _LAYOUTS[1]
    first, last = images.shape[1], images.shape[3]
    usual = (first in _CHANNELS, last in _CHANNELS)
    if usual == (True, True) or (usual == (False, False) and first == last):
        raise ValueError(
            f"{name}: images of shape {list(images.shape)} may have their channels first or last: "
            f"add an array 'layout', which holds {' or '.join(map(repr, _LAYOUTS))}"
        )
    return usual[1] or (not usual[0] and last < first)


def labeled_store(
    pixels: Pixels,
    labels: NDArray[np.generic] | None,
    domains: NDArray[np.generic] | None,
    *,
    name: str,
    rows: Int[Tensor, " images"] | None = None,
    ids: NDArray[np.str_] | None = None,
    values: tuple[int, int] | None = None,
    unknown: Sequence[str] = UNKNOWN_WORDS,
) -> ImageStore:
    """Create an image store with numbered labels and domains; see :func:`store_from_arrays`."""
    count = len(pixels if rows is None else rows)
    numbers = []
    for what, given in (("labels", labels), ("domains", domains)):
        named = np.full(count, "") if given is None else np.asarray(given)
        if named.shape != (count,):
            raise ValueError(
                f"{name}: {what} must hold one value per image, "
                f"got {count} images and {what} of shape {list(named.shape)}"
            )
        try:
            codes, names = numbered(named, ("", *unknown))
        except ValueError as error:
            raise ValueError(f"{name}: {what} {error}") from None
        numbers.append((torch.from_numpy(codes), names))
    (label_codes, class_names), (places, domain_names) = numbers
    return ImageStore(
        pixels,
        label_codes,
        class_names,
        name,
        rows,
        np.arange(count).astype(str) if ids is None else ids,
        places if domain_names else None,
        domain_names,
        values,
    )


def _as_bytes(images: NDArray[np.generic], name: str) -> NDArray[np.uint8]:
    """Convert pixel values to uint8; raise on other values."""
    if images.dtype == np.uint8 or images.size == 0:
        return images.astype(np.uint8)
    if images.dtype.kind not in "iuf":
        raise ValueError(f"{name}: images must hold numbers, got {images.dtype}")
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
