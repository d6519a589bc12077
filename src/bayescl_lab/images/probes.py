"""Probes of frozen features: k-NN, and linear classifiers from all labels or from a few.

All linear classifiers on cached features are L2-penalised softmax regressions of scikit-learn.
"""

from __future__ import annotations

from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.diagnostics import in_eval_mode
from bayescl_lab._randomness import Purpose, derived_seed, seeded

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

    from bayescl_lab.images.datasets import ImageParts
    from bayescl_lab.images.simclr import SimCLR
    from bayescl_lab.images.store import ImageStore

TOP = 5  # guesses in the second score
ROWS_AT_ONCE = 1024  # rows whose neighbours are searched for at a time
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


class ProbeData(NamedTuple):
    """What a probe learns from, and the evaluation images that it is scored on."""

    train_features: Float[Tensor, "train features"]
    train_labels: Int[Tensor, " train"]
    features: Float[Tensor, "rows features"]
    labels: Int[Tensor, " rows"]
    num_classes: int

    def standardised(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Both features with mean 0 and deviation 1 over the training images, or 0 if constant."""
        train = self.train_features
        deviation, mean = torch.std_mean(train, dim=0, correction=0)
        # Features of a dead unit differ by rounding at most: leave them at 0, do not blow them up.
        alive = deviation > 1e-6 * deviation.max().clamp_min(torch.finfo(train.dtype).tiny)
        scale = torch.where(alive, deviation, torch.inf)
        both = (train - mean) / scale, (self.features - mean) / scale
        return both[0].cpu().numpy(), both[1].cpu().numpy()


class TopScore(NamedTuple):
    """Accuracy of a classifier with one guess and with five; None if there are no more classes."""

    top_1: float
    top_5: float | None


class FewLabelScore(NamedTuple):
    """Mean accuracy over draws of the labelled images, in [0, 1], and its standard deviation."""

    mean: float
    spread: float


@torch.no_grad()
def knn_probe(data: ProbeData, *, k: int = 200, temperature: float = 0.1) -> float:
    r"""Accuracy of a vote among the nearest training images.

    Neighbours have the highest cosine similarity, and each votes with weight
    :math:`e^{\cos / \text{temperature}}`.

    No more neighbours are used than the mean number of training images per class, since further
    ones must be of other classes. Small values of ``temperature`` favour the nearest.

    Example:
        >>> train = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> knn_probe(ProbeData(train, labels, torch.tensor([[2.0, 0.2]]), torch.tensor([0]), 2))
        1.0
    """
    k = max(1, min(k, len(data.train_features) // data.num_classes))
    train = F.normalize(data.train_features.float(), dim=1)
    correct = 0
    evaluation = F.normalize(data.features.float(), dim=1)
    batches = evaluation.split(ROWS_AT_ONCE), data.labels.split(ROWS_AT_ONCE)
    for rows, labels in zip(*batches, strict=True):
        similarity, neighbours = (rows @ train.T).topk(k, dim=1)
        # [rows, k]; 1 is the largest cosine, so that no weight overflows
        weight = ((similarity - 1) / temperature).exp()
        votes = weight.new_zeros(len(rows), data.num_classes)
        votes.scatter_add_(1, data.train_labels[neighbours], weight)
        correct += int((votes.argmax(dim=1) == labels).sum())
    return correct / len(data.labels)


def linear_probe(data: ProbeData) -> TopScore:
    """Accuracy of a linear classifier trained on all training labels.

    A softmax regression on standardised features; nothing in it is random. The paper's protocol is
    :func:`augmented_linear_probe`.
    """
    train_features, features = data.standardised()
    train_labels = data.train_labels.cpu().numpy()
    model = softmax_regression(train_features, train_labels, inverse_penalty=0.1)
    scores = torch.zeros(len(features), data.num_classes, dtype=torch.float64)
    # In float64 improbable classes keep their order.
    scores[:, model.classes_] = torch.from_numpy(model.predict_proba(features.astype(float)))
    return top_score(scores, data.labels.cpu())


def top_score(logits: Float[Tensor, "rows classes"], labels: Int[Tensor, " rows"]) -> TopScore:
    """Score the logits of a classifier, which are larger for more probable classes."""
    top_1 = (logits.argmax(dim=1) == labels).double().mean().item()
    if logits.shape[1] <= TOP:
        return TopScore(top_1, None)
    guesses = logits.topk(TOP, dim=1).indices
    return TopScore(top_1, (guesses == labels[:, None]).any(dim=1).double().mean().item())


def few_label_probe(
    data: ProbeData, *, labels_per_class: int, draws: int = 100, seed: int = 0
) -> FewLabelScore:
    """Accuracy of a linear classifier trained on a few labels per class.

    The labelled images are drawn ``draws`` times, and a softmax regression is fitted to each draw.
    Draws depend only on ``seed`` and the labels, so encoders are compared on the same ones.
    Features are standardised over all training images, without labels.
    """
    counts = {"num_classes": data.num_classes, "labels_per_class": labels_per_class}
    chosen = few_label_draws(data.train_labels, **counts, draws=draws, seed=seed).numpy()
    train_features, features = data.standardised()
    train_labels, labels = data.train_labels.cpu().numpy(), data.labels.cpu().numpy()
    accuracies = [
        softmax_regression(train_features[rows], train_labels[rows]).score(features, labels)
        for rows in chosen
    ]
    spread = stdev(accuracies) if draws > 1 else 0.0
    return FewLabelScore(fmean(accuracies), spread)


def few_label_draws(
    labels: Int[Tensor, " train"], *, num_classes: int, labels_per_class: int, draws: int, seed: int
) -> Int[Tensor, "draws chosen"]:
    """Rows of ``labels_per_class`` images of every class, drawn anew for each of the ``draws``."""
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
    return torch.cat(columns, dim=1)


def softmax_regression(
    features: NDArray[np.float32], labels: NDArray[np.int64], inverse_penalty: float = 1.0
) -> LogisticRegression:
    r"""The minimum of :math:`C \sum_r \mathrm{CE}_r + \tfrac12 \lVert W \rVert^2`; biases are free.

    A larger :math:`C`, ``inverse_penalty``, fits the labels more closely.
    """
    from sklearn.dummy import DummyClassifier
    from sklearn.linear_model import LogisticRegression

    if (labels == labels[0]).all():  # scikit-learn wants two classes
        return DummyClassifier().fit(features, labels)
    return LogisticRegression(C=inverse_penalty, max_iter=2000).fit(features, labels)
