"""Every probe of one encoder, under the names that tables and files use."""

from __future__ import annotations

from torch import nn

from bayescl.vision.datasets import ImageParts
from bayescl.vision.features import extract_features
from bayescl.vision.few_label_probe import few_label_probe
from bayescl.vision.knn_probe import knn_probe
from bayescl.vision.linear_probe import linear_probe

PROBE_SEED = 0
"""Probes draw the same labels whatever the seed of the run."""

FEW_LABELS = (1, 5)
"""Labels per class of the few-label probes, smallest first."""

PROBES = (*(f"few_label_{count}" for count in FEW_LABELS), "knn", "linear")
"""Names of the probes, in the order of tables."""


def probe_title(probe: str) -> str:
    """What a reader sees instead of a probe's name.

    Example:
        >>> probe_title("few_label_5")
        '5 labels/class'
    """
    if probe.startswith("few_label_"):
        count = probe.removeprefix("few_label_")
        return f"{count} label{'s' * (count != '1')}/class"
    return {"knn": "k-NN", "linear": "linear"}[probe]


def run_probes(model: nn.Module, parts: ImageParts, *, draws: int = 100) -> dict[str, float]:
    """Judge an encoder by every probe.

    A few-label probe is left out where a class has too few training images for it.

    Args:
        model: maps uint8 images to features.
        parts: the images whose labels the probes learn from, and those they are scored on.
        draws: draws of each few-label probe.

    Returns:
        Accuracy by probe, in [0, 1], and under ``<probe>_spread`` the standard deviation over
        the draws of each few-label probe.
    """
    arrays = (
        extract_features(model, parts.train),
        parts.train.labels,
        extract_features(model, parts.evaluation),
        parts.evaluation.labels,
    )
    num_classes = parts.train.num_classes
    fewest = int(parts.train.labels.bincount(minlength=num_classes).min())
    scores = {}
    for count in FEW_LABELS:
        if count <= fewest:
            score = few_label_probe(
                *arrays,
                num_classes=num_classes,
                labels_per_class=count,
                draws=draws,
                seed=PROBE_SEED,
            )
            scores[f"few_label_{count}"] = score.mean
            scores[f"few_label_{count}_spread"] = score.spread
    scores["knn"] = knn_probe(*arrays, num_classes=num_classes)
    scores["linear"] = linear_probe(*arrays, num_classes=num_classes)
    return scores
