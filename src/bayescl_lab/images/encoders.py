"""Networks that turn images into features, and features into embeddings."""

from __future__ import annotations

from typing import Any

import torch
import torchvision
from torch import nn
from torchvision.models.resnet import ResNet
from torchvision.ops import Conv2dNormActivation

from bayescl.axes import Float, Tensor

Views = Float[Tensor, "images channels height width"]
"""Images with values around [0, 1], or normalised."""

SMALL_IMAGE = 64  # pixels of the shorter side up to which a ResNet gets the small stem

_WITHOUT_SIDE_OUTPUTS = {
    name: {"aux_logits": False, "init_weights": False} for name in ("googlenet", "inception_v3")
}


class SmallConvEncoder(nn.Module):
    """Three convolutions with batch normalisation, for images of 8 to 32 pixels.

    The blocks have ``width`` channels, twice and four times as many. A 2 x 2 max-pooling follows
    each of the first two; the last is averaged over the image. ``stride`` is that of the first
    convolution; 2 costs a quarter, for images of 16 pixels or more.
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
        """Features of normalised images, each at least 0."""
        features: Tensor = self.layers(images)
        return features


class TorchvisionEncoder(nn.Module):
    """A torchvision classification network that returns features.

    The classifier, its last linear layer, is removed; the features are that layer's input. The
    weights are random, not pretrained.

    A ResNet begins with a 7 by 7 convolution of stride 2 and a pooling, which reduce each side to a
    fourth. For images of at most 64 pixels, the stem is a 3 by 3 convolution of stride 1 without
    pooling instead.

    Args:
        name: of any network of torchvision that ends in a linear layer, such as "resnet18".
        channels: channels of the images.
        image_size: pixels along the shorter side of the training images; decides the stem.

    Example:
        >>> TorchvisionEncoder("resnet18", channels=3, image_size=32).feature_dim
        512
    """

    def __init__(self, name: str, *, channels: int = 3, image_size: int = 32) -> None:
        super().__init__()
        if name not in torchvision.models.list_models(module=torchvision.models):
            raise ValueError(
                f"encoder must be small or a network of torchvision, such as resnet18, resnet34 "
                f"or resnet50, got {name!r}"
            )
        network = torchvision.models.get_model(
            name, weights=None, **_WITHOUT_SIDE_OUTPUTS.get(name, {})
        )
        _take_out_classifier(network, name)
        if isinstance(network, ResNet) and image_size <= SMALL_IMAGE:
            network.conv1 = nn.Conv2d(channels, 64, kernel_size=3, padding=1, bias=False)
            nn.init.kaiming_normal_(network.conv1.weight, mode="fan_out", nonlinearity="relu")
            network.maxpool = nn.Identity()
        elif channels != 3:
            _replace_first_convolution(network, channels)
        self.network = network
        try:
            self.feature_dim = feature_dim_of(network, (channels, image_size, image_size))
        except (RuntimeError, ValueError, AssertionError):
            raise ValueError(
                f"the encoder {name} does not support images of {image_size} pixels: choose "
                "another image_size or encoder"
            ) from None

    def forward(self, images: Views) -> Float[Tensor, "batch features"]:
        """Features of normalised images."""
        features: Tensor = self.network(images)
        return features


def _take_out_classifier(network: nn.Module, name: str) -> None:
    """Remove the last linear layer."""
    linear = [path for path, module in network.named_modules() if isinstance(module, nn.Linear)]
    head = list(network.named_children())[-1][0]
    if not linear or linear[-1].partition(".")[0] != head:
        raise ValueError(f"encoder must end in a linear classifier, but {name} does not")
    network.set_submodule(linear[-1], nn.Identity())


def _replace_first_convolution(network: nn.Module, channels: int) -> None:
    """Adapt a network to another number of channels."""
    path, first = next(
        (path, module) for path, module in network.named_modules() if isinstance(module, nn.Conv2d)
    )
    form: Any = {name: getattr(first, name) for name in ("kernel_size", "stride", "padding")}
    bias = first.bias is not None
    network.set_submodule(path, nn.Conv2d(channels, first.out_channels, bias=bias, **form))


@torch.no_grad()
def feature_dim_of(encoder: nn.Module, image_shape: tuple[int, int, int]) -> int:
    """The feature length of any encoder: its ``feature_dim``, or found with two images."""
    own = getattr(encoder, "feature_dim", None)
    if own is not None:
        return int(own)
    training = encoder.training
    parameter = next(encoder.parameters(), torch.empty(()))
    features = encoder.eval()(torch.zeros(2, *image_shape, device=parameter.device))
    encoder.train(training)
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 2:
        got = list(features.shape) if isinstance(features, Tensor) else type(features)
        raise ValueError(f"encoder must turn 2 images into [2, features], got {got}")
    return features.shape[1]


class ProjectionHead(nn.Module):
    """SimCLR's projection head: linear, batch normalisation, ReLU, linear.

    The loss compares its outputs. Probes and users take the encoder's features instead, since the
    head discards information that the loss does not need.
    """

    def __init__(self, feature_dim: int, hidden_dim: int = 256, embedding_dim: int = 128) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(feature_dim, hidden_dim, bias=False),
            nn.BatchNorm1d(hidden_dim),
            nn.ReLU(),
            nn.Linear(hidden_dim, embedding_dim),
        )

    def forward(self, features: Float[Tensor, "batch features"]) -> Float[Tensor, "batch dim"]:
        """Embeddings of features; the loss normalises them."""
        embeddings: Tensor = self.layers(features)
        return embeddings
