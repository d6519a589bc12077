"""Encoders of rows of numbers and of signals."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn


class MLPEncoder(nn.Module):
    """Encoder of rows: two linear layers with batch normalization and ReLU.

    Args:
        inputs: Number of features of a row.
        width: Number of units of the hidden layer.

    Example:
        >>> MLPEncoder(40)(torch.zeros(2, 40)).shape
        torch.Size([2, 128])
    """

    feature_dim = 128

    def __init__(self, inputs: int, width: int = 256) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(inputs, width, bias=False),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, self.feature_dim, bias=False),
            nn.BatchNorm1d(self.feature_dim),
            nn.ReLU(),
        )

    def forward(self, rows: Float[Tensor, "batch inputs"]) -> Float[Tensor, "batch features"]:
        """Compute non-negative features of standardized rows."""
        features: Tensor = self.layers(rows)
        return features


class Conv1dEncoder(nn.Module):
    """Encoder of signals: three convolutions of stride 2 with batch normalization and ReLU.

    The convolutions have ``width``, ``2 * width`` and ``4 * width`` channels, and global average
    pooling follows. Windows may have any length.

    Example:
        >>> Conv1dEncoder(6)(torch.zeros(2, 6, 150)).shape
        torch.Size([2, 128])
    """

    def __init__(self, channels: int, width: int = 32) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for outputs, kernel in ((width, 7), (2 * width, 5), (4 * width, 3)):
            convolution = nn.Conv1d(channels, outputs, kernel, 2, kernel // 2, bias=False)
            layers += [convolution, nn.BatchNorm1d(outputs), nn.ReLU()]
            channels = outputs
        self.layers = nn.Sequential(*layers, nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.feature_dim = 4 * width

    def forward(
        self, signals: Float[Tensor, "batch channels length"]
    ) -> Float[Tensor, "batch features"]:
        """Compute non-negative features of standardized signals."""
        features: Tensor = self.layers(signals)
        return features
