"""Probes of frozen features: k-NN, and linear classifiers with all or a few labels.

All linear classifiers on cached features are L2-penalized softmax regressions, fitted on the device
of the features.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean, stdev
from typing import TYPE_CHECKING, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from bayescl_lab._randomness import Purpose, derived_seed, seeded

if TYPE_CHECKING:
    from bayescl_lab.items.parts import Parts
    from bayescl_lab.items.simclr import SimCLR
    from bayescl_lab.items.store import ItemStore

TOP = 5  # guesses in the second score
ROWS_AT_ONCE = 1024  # number of queries at a time
VALUES_AT_ONCE = 2**26  # largest number of values of a tensor in a fit; limits memory
FEW_LABELS = (1, 5)  # labels per class, smallest first
NEAREST = 10  # neighbors of recall, so that rare classes are not outvoted
CLUSTERED = 5000  # largest number of items that are clustered

TITLES = {
    **{f"few_label_{it}": f"{it} label{'s' * (it > 1)}/class" for it in FEW_LABELS},
    "knn": "k-NN",
    "linear": "linear",
    "linear_top5": "linear, top 5",
    "knn_domains": "k-NN, other domains",
    "nmi": "NMI",
    "ari": "ARI",
    "recall": "lowest recall",
}
"""Titles of the measures by name. ``knn_domains`` takes neighbors from other domains only; ``nmi``
and ``ari`` compare k-means clusters with classes; ``recall`` is the lowest recall of a class by the
10 nearest neighbors."""

MEASURES = tuple(name for name in TITLES if name != "linear_top5")
"""Names of all measures of comparisons, in the order of tables."""

LARGEST_BATCH = 1024
PIXELS_AT_ONCE = LARGEST_BATCH * 32 * 32
"""Number of pixels per forward call, to bound the memory."""


def run_probes(
    model: SimCLR, parts: Parts, *, draws: int = 100, linear_protocol: str = "fast"
) -> dict[str, float]:
    """Evaluate an encoder with every probe.

    A few-label probe is skipped if a class has too few training items, and top-5 accuracy is
    skipped for at most five classes. Items without a label are ignored.

    Args:
        model: Module that maps items to features. The augmented linear probe also uses
            its augmentation.
        parts: Labeled items to train the probes on, and items to evaluate on.
        draws: Number of draws of each few-label probe.
        linear_protocol: "fast" for cached features, or "augmented" for
            :func:`augmented_linear_probe`.

    Returns:
        Accuracy, recall, NMI or ARI by name. ``<probe>_spread`` is the standard deviation over the
        draws of a few-label probe.
    """
    train, evaluation = parts.labeled()
    data = ProbeData(
        extract_features(model, train),
        train.labels,
        extract_features(model, evaluation),
        evaluation.labels,
        train.num_classes,
    )
    fewest = int(data.train_labels.bincount(minlength=data.num_classes).min())
    scores = {}
    for count in FEW_LABELS:
        if count <= fewest:
            name = f"few_label_{count}"
            scores[name], scores[f"{name}_spread"] = few_label_probe(
                data, labels_per_class=count, draws=draws
            )
    scores["knn"] = knn_probe(data)
    scores |= domain_scores(data, train, evaluation) | cluster_scores(data) | recalls(data)
    if linear_protocol == "fast":
        return scores | linear_probe(data)
    return scores | augmented_linear_probe(model, train, evaluation)


@contextmanager
def _eval_mode(model: nn.Module) -> Iterator[None]:
    """Put all modules of a model into ``eval()`` mode, and restore their modes at the end."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@torch.no_grad()
def extract_features(model: nn.Module, store: ItemStore) -> Float[Tensor, "images features"]:
    """Compute features of all items in ``eval()`` mode, without augmentation.

    The model's mode is restored afterwards. A batch has at most 1,024 items, and at most as
    many values per channel as 1,024 images of 32 x 32 pixels.
    """
    batch_size = min(LARGEST_BATCH, max(1, PIXELS_AT_ONCE // math.prod(store.item_shape[1:])))
    with _eval_mode(model):
        batches = torch.arange(len(store)).split(batch_size)
        return torch.cat([model(store.take(rows)).float() for rows in batches])


def augmented_linear_probe(
    model: SimCLR,
    train: ItemStore,
    evaluation: ItemStore,
    *,
    epochs: int = 100,
    batch_size: int = 512,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> dict[str, float]:
    """Compute the accuracy of a linear layer trained on views of all training images.

    In every epoch, each training image passes once through the frozen encoder in ``eval()`` mode,
    as a view drawn by the model's own augmentation. The layer is trained by Adam with weight decay
    1e-6 and evaluated after the last epoch on unaugmented images. The seed determines the initial
    weights, the order of images and their views.
    """
    with _eval_mode(model):
        features = extract_features(model, evaluation)
        with seeded(derived_seed(seed, Purpose.WEIGHTS)):
            classifier = nn.Linear(features.shape[1], train.num_classes)
        classifier.to(train.device)
        optimizer = torch.optim.Adam(classifier.parameters(), lr=learning_rate, weight_decay=1e-6)
        for epoch in range(epochs):
            shuffle = torch.Generator().manual_seed(derived_seed(seed, Purpose.ORDER, epoch))
            batches = torch.randperm(len(train), generator=shuffle).split(batch_size)
            for step, rows in enumerate(batches):
                view_seed = derived_seed(seed, Purpose.VIEWS, epoch, step)
                with torch.no_grad():
                    views = model.augmentation(train.take(rows), seed=view_seed)
                    seen = model.encode_views(views).float()
                with torch.enable_grad():
                    optimizer.zero_grad()
                    F.cross_entropy(classifier(seen), train.labels[rows]).backward()
                    optimizer.step()
        with torch.no_grad():
            return top_scores(classifier(features), evaluation.labels)


class ProbeData(NamedTuple):
    """Training and evaluation data of a probe."""

    train_features: Float[Tensor, "train features"]
    train_labels: Int[Tensor, " train"]
    features: Float[Tensor, "rows features"]
    labels: Int[Tensor, " rows"]
    num_classes: int

    def standardized(
        self,
    ) -> tuple[Float[Tensor, "train features"], Float[Tensor, "rows features"]]:
        """Standardize features by mean and deviation of training items. Constant ones become 0."""
        train = self.train_features
        deviation, mean = torch.std_mean(train, dim=0, correction=0)
        # A constant feature may differ by rounding errors, which must not be scaled up.
        alive = deviation > 1e-6 * deviation.max().clamp_min(torch.finfo(train.dtype).tiny)
        scale = torch.where(alive, deviation, torch.inf)
        return (train - mean) / scale, (self.features - mean) / scale


def domain_scores(data: ProbeData, train: ItemStore, evaluation: ItemStore) -> dict[str, float]:
    """Compute the k-NN accuracy with neighbors from other domains only.

    The result is empty if the training or the evaluation items have no domains.
    """
    if train.domains is None or evaluation.domains is None:
        return {}
    right, count = 0.0, 0
    for domain in evaluation.domains.unique():
        rows, others = evaluation.domains == domain, train.domains != domain
        if others.any():
            some = data._replace(
                train_features=data.train_features[others],
                train_labels=data.train_labels[others],
                features=data.features[rows],
                labels=data.labels[rows],
            )
            right, count = right + knn_probe(some) * int(rows.sum()), count + int(rows.sum())
    return {"knn_domains": right / count} if count else {}


def cluster_scores(data: ProbeData) -> dict[str, float]:
    """Compare clusters of k-means, one per class, with classes: NMI and ARI.

    The unit vectors of at most 5,000 random items are clustered.
    """
    from sklearn.cluster import KMeans
    from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

    features = F.normalize(torch.cat([data.train_features, data.features]), dim=1).cpu()
    labels = torch.cat([data.train_labels, data.labels]).cpu()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))[:CLUSTERED]
    if len(order) < data.num_classes:
        return {}
    means = KMeans(data.num_classes, n_init=4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows than clusters
        clusters = means.fit_predict(features[order].numpy())
    truth = labels[order].numpy()
    nmi = float(normalized_mutual_info_score(truth, clusters))
    return {"nmi": nmi, "ari": float(adjusted_rand_score(truth, clusters))}


def recalls(data: ProbeData) -> dict[str, float]:
    """Compute the recall of each class by the 10 nearest neighbors, and the lowest one.

    The names are ``recall`` and, for each class by number, ``recall_0``, ``recall_1`` and so on.
    """
    right = knn_predictions(data, k=NEAREST) == data.labels
    counts = data.labels.bincount(minlength=data.num_classes)
    hits = data.labels[right].bincount(minlength=data.num_classes)
    known = counts.nonzero().flatten().tolist()
    found = {f"recall_{label}": float(hits[label] / counts[label]) for label in known}
    return {"recall": min(found.values()), **found}


def knn_probe(data: ProbeData, *, k: int = 200, temperature: float = 0.1) -> float:
    r"""Compute the accuracy of a vote among the nearest training items.

    The neighbors have the highest cosine similarity. Each votes with weight :math:`e^{\cos /
    \text{temperature}}`.

    The number of neighbors is at most the mean number of training items per class, because further
    neighbors often have other classes. Small values of ``temperature`` give the nearest ones more
    weight.

    Example:
        >>> train = torch.tensor([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
        >>> labels = torch.tensor([0, 0, 1, 1])
        >>> knn_probe(ProbeData(train, labels, torch.tensor([[2.0, 0.2]]), torch.tensor([0]), 2))
        1.0
    """
    predictions = knn_predictions(data, k=k, temperature=temperature)
    return (predictions == data.labels).double().mean().item()


@torch.no_grad()
def knn_predictions(
    data: ProbeData, *, k: int = 200, temperature: float = 0.1
) -> Int[Tensor, " rows"]:
    """Predict classes by nearest neighbors; see :func:`knn_probe`."""
    k = max(1, min(k, len(data.train_features) // data.num_classes))
    train = F.normalize(data.train_features.float(), dim=1)
    predictions = []
    evaluation = F.normalize(data.features.float(), dim=1)
    for rows in evaluation.split(ROWS_AT_ONCE):
        similarity, neighbors = (rows @ train.T).topk(k, dim=1)
        # [rows, k]; 1 is the largest cosine, so that no weight overflows
        weight = ((similarity - 1) / temperature).exp()
        votes = weight.new_zeros(len(rows), data.num_classes)
        votes.scatter_add_(1, data.train_labels[neighbors], weight)
        predictions.append(votes.argmax(dim=1))
    return torch.cat(predictions)


def linear_probe(data: ProbeData) -> dict[str, float]:
    """Compute the accuracy of a linear classifier trained on all training labels.

    The classifier is a deterministic softmax regression on standardized features.
    """
    train_features, features = data.standardized()
    fit = softmax_regressions(
        train_features[None], data.train_labels[None], data.num_classes, inverse_penalty=0.1
    )
    return top_scores(fit.logits(features)[:, 0], data.labels)


def top_scores(
    logits: Float[Tensor, "rows classes"], labels: Int[Tensor, " rows"]
) -> dict[str, float]:
    """Compute top-1 accuracy and, for more than five classes, top-5 accuracy."""
    numbers = {"linear": 1, "linear_top5": TOP} if logits.shape[1] > TOP else {"linear": 1}
    scores = {}
    for name, count in numbers.items():
        guesses = logits.topk(count, dim=1).indices
        scores[name] = (guesses == labels[:, None]).any(dim=1).double().mean().item()
    return scores


def few_label_probe(
    data: ProbeData, *, labels_per_class: int, draws: int = 100, seed: int = 0
) -> tuple[float, float]:
    """Compute the accuracy of a linear classifier trained on a few labels per class.

    The result is the mean and the standard deviation over draws.

    Labeled items are drawn ``draws`` times, and a softmax regression is fitted to each draw. Draws
    depend only on ``seed`` and the labels, so all encoders are compared on the same draws. Features
    are standardized over all training items.
    """
    counts = {"num_classes": data.num_classes, "labels_per_class": labels_per_class}
    chosen = few_label_draws(data.train_labels, **counts, draws=draws, seed=seed)
    train_features, features = data.standardized()
    values = max(chosen.shape[1] * features.shape[1], len(features) * data.num_classes)
    accuracies = []
    for rows in chosen.to(features.device).split(max(1, VALUES_AT_ONCE // values)):
        # float32 takes up to four times the evaluations.
        drawn = train_features[rows].double()
        labels = data.train_labels[rows]
        fit = softmax_regressions(drawn, labels, data.num_classes, tolerance=1e-4)
        is_right = fit.logits(features).argmax(dim=2) == data.labels[:, None]
        accuracies += is_right.double().mean(dim=0).tolist()
    spread = stdev(accuracies) if draws > 1 else 0.0
    return fmean(accuracies), spread


def few_label_draws(
    labels: Int[Tensor, " train"], *, num_classes: int, labels_per_class: int, draws: int, seed: int
) -> Int[Tensor, "draws chosen"]:
    """Draw indices of ``labels_per_class`` items of every class, ``draws`` times."""
    generator = torch.Generator().manual_seed(seed)
    labels, columns = labels.cpu(), []
    for label in range(num_classes):
        rows = (labels == label).nonzero().squeeze(1)
        if len(rows) < labels_per_class:
            raise ValueError(
                "labels_per_class must be at most the number of training items of each class, "
                f"got {labels_per_class} for {len(rows)} items of class {label}"
            )
        order = torch.rand(draws, len(rows), generator=generator)
        columns.append(rows[order.topk(labels_per_class, largest=False).indices])
    return torch.cat(columns, dim=1)


class SoftmaxRegressions(NamedTuple):
    """Weights and biases of linear classifiers."""

    weights: Float[Tensor, "fits features classes"]
    biases: Float[Tensor, "fits 1 classes"]

    def logits(
        self, features: Float[Tensor, "rows features"]
    ) -> Float[Tensor, "rows fits classes"]:
        """Compute the logits of every classifier, in the precision of the features."""
        weights = self.weights.movedim(1, 0).flatten(1).to(features)
        products: Tensor = (features @ weights).unflatten(1, (len(self.weights), -1))
        return products + self.biases.squeeze(1).to(features)


def softmax_regressions(
    features: Float[Tensor, "fits rows features"],
    labels: Int[Tensor, "fits rows"],
    num_classes: int,
    *,
    inverse_penalty: float = 1.0,
    tolerance: float = 1e-5,
    max_evaluations: int = 500,
) -> SoftmaxRegressions:
    r"""Minimize :math:`C \sum_r \mathrm{CE}_r + \tfrac12 \lVert W \rVert^2` for each fit.

    The biases are not penalized. All fits share one run of L-BFGS. It works in the principal axes
    of each fit's rows, scaled to similar curvature.

    Args:
        features: Rows of each fit.
        labels: Class of each row, from 0.
        num_classes: Number of classes. Classes without rows are allowed.
        inverse_penalty: Factor :math:`C`, positive. Larger values fit the labels more closely.
        tolerance: Largest component of the gradient, per row, at which fits end.
        max_evaluations: Largest number of evaluations of the gradient.

    Example:
        >>> rows = torch.tensor([[[-1.0], [1.0]]])
        >>> fit = softmax_regressions(rows, torch.tensor([[0, 1]]), 2)
        >>> fit.logits(torch.tensor([[-2.0], [3.0]])).argmax(dim=2).flatten()
        tensor([0, 1])
    """
    fits, rows, dim = features.shape
    mean = features.mean(dim=1, keepdim=True)  # the bias compensates for it
    centered = features - mean
    if rows < dim:  # the minimum lies in the span of the rows
        squares, axes = torch.linalg.eigh((centered @ centered.mT).double())
        largest = squares[:, -1:].clamp_min(torch.finfo(squares.dtype).tiny)
        lengths = torch.where(squares > 1e-9 * largest, squares.rsqrt(), 0.0)
        axes = centered.mT @ (axes * lengths[:, None]).to(centered)
    else:
        squares, axes = torch.linalg.eigh((centered.mT @ centered).double())
        axes = axes.to(centered)
    scale = (1 + inverse_penalty * squares.clamp_min(0.0) / num_classes).rsqrt().to(centered)
    directions = axes * scale[:, None]
    inputs = centered @ directions
    shape = (fits, inputs.shape[2], num_classes)
    weights = torch.zeros(shape, dtype=inputs.dtype, device=inputs.device, requires_grad=True)
    biases = weights.new_zeros(fits, 1, num_classes).requires_grad_()
    penalty = scale[:, :, None].square() / (2 * inverse_penalty)
    target = labels.flatten()
    optimizer = torch.optim.LBFGS(
        [weights, biases],
        max_iter=max_evaluations,
        max_eval=max_evaluations,
        tolerance_grad=tolerance,
        tolerance_change=0.0,
        history_size=10 if fits > 1 else 100,  # many fits share it, and its cost grows with them
        line_search_fn="strong_wolfe",
    )

    def objective() -> Float[Tensor, ""]:
        optimizer.zero_grad()
        with torch.enable_grad():
            logits = (inputs @ weights + biases).flatten(0, 1)
            loss: Tensor = F.cross_entropy(logits, target, reduction="sum")
            loss = (loss + (penalty * weights.square()).sum()) / rows
            loss.backward()
        return loss

    optimizer.step(objective)
    found = directions @ weights.detach()
    return SoftmaxRegressions(found, biases.detach() - mean @ found)
