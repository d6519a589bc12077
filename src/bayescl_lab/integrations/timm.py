"""Networks of timm as encoders of images.

Tested with timm 1.0.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from bayescl.axes import Float, Tensor
from bayescl.checks import check_count, missing
from bayescl_lab.images.encoders import feature_dim_of

try:
    import timm
except ImportError as error:
    raise missing("timm", "timm", error) from error


class TimmEncoder(nn.Module):
    """A timm network without its classifier, as an encoder for this package.

    Args:
        name: any of ``timm.list_models()``, such as ``"resnet18"`` or ``"vit_tiny_patch16_224"``.
        pretrained: whether to download pretrained weights; default: random weights.
        channels: channels of the images.
        image_size: height and width of the training images in pixels.
        **options: further arguments of ``timm.create_model``.

    Attributes:
        feature_dim: length of a feature.

    Raises:
        ValueError: if timm has no such network, or the network does not return feature vectors.

    Example:
        >>> TimmEncoder("test_resnet", image_size=32).feature_dim
        96
    """

    def __init__(
        self,
        name: str,
        *,
        pretrained: bool = False,
        channels: int = 3,
        image_size: int = 224,
        **options: Any,
    ) -> None:
        super().__init__()
        check_count("channels", channels, 1)
        check_count("image_size", image_size, 1)
        if not timm.is_model(name):
            raise ValueError(f"name must be a network of timm, such as resnet18, got {name!r}")
        self.network: nn.Module = timm.create_model(
            name, pretrained=pretrained, num_classes=0, in_chans=channels, **options
        )
        self.feature_dim = feature_dim_of(self.network, (channels, image_size, image_size))

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch features"]:
        """Features of normalised images."""
        features: Tensor = self.network(images)
        return features
