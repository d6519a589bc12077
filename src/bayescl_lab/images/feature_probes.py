"""Probes of frozen features: k-NN, and linear classifiers from all labels or from a few.

All linear classifiers are L2-penalised softmax regressions of scikit-learn.
"""

from __future__ import annotations

from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

TOP = 5  # guesses in the second score
ROWS_AT_ONCE = 1024  # rows whose neighbours are searched for at a time


class ProbeData(NamedTuple):
    """What a probe learns from, and the evaluation images that it is scored on."""

    train_features: Float[Tensor, "train features"]
    train_labels: Int[Tensor, " train"]
    features: Float[Tensor, "rows features"]
    labels: Int[Tensor, " rows"]
    num_classes: int

    def standardised(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Both features with mean 0 and deviation 1 over the training images, or 0 if constant."""
        train = self.train_features
        deviation, mean = torch.std_mean(train, dim=0, correction=0)
        # Features of a dead unit differ by rounding at most: leave them at 0, do not blow them up.
        alive = deviation > 1e-6 * deviation.max().clamp_min(torch.finfo(train.dtype).tiny)
        scale = torch.where(alive, deviation, torch.inf)
        both = (train - mean) / scale, (self.features - mean) / scale
        return both[0].cpu().numpy(), both[1].cpu().numpy()


class TopScore(NamedTuple):
    """Accuracy of a classifier with one guess and with five; None if there are no more classes."""

    top_1: float
    top_5: float | None


class FewLabelScore(NamedTuple):
    """Mean accuracy over draws of the labelled images, in [0, 1], and its standard deviation."""

    mean: float
    spread: float


@torch.no_grad()
def knn_probe(data: ProbeData, *, k: int = 200, temperature: float = 0.1) -> float:
    r"""Accuracy of a vote among the nearest training images.

    Neighbours have the highest cosine similarity, and each votes with weight
    :math:`e^{\cos / \text{temperature}}`.

    No more neighbours are used than the mean number of training images per class, since further
    ones must be of other classes. Small values of ``temperature`` favour the nearest.

    Example:
        >>> train = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> knn_probe(ProbeData(train, labels, torch.tensor([[2.0, 0.2]]), torch.tensor([0]), 2))
        1.0
    """
    k = max(1, min(k, len(data.train_features) // data.num_classes))
    train = F.normalize(data.train_features.float(), dim=1)
    correct = 0
    evaluation = F.normalize(data.features.float(), dim=1)
    batches = evaluation.split(ROWS_AT_ONCE), data.labels.split(ROWS_AT_ONCE)
    for rows, labels in zip(*batches, strict=True):
        similarity, neighbours = (rows @ train.T).topk(k, dim=1)
        # [rows, k]; 1 is the largest cosine, so that no weight overflows
        weight = ((similarity - 1) / temperature).exp()
        votes = weight.new_zeros(len(rows), data.num_classes)
        votes.scatter_add_(1, data.train_labels[neighbours], weight)
        correct += int((votes.argmax(dim=1) == labels).sum())
    return correct / len(data.labels)


def linear_probe(data: ProbeData) -> TopScore:
    """Accuracy of a linear classifier trained on all training labels.

    A softmax regression on standardised features; nothing in it is random. The paper's protocol is
    :func:`~bayescl_lab.images.probes.augmented_linear_probe`.
    """
    train_features, features = data.standardised()
    train_labels = data.train_labels.cpu().numpy()
    model = softmax_regression(train_features, train_labels, inverse_penalty=0.1)
    scores = torch.zeros(len(features), data.num_classes, dtype=torch.float64)
    # In float64 improbable classes keep their order.
    scores[:, model.classes_] = torch.from_numpy(model.predict_proba(features.astype(float)))
    return top_score(scores, data.labels.cpu())


def top_score(logits: Float[Tensor, "rows classes"], labels: Int[Tensor, " rows"]) -> TopScore:
    """Score the logits of a classifier, which are larger for more probable classes."""
    top_1 = (logits.argmax(dim=1) == labels).double().mean().item()
    if logits.shape[1] <= TOP:
        return TopScore(top_1, None)
    guesses = logits.topk(TOP, dim=1).indices
    return TopScore(top_1, (guesses == labels[:, None]).any(dim=1).double().mean().item())


def few_label_probe(
    data: ProbeData, *, labels_per_class: int, draws: int = 100, seed: int = 0
) -> FewLabelScore:
    """Accuracy of a linear classifier trained on a few labels per class.

    The labelled images are drawn ``draws`` times, and a softmax regression is fitted to each draw.
    Draws depend only on ``seed`` and the labels, so encoders are compared on the same ones.
    Features are standardised over all training images, without labels.
    """
    counts = {"num_classes": data.num_classes, "labels_per_class": labels_per_class}
    chosen = few_label_draws(data.train_labels, **counts, draws=draws, seed=seed).numpy()
    train_features, features = data.standardised()
    train_labels, labels = data.train_labels.cpu().numpy(), data.labels.cpu().numpy()
    accuracies = [
        softmax_regression(train_features[rows], train_labels[rows]).score(features, labels)
        for rows in chosen
    ]
    spread = stdev(accuracies) if draws > 1 else 0.0
    return FewLabelScore(fmean(accuracies), spread)


def few_label_draws(
    labels: Int[Tensor, " train"], *, num_classes: int, labels_per_class: int, draws: int, seed: int
) -> Int[Tensor, "draws chosen"]:
    """Rows of ``labels_per_class`` images of every class, drawn anew for each of the ``draws``."""
    generator = torch.Generator().manual_seed(seed)
    columns = []
    for label in range(num_classes):
        rows = (labels.cpu() == label).nonzero().squeeze(1)
        if len(rows) < labels_per_class:
            raise ValueError(
                f"labels_per_class must be at most the training images of every class, "
                f"got {labels_per_class} for {len(rows)} images of class {label}"
            )
        order = torch.rand(draws, len(rows), generator=generator).argsort(dim=1)
        columns.append(rows[order[:, :labels_per_class]])
    return torch.cat(columns, dim=1)


def softmax_regression(
    features: NDArray[np.float32], labels: NDArray[np.int64], inverse_penalty: float = 1.0
) -> LogisticRegression:
    r"""The minimum of :math:`C \sum_r \mathrm{CE}_r + \tfrac12 \lVert W \rVert^2`; biases are free.

    A larger :math:`C`, ``inverse_penalty``, fits the labels more closely.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if (labels == labels[0]).all():  # scikit-learn wants two classes
        return DummyClassifier().fit(features, labels)
    return LogisticRegression(C=inverse_penalty, max_iter=2000).fit(features, labels)
