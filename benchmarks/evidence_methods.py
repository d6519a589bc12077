"""The methods of ``evidence.py``: the library's losses, and rivals that use some labels, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl

LABELLED_BATCH = 64
"""Labelled rows that join every step of a method that uses labels; all if there are fewer."""
SURE = 0.95
"""Probability from which a pseudo-label counts (FixMatch: Sohn et al., NeurIPS 2020)."""


@dataclass(frozen=True)
class Step:
    """What a method sees of a step."""

    features: tuple[Tensor, Tensor]  # of both views, before the projection head
    embeddings: tuple[Tensor, Tensor]  # of both views, after it
    classes: Tensor  # true labels, for oracles
    labelled: tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor], Tensor] | None
    """Features and embeddings of two views of labelled rows, and their labels."""
    plain: Callable[[], Tensor]  # makes the features of the rows without augmentation
    done: float  # share of training that is over


class LibraryLoss(nn.Module):
    """A loss of the library, without labels unless it is an oracle."""

    wants_labelled = False

    def __init__(self, loss: bayescl.ContrastiveLoss) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, step: Step) -> Tensor:
        """The loss of a step."""
        needed = [name for name in ("groups", "labels") if getattr(self.loss, f"needs_{name}")]
        return self.loss(*step.embeddings, **dict.fromkeys(needed, step.classes))


class WithClassifier(nn.Module):
    """InfoNCE on all rows and cross-entropy on the labelled; with ``pseudo``, on sure rows, too."""

    wants_labelled = True

    def __init__(
        self, temperature: float, weight: float, features: int, classes: int, *, pseudo: bool
    ) -> None:
        super().__init__()
        self.contrast = bayescl.InfoNCELoss(temperature=temperature)
        self.classifier = nn.Linear(features, classes)
        self.weight, self.pseudo = weight, pseudo

    def forward(self, step: Step) -> Tensor:
        """The loss of a step."""
        loss = self.contrast(*step.embeddings)
        if step.labelled is None:
            return loss
        features, _, labels = step.labelled
        loss = loss + self.weight * F.cross_entropy(self.classifier(features[0]), labels)
        if not self.pseudo or step.done < 0.25:
            return loss
        with torch.no_grad():
            sure, guess = self.classifier(step.plain()).softmax(1).max(1)
        each = F.cross_entropy(self.classifier(step.features[0]), guess, reduction="none")
        return loss + self.weight * (each * (sure > SURE)).mean()


class WithSupCon(nn.Module):
    """InfoNCE on all rows and SupCon (Khosla et al., NeurIPS 2020) on the labelled."""

    wants_labelled = True

    def __init__(self, temperature: float, weight: float) -> None:
        super().__init__()
        self.contrast = bayescl.InfoNCELoss(temperature=temperature)
        self.temperature, self.weight = temperature, weight

    def forward(self, step: Step) -> Tensor:
        """The loss of a step."""
        loss = self.contrast(*step.embeddings)
        if step.labelled is None:
            return loss
        _, embeddings, labels = step.labelled
        rows, labels = F.normalize(torch.cat(embeddings), dim=1), torch.cat([labels, labels])
        own = torch.eye(len(rows), dtype=torch.bool)
        logits = (rows @ rows.T / self.temperature).masked_fill(own, -torch.inf)
        same = ((labels[:, None] == labels) & ~own).float()
        log_share = logits.log_softmax(1).masked_fill(own, 0)
        return loss - self.weight * ((log_share * same).sum(1) / same.sum(1)).mean()


TITLES = {
    "info_nce": "InfoNCE",
    "bayesian": "Bayesian",
    "cross_entropy": "InfoNCE + cross-entropy",
    "supcon": "InfoNCE + SupCon",
    "pseudo": "InfoNCE + pseudo-labels",
    "spreading": "InfoNCE, then label spreading",
    "oracle": "oracle, leaving out",
    "attracting_oracle": "attracting oracle",
}
"""What a reader sees, in the order of tables."""


def method(name: str, values: Mapping[str, Any], *, classes: int, features: int) -> nn.Module:
    """Make a method of :data:`TITLES`, but "spreading", which needs no training.

    ``values`` are its hyper-parameters; ``num_classes`` of a loss is ``classes`` by default.
    """
    if name in ("cross_entropy", "pseudo"):
        return WithClassifier(**values, features=features, classes=classes, pseudo=name == "pseudo")
    if name == "supcon":
        return WithSupCon(**values)
    makers: dict[str, Callable[..., bayescl.ContrastiveLoss]] = {
        "info_nce": bayescl.InfoNCELoss,
        "bayesian": bayescl.BayesianContrastiveLoss,
        "oracle": bayescl.OracleContrastiveLoss,
        "attracting_oracle": bayescl.SupervisedContrastiveLoss,
    }
    prior = {"num_classes": classes} if name == "bayesian" else {}
    return LibraryLoss(makers[name](**{**prior, **values}))


def own_classifier(features: Tensor, labels: Tensor, evaluated: Tensor, truth: Tensor) -> float:
    """Accuracy of a linear classifier learned from the known labels, -1 for unknown."""
    known = labels >= 0
    rows, new = (F.normalize(each, dim=1).numpy() for each in (features, evaluated))
    classifier = LogisticRegression(C=10.0, max_iter=300)
    classifier.fit(rows[known.numpy()], labels[known].numpy())
    return float(classifier.score(new, truth.numpy()))


def label_spreading(
    features: Tensor, labels: Tensor, evaluated: Tensor, truth: Tensor
) -> dict[str, float]:
    """Accuracy of labels spread over neighbours (Zhou et al., NeurIPS 2003), by setting."""
    rows, new = (F.normalize(each, dim=1).numpy() for each in (features, evaluated))
    accuracies = {}
    for neighbours in (10, 20, 50):
        for alpha in (0.2, 0.8):
            spread = LabelSpreading(kernel="knn", n_neighbors=neighbours, alpha=alpha, max_iter=100)
            with np.errstate(invalid="ignore"):  # rows without a labelled neighbour
                spread.fit(rows, labels.numpy())
            accuracies[f"{neighbours} neighbours, alpha {alpha}"] = float(
                spread.score(new, truth.numpy())
            )
    return accuracies
