"""Networks that turn images into features."""

from __future__ import annotations

from torch import nn

from bayescl.axes import Float, Tensor
from bayescl.checks import check_count


class SmallConvEncoder(nn.Module):
    """Three convolutions with batch normalisation, for images of 8 to 32 pixels.

    A 2 x 2 max-pooling follows each of the first two blocks; the last block is averaged over
    the image.

    Args:
        channels: channels of the images.
        width: channels of the first block; the later ones have twice and four times as many.
        stride: stride of the first convolution; 2 costs a quarter, for images of 16 pixels or more.

    Attributes:
        feature_dim: length of a feature, ``4 * width``.
    """

    def __init__(self, channels: int = 1, width: int = 32, stride: int = 1) -> None:
        super().__init__()
        check_count("channels", channels, 1)
        check_count("width", width, 1)
        check_count("stride", stride, 1)
        self.layers = nn.Sequential(
            *_block(channels, width, stride),
            nn.MaxPool2d(2, ceil_mode=True),
            *_block(width, 2 * width),
            nn.MaxPool2d(2, ceil_mode=True),
            *_block(2 * width, 4 * width),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.feature_dim = 4 * width

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch features"]:
        """Features of normalised images, each at least 0."""
        features: Tensor = self.layers(images)
        return features


def _block(inputs: int, outputs: int, stride: int = 1) -> tuple[nn.Module, ...]:
    """A 3 x 3 convolution that keeps the size or divides it, normalised and rectified."""
    return (
        nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )
