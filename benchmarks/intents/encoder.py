"""A small encoder of questions, trained from scratch."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from intents.questions import Bags, Questions


class BagEncoder(nn.Module):
    """The mean of a question's feature vectors, through one hidden layer.

    Args:
        num_features: size of the vocabulary.
        width: length of a feature vector and of the hidden layer.
        dim: length of an embedding.
        deviation: of a feature vector's initial entries. At 1, torch's default, twelve epochs
            hardly move the vectors of rare features, and questions are compared by random ones.
    """

    def __init__(
        self, num_features: int, *, width: int = 128, dim: int = 128, deviation: float = 0.05
    ) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(num_features, width, mode="mean")
        nn.init.normal_(self.bag.weight, std=deviation)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, dim))

    def forward(self, bags: Bags) -> Tensor:
        """Embeddings ``[questions, dim]``, not normalised: losses and retrieval do that."""
        return self.head(self.bag(bags.features, bags.offsets))

    @torch.no_grad()
    def embed(self, questions: Questions, *, chunk: int = 1024) -> Tensor:
        """Embeddings of all questions, of length 1."""
        rows = torch.arange(len(questions)).split(chunk)
        return nn.functional.normalize(
            torch.cat([self(questions.take(part)) for part in rows]), dim=1
        )
