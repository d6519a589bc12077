"""Encoders of images."""

from __future__ import annotations

import torchvision
from jaxtyping import Float
from torch import Tensor, nn
from torchvision.ops import Conv2dNormActivation

Views = Float[Tensor, "images channels height width"]
"""Images with values around [0, 1], or normalized images."""

RESNETS = torchvision.models.list_models(
    module=torchvision.models, include=["resnet*", "resnext*", "wide_resnet*"]
)
"""Names of torchvision's ResNets."""
SMALL_IMAGE = 64  # pixels of the shorter side up to which a ResNet gets the small stem


class SmallConvEncoder(nn.Module):
    """Encoder with three convolutions and batch normalization, for images of 8 to 32 pixels.

    The blocks have ``width``, ``2 * width`` and ``4 * width`` channels. The first two end with a 2
    x 2 max-pooling, the last with global average pooling. ``stride`` is the stride of the first
    convolution. For images of at least 16 pixels, 2 takes a quarter of the time.
    """

    def __init__(self, channels: int = 1, width: int = 32, stride: int = 1) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *Conv2dNormActivation(channels, width, stride=stride, inplace=False),
            nn.MaxPool2d(2, ceil_mode=True),
            *Conv2dNormActivation(width, 2 * width, inplace=False),
            nn.MaxPool2d(2, ceil_mode=True),
            *Conv2dNormActivation(2 * width, 4 * width, inplace=False),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.feature_dim = 4 * width

    def forward(self, images: Views) -> Float[Tensor, "batch features"]:
        """Compute non-negative features of normalized images."""
        features: Tensor = self.layers(images)
        return features


class ResNetEncoder(nn.Module):
    """ResNet of torchvision without its classifier, with random weights.

    The usual stem, a 7 x 7 convolution of stride 2 and a pooling, reduces each side to a fourth.
    For images of at most 64 pixels, the stem is a 3 x 3 convolution without pooling instead.

    Args:
        name: Name of a ResNet of torchvision, such as "resnet18", "resnext50_32x4d" or
            "wide_resnet50_2".
        channels: Number of channels of the images.
        image_size: Shorter side of the training images in pixels, which determines the stem.
        stride: Stride of the stem for small images. 2 takes about a quarter of the time of 1.

    Example:
        >>> ResNetEncoder("resnet18", channels=3, image_size=32).feature_dim
        512
    """

    def __init__(
        self, name: str, *, channels: int = 3, image_size: int = 32, stride: int = 1
    ) -> None:
        super().__init__()
        if name not in RESNETS:
            raise ValueError(
                f"encoder must be 'small', a ResNet of torchvision such as resnet18 or resnet50, "
                f"or your own as my_module:build, got {name!r}"
            )
        network = torchvision.models.get_model(name, weights=None)
        self.feature_dim = network.fc.in_features
        network.fc = nn.Identity()
        is_small = image_size <= SMALL_IMAGE
        if is_small or channels != 3:
            side, stride = (3, stride) if is_small else (7, 2)
            stem = nn.Conv2d(channels, 64, side, stride, padding=side // 2, bias=False)
            nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
            network.conv1 = stem
        if is_small:
            network.maxpool = nn.Identity()
        self.network = network

    def forward(self, images: Views) -> Float[Tensor, "batch features"]:
        """Compute features of normalized images."""
        features: Tensor = self.network(images)
        return features
