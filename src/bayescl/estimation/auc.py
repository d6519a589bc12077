r"""Alpha from labels: how often a positive outscores a negative, measured.

The paper equates ``alpha`` with the encoder's AUC, and its authors set it that way. In the paper's
own generative model they differ, since ``alpha`` mixes the order statistics of one pair and the AUC
compares two draws: :math:`\mathrm{AUC} = \tfrac12 + \tfrac{2\alpha - 1}{3}`. The reading
``"model"`` inverts that formula, ``"auc"`` follows the authors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import (
    check_choice,
    check_count,
    check_floating,
    check_interval,
    check_mask,
    check_shape,
)
from bayescl.functional import empirical_cdf, unit_vectors

Reading = Literal["model", "auc"]
READINGS: tuple[Reading, ...] = ("model", "auc")
_CHUNK = 2**22
"""Number of similarities computed at a time."""


def anchor_aucs(
    scores: Float[Tensor, "anchors candidates"],
    same_class: Bool[Tensor, "anchors candidates"],
    *,
    valid: Bool[Tensor, "anchors candidates"] | None = None,
) -> Float[Tensor, " anchors"]:
    """ROC-AUC of every row of scores: how often its own class outscores other classes.

    A tie counts as half.

    Args:
        scores: anything that increases with similarity. Not differentiated.
        same_class: True where the candidate is of the anchor's class.
        valid: True where the candidate counts.

    Returns:
        Values in [0, 1] in float64; NaN for an anchor that lacks candidates of either kind.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> scores = torch.tensor([[0.9, 0.1, 0.5], [0.1, 0.9, 0.5]])
        >>> anchor_aucs(scores, torch.tensor([[True, False, False]] * 2))
        tensor([1., 0.], dtype=torch.float64)
    """
    check_floating("scores", scores)
    check_mask("same_class", same_class, scores.shape)
    positive, negative = same_class, ~same_class
    if valid is not None:
        check_mask("valid", valid, scores.shape)
        positive, negative = positive & valid, negative & valid
    positives, negatives = positive.sum(dim=1).double(), negative.sum(dim=1).double()
    cdf = empirical_cdf(scores, valid=valid).double()
    # 2 N cdf is a whole number: twice the mid-rank, less one. The rank sum of the positives, less
    # the least that it can be, counts the pairs that they win.
    doubled = (2 * (positives + negatives)[:, None] * cdf).round()
    wins = (torch.where(positive, doubled, 0.0).sum(dim=1) - positives.square()) / 2
    return wins / (positives * negatives)


@torch.no_grad()
def macro_auc(
    anchors: Float[Tensor, "anchors dim"],
    labels: Int[Tensor, " anchors"],
    memory: Float[Tensor, "memory dim"],
    memory_labels: Int[Tensor, " memory"],
    *,
    own: Int[Tensor, " anchors"] | None = None,
    normalize: bool = True,
) -> float:
    """Macro-averaged ROC-AUC of anchors' similarities against a labelled memory.

    Each anchor is a query of one class against the rest. The result equals
    ``sklearn.metrics.roc_auc_score`` with ``average="macro"`` on the transposed matrices, as in the
    training script of Liu et al., ICML 2024.

    Args:
        anchors: embeddings or features of the anchors. Not differentiated, like the memory.
        labels: the anchors' classes.
        memory: embeddings or features to compare them with.
        memory_labels: their classes.
        own: the row of the memory that holds the anchor itself (or its image), which is left out.
        normalize: whether to compare by cosine rather than by inner product.

    Returns:
        A value in [0, 1]; anchors that lack candidates of either kind are left out.

    Raises:
        ValueError: if shapes do not match, or no anchor has candidates of both kinds.

    Example:
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> macro_auc(embeddings, labels, embeddings, labels, own=torch.arange(4))
        1.0
    """
    for name, rows in (("anchors", anchors), ("memory", memory)):
        check_floating(name, rows)
        if rows.ndim != 2 or len(rows) == 0:
            raise ValueError(f"{name} must have shape [rows, dim], got {list(rows.shape)}")
    check_shape("labels", labels, anchors.shape[:1])
    check_shape("memory_labels", memory_labels, memory.shape[:1])
    if normalize:
        anchors, memory = unit_vectors(anchors), unit_vectors(memory)
    aucs = []
    size = max(1, _CHUNK // len(memory))
    for rows in torch.arange(len(anchors), device=anchors.device).split(size):
        scores = anchors[rows] @ memory.T
        valid = None
        if own is not None:
            valid = torch.ones_like(scores, dtype=torch.bool).scatter(1, own[rows, None], False)
        same = labels[rows, None] == memory_labels[None]
        aucs.append(anchor_aucs(scores, same, valid=valid))
    everyone = torch.cat(aucs)
    if bool(everyone.isnan().all()):
        raise ValueError(
            "labels must give at least one anchor candidates of its own class and of another class"
        )
    return float(everyone.nanmean())


def alpha_of_auc(auc: float, reading: Reading = "model") -> float:
    r"""Turn an AUC into ``alpha``.

    Args:
        auc: probability that a positive outscores a true negative, in [0, 1].
        reading: ``"model"`` for :math:`\tfrac12 + \tfrac32(\mathrm{AUC} - \tfrac12)`, which
            inverts the generative model; ``"auc"`` for the AUC itself, as the authors do.

    Returns:
        A value in [0.5, 1]: 0.5 for an AUC below 1/2, and 1 with ``"model"`` for one above 5/6,
        which the model cannot express.

    Raises:
        ValueError: if ``auc`` is out of range or ``reading`` is unknown.

    Example:
        >>> round(alpha_of_auc(0.7), 3), alpha_of_auc(0.7, reading="auc"), alpha_of_auc(0.9)
        (0.8, 0.7, 1.0)

    Reference:
        ``docs/simulation.md``, "The model".
    """
    check_choice("reading", reading, READINGS)
    check_interval("auc", auc, 0.0, 1.0)
    value = auc if reading == "auc" else 0.5 + 1.5 * (auc - 0.5)
    return min(1.0, max(0.5, value))


@dataclass(frozen=True)
class MeasuredAlpha:
    """An AUC, and ``alpha`` by both readings.

    Attributes:
        auc: probability that a positive outscores a true negative, as measured or estimated.
        reading: the chosen reading.
    """

    auc: float
    reading: Reading

    @property
    def authors(self) -> float:
        """Alpha as the authors read it: the AUC, at least 0.5."""
        return alpha_of_auc(self.auc, "auc")

    @property
    def model(self) -> float:
        """Alpha that gives this AUC in the generative model, at most 1."""
        return alpha_of_auc(self.auc, "model")

    @property
    def alpha(self) -> float:
        """Alpha by the chosen reading."""
        return alpha_of_auc(self.auc, self.reading)


def measured_alpha(
    embeddings: Float[Tensor, "images dim"],
    labels: Int[Tensor, " images"],
    *,
    reading: Reading,
    anchors: int | None = None,
    seed: int = 0,
    normalize: bool = True,
) -> MeasuredAlpha:
    """Measure ``alpha`` on a small labelled part of the data.

    Never use the test set, whose labels would then influence training.

    Args:
        embeddings: one row per labelled item.
        labels: their classes.
        reading: how the AUC becomes ``alpha``; see :func:`alpha_of_auc`.
        anchors: number of rows to use as anchors; default: all. Every anchor is compared with all
            other rows.
        seed: seed for drawing the anchors.
        normalize: whether to compare by cosine rather than by inner product.

    Returns:
        The AUC, and ``alpha`` by both readings.

    Raises:
        ValueError: if shapes do not match, or no anchor has items of its own class and of another
            class.

    Example:
        >>> embeddings = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.8, 0.2]])
        >>> measured = measured_alpha(embeddings, torch.tensor([0, 0, 1, 1]), reading="model")
        >>> measured.auc, measured.alpha, measured.authors
        (0.75, 0.875, 0.75)
    """
    check_choice("reading", reading, READINGS)
    rows = torch.arange(len(embeddings))
    if anchors is not None and check_count("anchors", anchors, 1) < len(embeddings):
        generator = torch.Generator().manual_seed(seed)
        rows = torch.randperm(len(embeddings), generator=generator)[:anchors]
    rows = rows.to(embeddings.device)
    everything = embeddings, labels
    auc = macro_auc(embeddings[rows], labels[rows], *everything, own=rows, normalize=normalize)
    return MeasuredAlpha(auc, reading)
