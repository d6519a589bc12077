"""Every probe of one encoder, under the names that tables and files use."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Float, Tensor
from bayescl.diagnostics import in_eval_mode
from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.images.datasets import ImageParts
from bayescl_lab.images.feature_probes import (
    ProbeData,
    TopScore,
    few_label_probe,
    knn_probe,
    linear_probe,
    top_score,
)
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import ImageStore

FEW_LABELS = (1, 5)  # labels per class, smallest first

PROBES = (*(f"few_label_{count}" for count in FEW_LABELS), "knn", "linear")
"""Names of the probes, in the order of tables. With more than five classes the linear probe also
has a score under ``linear_top5``."""

LARGEST_BATCH = 1024
PIXELS_AT_ONCE = LARGEST_BATCH * 32 * 32
"""Pixels per forward call; the memory of feature maps grows with them."""


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
        linear_protocol: "fast", with cached features, or "paper", :func:`augmented_linear_probe`.

    Returns:
        Accuracy by probe, in [0, 1], and under ``<probe>_spread`` the standard deviation over
        the draws of each few-label probe.
    """
    data = _features(model, parts)
    fewest = int(data.train_labels.bincount(minlength=data.num_classes).min())
    scores = {}
    for count in FEW_LABELS:
        if count <= fewest:
            score = few_label_probe(data, labels_per_class=count, draws=draws)
            scores[f"few_label_{count}"] = score.mean
            scores[f"few_label_{count}_spread"] = score.spread
    scores["knn"] = knn_probe(data)
    if linear_protocol == "fast":
        linear = linear_probe(data)
    else:
        linear = augmented_linear_probe(model, *parts.labelled())
    scores["linear"] = linear.top_1
    if linear.top_5 is not None:
        scores["linear_top5"] = linear.top_5
    return scores


def knn_score(model: SimCLR, parts: ImageParts) -> float:
    """Evaluate an encoder with only the k-NN probe, which is fast enough to use during training."""
    return knn_probe(_features(model, parts))


def _features(model: nn.Module, parts: ImageParts) -> ProbeData:
    """Features and labels to learn from, and those to be scored on."""
    train, evaluation = parts.labelled()
    return ProbeData(
        extract_features(model, train),
        train.labels,
        extract_features(model, evaluation),
        evaluation.labels,
        train.num_classes,
    )


@torch.no_grad()
def extract_features(
    model: nn.Module, store: ImageStore, *, batch_size: int | None = None
) -> Float[Tensor, "images features"]:
    """Features of every image, from the model in ``eval()`` mode and without augmentation.

    The model maps uint8 images to features; its mode is restored afterwards. ``batch_size``, images
    per forward call, affects the result only by rounding. Default: 1024, or fewer where images have
    more than 32 x 32 pixels: as many pixels as 1024 such images.
    """
    if batch_size is None:
        _, height, width = store.image_shape
        batch_size = min(LARGEST_BATCH, max(1, PIXELS_AT_ONCE // (height * width)))
    with in_eval_mode(model):
        batches = store.in_batches(torch.arange(len(store)).split(batch_size))
        return torch.cat([model(images).float() for images in batches])


def augmented_linear_probe(
    model: SimCLR,
    train: ImageStore,
    evaluation: ImageStore,
    *,
    epochs: int = 100,
    batch_size: int = 512,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> TopScore:
    """Accuracy of a linear layer trained on views of all training images.

    In every epoch, each training image passes once through the frozen encoder in ``eval()`` mode,
    as a view drawn by the model's own augmentation. The layer is trained by Adam with weight decay
    1e-6 and evaluated after the last epoch on plain images. The authors report the best epoch on
    the test images instead, which can only be higher.

    The learning rate is that of Adam; the authors take 1e-2 for STL10. The seed fixes the layer's
    initial weights, the order of images and their views.
    """
    with in_eval_mode(model):
        features = extract_features(model, evaluation)
        with seeded(derived_seed(seed, Purpose.WEIGHTS)):
            classifier = nn.Linear(features.shape[1], train.num_classes)
        classifier.to(train.device)
        optimizer = torch.optim.Adam(classifier.parameters(), lr=learning_rate, weight_decay=1e-6)
        for epoch in range(epochs):
            shuffle = torch.Generator().manual_seed(derived_seed(seed, Purpose.ORDER, epoch))
            batches = torch.randperm(len(train), generator=shuffle).split(batch_size)
            shown = zip(batches, train.in_batches(batches), strict=True)
            for step, (rows, images) in enumerate(shown):
                view_seed = derived_seed(seed, Purpose.VIEWS, epoch, step)
                with torch.no_grad():
                    views = model.augmentation(images, seed=view_seed)
                    seen = model.encode_views(views).float()
                with torch.enable_grad():
                    optimizer.zero_grad()
                    F.cross_entropy(classifier(seen), train.labels[rows]).backward()
                    optimizer.step()
        with torch.no_grad():
            return top_score(classifier(features), evaluation.labels)
