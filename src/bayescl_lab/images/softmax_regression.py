"""Multinomial logistic regression, many small problems at a time."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count, check_positive


@dataclass(frozen=True)
class SoftmaxRegression:
    """Linear classifiers, one per problem.

    Attributes:
        weight: weights of features for each class.
        bias: bias of each class.
    """

    weight: Float[Tensor, "problems features classes"]
    bias: Float[Tensor, "problems 1 classes"]

    def predict(self, features: Float[Tensor, "rows features"]) -> Int[Tensor, "problems rows"]:
        """The most probable class of each row, by each problem's classifier."""
        return self.logits(features).argmax(dim=-1)

    def logits(
        self, features: Float[Tensor, "rows features"]
    ) -> Float[Tensor, "problems rows classes"]:
        """Unnormalised log-probabilities of the classes, by each problem's classifier."""
        return features @ self.weight + self.bias


def fit_softmax_regression(
    features: Float[Tensor, "problems rows features"],
    labels: Int[Tensor, "problems rows"],
    *,
    num_classes: int,
    inverse_penalty: float = 1.0,
    max_iter: int = 200,
) -> SoftmaxRegression:
    r"""Fit one L2-penalised softmax regression per problem.

    Each problem minimises :math:`C \sum_r \mathrm{CE}_r + \tfrac12 \lVert W \rVert^2`, as
    scikit-learn's ``LogisticRegression`` does; the bias is not penalised. The problems are
    independent, so L-BFGS on their sum solves them all at once.

    Args:
        features: the rows of each problem, standardised. Not differentiated.
        labels: the class of each row, in [0, num_classes).
        num_classes: number of classes.
        inverse_penalty: :math:`C`, positive; larger values fit the labels more closely.
        max_iter: largest number of L-BFGS steps.

    Returns:
        The fitted classifiers.

    Example:
        >>> features = torch.tensor([[[-1.0], [-0.5], [0.5], [1.0]]])
        >>> labels = torch.tensor([[0, 0, 1, 1]])
        >>> fit = fit_softmax_regression(features, labels, num_classes=2)
        >>> fit.predict(torch.tensor([[-2.0], [2.0]]))
        tensor([[0, 1]])
    """
    check_count("num_classes", num_classes, 2)
    check_positive("inverse_penalty", inverse_penalty)
    features = features.detach().float()
    problems, rows, dim = features.shape
    weight = features.new_zeros(problems, dim, num_classes, requires_grad=True)
    bias = features.new_zeros(problems, 1, num_classes, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias],
        max_iter=max_iter,
        tolerance_grad=1e-4,
        tolerance_change=1e-7,
        line_search_fn="strong_wolfe",
    )
    targets = labels.flatten()

    def objective() -> Tensor:
        optimizer.zero_grad()
        logits = torch.baddbmm(bias, features, weight)
        misfit = F.cross_entropy(logits.flatten(0, 1), targets, reduction="sum")
        # Per row, so that one line search suits problems of any size.
        value = (inverse_penalty * misfit + 0.5 * weight.square().sum()) / rows
        value.backward()
        return value

    with torch.enable_grad():
        optimizer.step(objective)
    return SoftmaxRegression(weight.detach(), bias.detach())


def standardise(
    train: Float[Tensor, "rows features"], *others: Float[Tensor, "_ features"]
) -> tuple[Tensor, ...]:
    """Shift and scale features to mean 0, deviation 1 over the training rows.

    Args:
        train: the rows to measure.
        others: rows to transform in the same way.

    Returns:
        ``train`` and ``others``, standardised; a constant feature becomes 0.
    """
    deviation, mean = torch.std_mean(train, dim=0, correction=0)
    # Features of a dead unit differ by rounding at most: leave them at 0, do not blow them up.
    alive = deviation > 1e-6 * deviation.max().clamp_min(torch.finfo(train.dtype).tiny)
    scale = torch.where(alive, deviation, torch.inf)
    return tuple((rows - mean) / scale for rows in (train, *others))
