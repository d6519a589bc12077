"""The encoder of a run on images: built from its settings, or loaded with its preparation.

This module does not import Lightning.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, UInt8
from numpy.typing import NDArray
from torch import Tensor, nn

from bayescl_lab._fields import Count, checked
from bayescl_lab.images.encoders import ResNetEncoder, SmallConvEncoder
from bayescl_lab.images.pixels import store_from_arrays
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.item_record import ItemRecord
from bayescl_lab.runs.weights import part_of_state, read_weights


def build_encoder(settings: ImageSettings, image_shape: Sequence[int]) -> nn.Module:
    """Build the encoder named by the settings for images of a given shape.

    A custom encoder is built only if the user names it; see :mod:`bayescl_lab.runs.own_code`.
    """
    channels, *sides = image_shape
    name = settings.encoder
    if name == "small":
        return SmallConvEncoder(channels, settings.width, settings.stride)
    size = min(sides) if settings.view_size is None else settings.view_size
    if ":" in name:
        raise ValueError(
            f"the run uses its own encoder: name it again with --encoder {name}, or pass encoder= "
            "in Python"
        )
    return ResNetEncoder(name, channels=channels, image_size=size, stride=settings.stride)


class PreparedEncoder(nn.Module):
    """Map raw images to features: division by 255, normalization, and the ``encoder``."""

    input_dtype = torch.uint8

    mean: Float[Tensor, "1 channels 1 1"]
    deviation: Float[Tensor, "1 channels 1 1"]

    def __init__(
        self, encoder: nn.Module, mean: Tensor, deviation: Tensor, item_shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.item_shape = item_shape

    def forward(
        self, images: UInt8[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch features"]:
        """Compute features of images with values from 0 to 255."""
        features: Tensor = self.encoder((images.float() / 255 - self.mean) / self.deviation)
        return features

    @torch.no_grad()
    def embed(
        self, images: Tensor | NDArray[np.generic], *, batch_size: int = 256
    ) -> Float[Tensor, "images features"]:
        """Compute features of images, prepared as in training.

        Args:
            images: ``[images, channels, height, width]`` or, with one channel,
                ``[images, height, width]``. Integers from 0 to 255, or floating-point numbers from
                0 to 1.
            batch_size: Number of images per forward call.

        Returns:
            One feature per image, float32.

        Raises:
            ValueError: if the images have the wrong shape or values.
        """
        checked("batch_size", batch_size, Count)
        array = images.detach().cpu().numpy() if isinstance(images, Tensor) else images
        store = store_from_arrays(array, np.zeros(len(array), dtype=np.int64), name="images")
        if store.item_shape != self.item_shape:
            raise ValueError(
                f"images must have shape {list(self.item_shape)} each, as in training, "
                f"got {list(store.item_shape)}"
            )
        chunks = torch.arange(len(store)).split(batch_size)
        return torch.cat([self(store.take(rows)).float() for rows in chunks])


def load_encoder(folder: RunFolder, encoder: nn.Module | None = None) -> PreparedEncoder:
    """Load the encoder of a run on images to the CPU, in ``eval()`` mode.

    Raises:
        ValueError: if there is no checkpoint yet, or the weights belong to another network.
    """
    record = ItemRecord.read(folder)
    channels, height, width = map(int, record.preparation["item_shape"])
    state = read_weights(folder)
    if encoder is None:
        settings = ImageSettings.from_config({**folder.config(), "device": "cpu"})
        encoder = build_encoder(settings, (channels, height, width))
    try:
        encoder.load_state_dict(part_of_state(state, "encoder"))
        mean, deviation = state["normalization.mean"], state["normalization.deviation"]
    except (RuntimeError, KeyError):
        raise ValueError(
            f"the weights of {folder.path} do not match the encoder in its settings"
        ) from None
    return PreparedEncoder(encoder, mean, deviation, (channels, height, width)).eval()
