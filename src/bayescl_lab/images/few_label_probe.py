"""The few-label probe: what a classifier learns from a handful of labels."""

from __future__ import annotations

from typing import NamedTuple

import torch

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count
from bayescl_lab.images.softmax_regression import fit_softmax_regression, standardise

PROBLEMS_AT_ONCE = 50
"""Largest number of draws fitted at a time; it does not affect the draws."""

WEIGHTS_AT_ONCE = 1 << 21
"""Largest number of weights fitted at a time. L-BFGS keeps up to 200 copies of them: 1.7 GB."""


class FewLabelScore(NamedTuple):
    """Accuracy over draws of the labelled images.

    Attributes:
        mean: mean accuracy, in [0, 1].
        spread: standard deviation over draws.
    """

    mean: float
    spread: float


def few_label_probe(
    train_features: Float[Tensor, "train features"],
    train_labels: Int[Tensor, " train"],
    features: Float[Tensor, "rows features"],
    labels: Int[Tensor, " rows"],
    *,
    num_classes: int,
    labels_per_class: int,
    draws: int = 100,
    seed: int = 0,
    inverse_penalty: float = 1.0,
) -> FewLabelScore:
    """Accuracy of a linear classifier trained on a few labels per class.

    The labelled images are drawn ``draws`` times, and a softmax regression is fitted to each draw.
    Draws depend only on ``seed`` and the labels, so encoders are compared on the same ones.
    Features are standardised over all training images, without labels.

    Args:
        train_features: features of the training images.
        train_labels: their classes.
        features: features of the evaluation images.
        labels: their classes.
        num_classes: number of classes.
        labels_per_class: labelled images of each class, at least 1.
        draws: number of draws, at least 1.
        seed: fixes the draws.
        inverse_penalty: inverse penalty of the regression; see
            :func:`~bayescl_lab.images.softmax_regression.fit_softmax_regression`.

    Returns:
        Mean accuracy and its standard deviation over draws.

    Raises:
        ValueError: if a class has fewer training images than ``labels_per_class``.
    """
    check_count("draws", draws, 1)
    chosen = few_label_draws(
        train_labels,
        num_classes=num_classes,
        labels_per_class=labels_per_class,
        draws=draws,
        seed=seed,
    )
    train_features, features = standardise(train_features, features)
    accuracies = []
    weights = train_features.shape[1] * num_classes
    at_once = max(1, min(PROBLEMS_AT_ONCE, WEIGHTS_AT_ONCE // weights))
    for rows in chosen.split(at_once):
        fit = fit_softmax_regression(
            train_features[rows],
            train_labels[rows],
            num_classes=num_classes,
            inverse_penalty=inverse_penalty,
        )
        accuracies.append((fit.predict(features) == labels).double().mean(dim=1))
    accuracy = torch.cat(accuracies)
    spread = accuracy.std().item() if draws > 1 else 0.0
    return FewLabelScore(accuracy.mean().item(), spread)


def few_label_draws(
    labels: Int[Tensor, " train"],
    *,
    num_classes: int,
    labels_per_class: int,
    draws: int,
    seed: int,
) -> Int[Tensor, "draws chosen"]:
    """Rows of ``labels_per_class`` images of every class, drawn several times.

    Args:
        labels: the class of each row.
        num_classes: number of classes.
        labels_per_class: rows of each class, without repetition.
        draws: number of draws.
        seed: fixes the draws.

    Returns:
        The rows of each draw, on the device of ``labels``.

    Raises:
        ValueError: if a class has fewer rows than ``labels_per_class``.
    """
    check_count("labels_per_class", labels_per_class, 1)
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
    return torch.cat(columns, dim=1).to(labels.device)
