"""The projection head between the encoder and the loss."""

from __future__ import annotations

from torch import nn

from bayescl.axes import Float, Tensor
from bayescl.checks import check_count


class ProjectionHead(nn.Module):
    """SimCLR's projection head: linear, batch normalisation, ReLU, linear.

    The loss compares its outputs. Probes and users take the encoder's features instead, since the
    head discards information that the loss does not need.

    Args:
        feature_dim: length of a feature.
        hidden_dim: width of the hidden layer.
        embedding_dim: length of an embedding.
    """

    def __init__(self, feature_dim: int, hidden_dim: int = 256, embedding_dim: int = 128) -> None:
        super().__init__()
        check_count("feature_dim", feature_dim, 1)
        check_count("hidden_dim", hidden_dim, 1)
        check_count("embedding_dim", embedding_dim, 1)
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
