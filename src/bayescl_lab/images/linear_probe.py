"""The linear probe: accuracy of a linear classifier on frozen features."""

from __future__ import annotations

from typing import NamedTuple

from bayescl.axes import Float, Int, Tensor
from bayescl_lab.images.softmax_regression import fit_softmax_regression, standardise

TOP = 5
"""Number of guesses in the second score."""


class TopScore(NamedTuple):
    """Accuracy of a classifier with one guess and with five.

    Attributes:
        top_1: share of images whose class is the most probable one.
        top_5: share of images whose class is among the five most probable; None if there are at
            most five classes.
    """

    top_1: float
    top_5: float | None


def linear_probe(
    train_features: Float[Tensor, "train features"],
    train_labels: Int[Tensor, " train"],
    features: Float[Tensor, "rows features"],
    labels: Int[Tensor, " rows"],
    *,
    num_classes: int,
    inverse_penalty: float = 0.1,
) -> TopScore:
    """Accuracy of a linear classifier trained on all training labels.

    A softmax regression on cached, standardised features; nothing in it is random.

    Args:
        train_features: features of the training images.
        train_labels: their classes.
        features: features of the evaluation images.
        labels: their classes.
        num_classes: number of classes.
        inverse_penalty: of the regression; see
            :func:`~bayescl_lab.images.softmax_regression.fit_softmax_regression`.

    Returns:
        Shares of correct predictions, in [0, 1].

    See Also:
        :func:`~bayescl_lab.images.augmented_linear_probe.augmented_linear_probe`, the protocol of
        the paper; :func:`~bayescl_lab.images.few_label_probe.few_label_probe`, which still tells
        losses apart when these saturate.
    """
    train_features, features = standardise(train_features, features)
    fit = fit_softmax_regression(
        train_features[None],
        train_labels[None],
        num_classes=num_classes,
        inverse_penalty=inverse_penalty,
    )
    return top_score(fit.logits(features)[0], labels)


def top_score(logits: Float[Tensor, "rows classes"], labels: Int[Tensor, " rows"]) -> TopScore:
    """Score the logits of a classifier.

    Args:
        logits: larger for more probable classes.
        labels: the classes.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[3.0, 2.0, 1.0, 0.5, 0.4, 0.3]]).expand(4, -1)
        >>> top_score(logits, torch.tensor([0, 1, 4, 5]))
        TopScore(top_1=0.25, top_5=0.75)
    """
    top_1 = (logits.argmax(dim=1) == labels).double().mean().item()
    if logits.shape[1] <= TOP:
        return TopScore(top_1, None)
    guesses = logits.topk(TOP, dim=1).indices
    return TopScore(top_1, (guesses == labels[:, None]).any(dim=1).double().mean().item())
