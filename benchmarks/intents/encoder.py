"""A small encoder of questions, trained from scratch."""

from __future__ import annotations

import torch
from rivals.library import check_choice
from torch import Tensor, nn

from intents.questions import Bags, Questions

HEADS = ("none", "linear", "mlp")


class BagEncoder(nn.Module):
    """The mean of a question's feature vectors, as it is or through a small head.

    Args:
        num_features: size of the vocabulary.
        head: "none", "linear", or "mlp" for one hidden layer.
        dim: length of a feature vector, and of an embedding.
        deviation: of a feature vector's initial entries. At 1, torch's default, twelve epochs
            hardly move the vectors of rare features, and questions are compared by random ones.
    """

    def __init__(
        self, num_features: int, *, head: str = "none", dim: int = 128, deviation: float = 0.05
    ) -> None:
        super().__init__()
        check_choice("head", head, HEADS)
        self.bag = nn.EmbeddingBag(num_features, dim, mode="mean")
        nn.init.normal_(self.bag.weight, std=deviation)
        hidden = [nn.Linear(dim, dim), nn.ReLU()] if head == "mlp" else []
        self.head = nn.Sequential(*hidden, *([] if head == "none" else [nn.Linear(dim, dim)]))

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
