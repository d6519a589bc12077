"""The projection head, and the width of an encoder."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn


@torch.no_grad()
def feature_dim_of(encoder: nn.Module, item_shape: Sequence[int]) -> int:
    """Return the ``feature_dim`` of an encoder, or find it by encoding two items."""
    own = getattr(encoder, "feature_dim", None)
    if own is not None:
        return int(own)
    training = encoder.training
    parameter = next(encoder.parameters(), torch.empty(()))
    features = encoder.eval()(torch.zeros(2, *item_shape, device=parameter.device))
    encoder.train(training)
    if not isinstance(features, Tensor) or features.ndim != 2 or len(features) != 2:
        got = list(features.shape) if isinstance(features, Tensor) else type(features)
        raise ValueError(f"encoder must map 2 items to shape [2, features], got {got}")
    return features.shape[1]


class ProjectionHead(nn.Module):
    """SimCLR's projection head: linear, batch normalization, ReLU, linear.

    The loss compares its outputs. For other uses take the encoder's features, because the head
    discards information that the loss does not need.
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
        """Compute embeddings of features. The loss normalizes them."""
        embeddings: Tensor = self.layers(features)
        return embeddings
