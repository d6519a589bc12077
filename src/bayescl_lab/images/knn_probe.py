"""The k-NN probe: are the nearest training images of the same class?"""

from __future__ import annotations

import torch
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count, check_positive


@torch.no_grad()
def knn_probe(
    train_features: Float[Tensor, "train features"],
    train_labels: Int[Tensor, " train"],
    features: Float[Tensor, "rows features"],
    labels: Int[Tensor, " rows"],
    *,
    num_classes: int,
    k: int = 200,
    temperature: float = 0.1,
    chunk_size: int = 1024,
) -> float:
    r"""Accuracy of a vote among the nearest training images.

    Neighbours have the highest cosine similarity, and each votes with weight
    :math:`e^{\cos / \text{temperature}}`.

    Args:
        train_features: features of the training images.
        train_labels: their classes.
        features: features of the evaluation images.
        labels: their classes.
        num_classes: number of classes.
        k: number of neighbours; at most the mean number of training images per class, since further
            neighbours must be of other classes.
        temperature: temperature of the vote, positive; small values favour the nearest.
        chunk_size: rows per step; does not affect the result.

    Returns:
        The share of correct predictions, in [0, 1].

    Example:
        >>> train = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> knn_probe(train, torch.tensor([0, 0, 1, 1]), torch.tensor([[2.0, 0.2]]),
        ...           torch.tensor([0]), num_classes=2)
        1.0
    """
    check_count("k", k, 1)
    check_positive("temperature", temperature)
    k = max(1, min(k, len(train_features) // num_classes))
    train_features = F.normalize(train_features.float(), dim=1)
    features = F.normalize(features.float(), dim=1)
    correct = 0
    for chunk, truth in zip(features.split(chunk_size), labels.split(chunk_size), strict=True):
        similarity, neighbours = (chunk @ train_features.T).topk(k, dim=1)
        # [chunk, k]; 1 is the largest cosine, so that no weight overflows
        weight = ((similarity - 1) / temperature).exp()
        votes = weight.new_zeros(len(chunk), num_classes)
        votes.scatter_add_(1, train_labels[neighbours], weight)
        correct += int((votes.argmax(dim=1) == truth).sum())
    return correct / len(labels)
