"""The linear probe: what a linear classifier reads off the frozen features."""

from __future__ import annotations

from bayescl._axes import Float, Int, Tensor
from bayescl.vision.softmax_regression import fit_softmax_regression, standardise


def linear_probe(
    train_features: Float[Tensor, "train features"],
    train_labels: Int[Tensor, train],
    features: Float[Tensor, "rows features"],
    labels: Int[Tensor, rows],
    *,
    num_classes: int,
    inverse_penalty: float = 0.1,
) -> float:
    """Accuracy of a linear classifier trained on all training labels.

    A softmax regression on cached, standardised features; nothing in it is random.

    Args:
        train_features: features of the training images.
        train_labels: their classes.
        features: features of the images to judge by.
        labels: their classes.
        num_classes: number of classes.
        inverse_penalty: of the regression; see
            :func:`~bayescl.vision.softmax_regression.fit_softmax_regression`.

    Returns:
        The share of correct predictions, in [0, 1].

    See Also:
        :func:`~bayescl.vision.few_label_probe.few_label_probe`, which still tells losses apart
        where this one saturates.
    """
    train_features, features = standardise(train_features, features)
    fit = fit_softmax_regression(
        train_features[None],
        train_labels[None],
        num_classes=num_classes,
        inverse_penalty=inverse_penalty,
    )
    return (fit.predict(features)[0] == labels).double().mean().item()
