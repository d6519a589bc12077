"""How good embeddings of questions are."""

from __future__ import annotations

from rivals.library import ProbeData, few_label_probe
from torch import Tensor

DEPTHS = (1, 10, 100)
FEW_LABELS = (1, 5)
DRAWS = 20
PROBE_SEED = 0
SCORES = (
    *(f"precision_{depth}" for depth in DEPTHS),
    *(f"few_label_{count}" for count in FEW_LABELS),
)
"""Names of the scores, in the order of tables."""

TITLES = {
    **{f"precision_{depth}": f"P@{depth}" for depth in DEPTHS},
    "few_label_1": "1 label/intent",
    "few_label_5": "5 labels/intent",
}


def precisions(
    embeddings: Tensor, labels: Tensor, train_embeddings: Tensor, train_labels: Tensor
) -> dict[str, float]:
    """Share of the nearest training questions that have the question's intent.

    Args:
        embeddings: of the questions that ask, of length 1.
        labels: their intents.
        train_embeddings: of the questions that answer, of length 1.
        train_labels: their intents.

    Returns:
        The mean share by depth.
    """
    hits = []
    deepest = max(DEPTHS)
    for rows, truth in zip(embeddings.split(1024), labels.split(1024), strict=True):
        nearest = (rows @ train_embeddings.T).topk(deepest, dim=1).indices
        hits.append(train_labels[nearest] == truth[:, None])
    right = sum(hit.double().sum(0) for hit in hits) / len(labels)
    return {f"precision_{depth}": right[:depth].mean().item() for depth in DEPTHS}


def scores_of(
    embeddings: Tensor,
    labels: Tensor,
    train_embeddings: Tensor,
    train_labels: Tensor,
    *,
    num_classes: int,
) -> dict[str, float]:
    """Every score of :data:`SCORES`, in [0, 1]; arguments as in :func:`precisions`."""
    found = precisions(embeddings, labels, train_embeddings, train_labels)
    data = ProbeData(train_embeddings, train_labels, embeddings, labels, num_classes)
    for count in FEW_LABELS:
        score = few_label_probe(data, labels_per_class=count, draws=DRAWS, seed=PROBE_SEED)
        found[f"few_label_{count}"] = score.mean
    return found
