"""Every probe of one encoder, under the names that tables and files use."""

from __future__ import annotations

from bayescl.axes import Tensor
from bayescl.checks import check_choice
from bayescl_lab.images.augmented_linear_probe import augmented_linear_probe
from bayescl_lab.images.datasets import ImageParts, LabelledParts
from bayescl_lab.images.features import extract_features
from bayescl_lab.images.few_label_probe import few_label_probe
from bayescl_lab.images.knn_probe import knn_probe
from bayescl_lab.images.linear_probe import linear_probe
from bayescl_lab.images.simclr import SimCLR

PROBE_SEED = 0
"""Seed of the probes, independent of the run's."""

FEW_LABELS = (1, 5)
"""Labels per class of the few-label probes, smallest first."""

PROBES = (*(f"few_label_{count}" for count in FEW_LABELS), "knn", "linear")
"""Names of the probes, in the order of tables. With more than five classes the linear probe also
has a score under ``linear_top5``."""


def probe_title(probe: str) -> str:
    """The title of a probe for readers.

    Example:
        >>> probe_title("few_label_5")
        '5 labels/class'
    """
    if probe.startswith("few_label_"):
        count = probe.removeprefix("few_label_")
        return f"{count} label{'s' * (count != '1')}/class"
    return {"knn": "k-NN", "linear": "linear", "linear_top5": "linear, top 5"}[probe]


def run_probes(
    model: SimCLR, parts: ImageParts, *, draws: int = 100, linear_protocol: str = "fast"
) -> dict[str, float]:
    """Evaluate an encoder with every probe.

    A few-label probe is left out if a class has too few training images for it, and top 5 if there
    are at most five classes. Images without a label are ignored.

    Args:
        model: maps uint8 images to features; the paper's protocol also uses its views.
        parts: images from whose labels the probes learn, and images to evaluate on.
        draws: draws of each few-label probe.
        linear_protocol: "fast", :func:`~bayescl_lab.images.linear_probe.linear_probe`, or "paper",
            :func:`~bayescl_lab.images.augmented_linear_probe.augmented_linear_probe`.

    Returns:
        Accuracy by probe, in [0, 1], and under ``<probe>_spread`` the standard deviation over
        the draws of each few-label probe.

    Raises:
        ValueError: if the images have no labels.
    """
    check_choice("linear_protocol", linear_protocol, ("fast", "paper"))
    labelled = parts.labelled()
    arrays = _arrays(model, labelled)
    num_classes = labelled.train.num_classes
    fewest = int(labelled.train.labels.bincount(minlength=num_classes).min())
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
    if linear_protocol == "fast":
        linear = linear_probe(*arrays, num_classes=num_classes)
    else:
        linear = augmented_linear_probe(model, *labelled, seed=PROBE_SEED)
    scores["linear"] = linear.top_1
    if linear.top_5 is not None:
        scores["linear_top5"] = linear.top_5
    return scores


def knn_score(model: SimCLR, parts: ImageParts) -> float:
    """Evaluate an encoder with only the k-NN probe, which is fast enough to use during training.

    Raises:
        ValueError: if there are no labels.
    """
    labelled = parts.labelled()
    return knn_probe(*_arrays(model, labelled), num_classes=labelled.train.num_classes)


def _arrays(model: SimCLR, parts: LabelledParts) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Features and labels to learn from, and those to be scored on."""
    return (
        extract_features(model, parts.train),
        parts.train.labels,
        extract_features(model, parts.evaluation),
        parts.evaluation.labels,
    )
