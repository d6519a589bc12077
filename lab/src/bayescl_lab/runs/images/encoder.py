"""The encoder of a run on images: built from its settings, or loaded with its preparation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from bayescl_lab.images.encoders import ResNetEncoder, SmallConvEncoder
from bayescl_lab.images.pixels import store_from_arrays
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.served_encoder import ServedEncoder, refuse_own_encoder


def build_encoder(settings: ImageSettings, image_shape: Sequence[int]) -> nn.Module:
    """Build the encoder named by the settings for images of a given shape."""
    channels, *sides = image_shape
    name = settings.encoder
    if name == "small":
        return SmallConvEncoder(channels, settings.width, settings.stride)
    refuse_own_encoder(name)
    size = min(sides) if settings.view_size is None else settings.view_size
    return ResNetEncoder(name, channels=channels, image_size=size, stride=settings.stride)


class PreparedEncoder(ServedEncoder):
    """Map raw images to features: division by 255, normalization, and the ``encoder``."""

    settings_type = ImageSettings
    build = staticmethod(build_encoder)
    input_dtype = torch.uint8
    scaling = "normalization"

    def checked_items(self, items: ArrayLike | Tensor) -> Tensor:
        """Convert images to bytes; raise ``ValueError`` on values out of range."""
        array = items.detach().cpu().numpy() if isinstance(items, Tensor) else np.asarray(items)
        return store_from_arrays(array, name="images").items

    def prepared(self, items: Tensor) -> Tensor:
        """Normalize images with values from 0 to 255."""
        return (items.float() / 255 - self.mean) / self.deviation
