"""The encoder that a run on images trains, from its settings."""

from __future__ import annotations

from torch import nn

from bayescl.runs.images.settings import ImageSettings
from bayescl.vision.encoders import SmallConvEncoder
from bayescl.vision.torchvision_encoders import TorchvisionEncoder


def build_encoder(settings: ImageSettings, image_shape: tuple[int, int, int]) -> nn.Module:
    """The encoder that the settings name, for images of that many channels and pixels."""
    channels, *sides = image_shape
    if settings.encoder == "small":
        return SmallConvEncoder(channels, settings.width, settings.stride)
    size = min(sides) if settings.view_size is None else settings.view_size
    return TorchvisionEncoder(settings.encoder, channels=channels, image_size=size)
