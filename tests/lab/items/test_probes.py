from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.images.datasets import load_images
from bayescl_lab.images.pixels import store_from_arrays
from bayescl_lab.items import probes
from bayescl_lab.items.probes import (
    ProbeData,
    augmented_linear_probe,
    extract_features,
    few_label_draws,
    few_label_probe,
    knn_probe,
    linear_probe,
    run_probes,
)

CLASSES = 4


def clouds(rows: int, seed: int, spread: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Overlapping Gaussian clouds, one per class."""
    generator = torch.Generator().manual_seed(seed)
    centers = 2 * torch.randn(CLASSES, 6, generator=torch.Generator().manual_seed(99))
    labels = torch.arange(rows) % CLASSES
    return centers[labels] + spread * torch.randn(rows, 6, generator=generator), labels


DATA = ProbeData(*clouds(200, 1, 2.0), *clouds(300, 2, 2.0), CLASSES)
TRAIN, TRAIN_LABELS, TEST, TEST_LABELS, _ = DATA
FEATURES, TEST_FEATURES = DATA.standardized()


def theirs(inverse_penalty: float, rows: torch.Tensor | slice = slice(None)) -> LogisticRegression:
    """Scikit-learn's classifier from some training rows."""
    model = LogisticRegression(C=inverse_penalty, tol=1e-8, max_iter=2000)
    return model.fit(FEATURES[rows], TRAIN_LABELS[rows].numpy())


def test_linear_and_knn_probe_score_the_predictions_of_scikit_learn(monkeypatch):
    expected = theirs(0.1).score(TEST_FEATURES, TEST_LABELS.numpy())
    assert linear_probe(DATA)["linear"] == pytest.approx(expected, abs=1e-9)
    voters = KNeighborsClassifier(
        n_neighbors=20, metric="cosine", weights=lambda distance: np.exp(-distance / 0.1)
    )
    voters.fit(TRAIN.numpy(), TRAIN_LABELS.numpy())
    monkeypatch.setattr(probes, "ROWS_AT_ONCE", 70)
    expected = voters.score(TEST.numpy(), TEST_LABELS.numpy())
    assert knn_probe(DATA, k=20) == pytest.approx(expected, abs=1e-9)
    # No more neighbors than a class has images.
    assert knn_probe(DATA, k=10**6) == knn_probe(DATA, k=len(TRAIN) // CLASSES)


def test_few_label_probe_is_the_mean_over_fits_to_each_draw():
    mean, spread = few_label_probe(DATA, labels_per_class=3, draws=6, seed=5)
    rows = few_label_draws(TRAIN_LABELS, num_classes=CLASSES, labels_per_class=3, draws=6, seed=5)
    expected = [theirs(1.0, chosen).score(TEST_FEATURES, TEST_LABELS.numpy()) for chosen in rows]
    assert mean == pytest.approx(np.mean(expected), abs=2e-3)
    assert spread == pytest.approx(np.std(expected, ddof=1), abs=2e-3)


def test_draws_have_the_labels_asked_for_and_depend_on_seed_and_labels_alone():
    settings = {"num_classes": CLASSES, "labels_per_class": 5, "draws": 20}
    rows = few_label_draws(TRAIN_LABELS, seed=1, **settings)
    for chosen in rows:
        assert len(chosen.unique()) == 5 * CLASSES
        assert TRAIN_LABELS[chosen].bincount().tolist() == [5] * CLASSES
    assert len({tuple(chosen.tolist()) for chosen in rows}) == 20
    torch.manual_seed(123)
    assert torch.equal(few_label_draws(TRAIN_LABELS, seed=1, **settings), rows)
    assert not torch.equal(few_label_draws(TRAIN_LABELS, seed=2, **settings), rows)
    with pytest.raises(ValueError, match="got 5 for 1 items of class 1"):
        few_label_draws(torch.tensor([0] * 5 + [1]), seed=0, **settings)


def test_separated_classes_are_read_without_error_and_collapsed_features_by_chance():
    data = ProbeData(*clouds(40, 3, 0.01), *clouds(40, 4, 0.01), CLASSES)
    assert linear_probe(data) == {"linear": 1.0}
    assert knn_probe(data) == 1.0
    assert few_label_probe(data, labels_per_class=1, draws=5) == (1.0, 0.0)
    nothing = torch.zeros(40, dtype=torch.long)
    alone = data._replace(train_labels=nothing, labels=nothing, num_classes=1)
    assert linear_probe(alone)["linear"] == few_label_probe(alone, labels_per_class=1)[0] == 1.0
    data = data._replace(train_features=torch.ones(40, 6), features=torch.ones(40, 6))
    few = few_label_probe(data, labels_per_class=1, draws=3)
    for score in (linear_probe(data)["linear"], few[0], knn_probe(data)):
        assert score == pytest.approx(1 / CLASSES)


class AsFloat(torch.nn.Module):
    """Pixels as features, and the sizes of batches that pass."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[int] = []

    def forward(self, images):
        self.seen.append(len(images))
        return images.flatten(1).float()


def test_features_come_from_the_frozen_encoder_and_its_mode_is_restored():
    encoder = torch.nn.Sequential(AsFloat(), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)).train()
    pixels = np.random.default_rng(0).integers(0, 256, (10, 2, 2), dtype=np.uint8)
    store = store_from_arrays(pixels, np.arange(10) % 2)
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    features = extract_features(encoder, store)
    torch.testing.assert_close(features * (1 + 1e-5) ** 0.5, store.items.flatten(1).float())
    assert encoder.training
    assert encoder[1].training
    for name, value in encoder.state_dict().items():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize(("side", "most"), [(16, 1024), (64, 256), (96, 113)])
def test_larger_images_pass_the_network_in_smaller_batches(side, most):
    model = AsFloat()
    store = store_from_arrays(np.zeros((1100, side, side), np.uint8), np.arange(1100) % 2)
    assert len(extract_features(model, store)) == 1100
    assert max(model.seen) == most


class Plain(torch.nn.Module):
    """Pixels as features, with views that are the images."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4, affine=False)
        self.seen = []

    def augmentation(self, images, *, seed):
        self.seen.append(seed)
        return images.float() / 255

    def encode_views(self, views):
        return self.norm(views.flatten(1))

    def forward(self, images):
        return self.encode_views(images.float() / 255)


def test_the_papers_linear_probe_learns_what_adam_learns_from_the_same_batches():
    generator = np.random.default_rng(0)
    labels = np.arange(120) % 3
    pixels = generator.integers(0, 160, (120, 2, 2)) + 40 * labels[:, None, None]
    images = np.clip(pixels, 0, 255).astype(np.uint8)
    store = store_from_arrays(images, labels)
    model = Plain().train()
    statistics = model.norm.running_mean.clone()
    settings = {"epochs": 12, "batch_size": 50, "learning_rate": 0.2, "seed": 4}
    score = augmented_linear_probe(model, store, store, **settings)
    assert model.training
    assert torch.equal(model.norm.running_mean, statistics)  # the encoder was in eval()
    assert len(set(model.seen)) == 12 * 3  # every step draws its own views

    with seeded(derived_seed(4, Purpose.WEIGHTS)):
        layer = torch.nn.Linear(4, 3)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.2, weight_decay=1e-6)
    features = model.eval()(store.items)
    for epoch in range(12):
        seed = derived_seed(4, Purpose.ORDER, epoch)
        order = torch.randperm(120, generator=torch.Generator().manual_seed(seed))
        for rows in (order[:50], order[50:100], order[100:]):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(features[rows]), store.labels[rows]).backward()
            optimizer.step()
    expected = (layer(features).argmax(1) == store.labels).double().mean().item()
    assert score == {"linear": expected}
    assert expected > 0.5


def test_images_without_a_label_play_no_part_in_probes():
    parts = load_images("digits", max_train_images=200)
    model = AsFloat()
    scores = run_probes(model, parts, draws=3)
    assert scores["linear_top5"] > scores["linear"]
    labels = torch.cat([parts.train.labels, torch.full((50,), -1)])
    pixels = torch.cat([parts.train.items, torch.zeros(50, 1, 8, 8, dtype=torch.uint8)])
    mixed = replace(parts, train=replace(parts.train, tensor=pixels, labels=labels, rows=None))
    assert run_probes(model, mixed, draws=3) == scores
    with pytest.raises(ValueError, match="no labels"):
        run_probes(model, replace(parts, evaluation=None))
