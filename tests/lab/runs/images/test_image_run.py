"""Runs on images: what settings, domains, labels and teachers make of them."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from runs.same_run import rows_of

from bayescl_lab.images.augmentation import AffineNoise
from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation
from bayescl_lab.items.probes import augmented_linear_probe
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.image_run import ImageRun, build_augmentation, train_images
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.loop import AtomicCheckpointIO
from bayescl_lab.runs.losses import LossSettings
from bayescl_lab.runs.result import Result
from bayescl_lab.runs.weights import read_checkpoint


def first_rows(run: ImageRun) -> torch.Tensor:
    """The rows of a run's first batch."""
    return next(iter(run.batches.sampler))


def test_losses_of_one_seed_start_alike_and_see_the_same_views(settings):
    other = replace(settings, loss=LossSettings("oracle"))
    runs = [ImageRun(it) for it in (settings, other, replace(settings, seed=1))]
    states = [run.model.encoder.state_dict() for run in runs]
    for name, value in states[0].items():
        assert torch.equal(value, states[1][name])
    first = "layers.0.weight"
    assert not torch.equal(states[0][first], states[2][first])
    images = [next(iter(run.batches)).items for run in runs]
    assert torch.equal(images[0], images[1])
    assert not torch.equal(images[0], images[2])
    models = [run.model for run in runs[:2]]
    embeddings = [model.encode_views(model.draw_views(images[0], (1,), 0)[0]) for model in models]
    assert torch.equal(*embeddings)


@pytest.mark.usefixtures("no_probes")
def test_a_loss_knows_the_labels_drawn_and_the_oracle_knows_all(settings):
    some = replace(settings, labels_per_class=3)
    runs = [ImageRun(replace(some, seed=seed)) for seed in (0, 0, 1)]
    labels, classes = runs[0].parts.train.labels, len(runs[0].parts.train.class_names)
    for run in runs:
        known = run.known["labels"]
        drawn = known >= 0
        assert known[drawn].bincount().tolist() == [3] * classes
        assert torch.equal(known[drawn], labels[drawn])
    assert torch.equal(runs[0].known["labels"], runs[1].known["labels"])
    assert not torch.equal(runs[0].known["labels"], runs[2].known["labels"])
    result = runs[0].results()
    assert f"labels of {3 * classes} of {len(labels)}" in result.remarks[-1]
    assert some.as_config()["labels_per_class"] == 3
    other = replace(some, loss=LossSettings("oracle"))
    assert ImageRun(other).known == {}
    assert other.as_config()["labels_per_class"] == 3
    with pytest.raises(ValueError, match="labels_per_class must be at most"):
        _ = ImageRun(replace(some, labels_per_class=10**6)).known


def test_domains_reach_the_loss_and_data_without_any_are_refused(settings, tmp_path):
    with np.load(settings.data) as held:
        np.savez(tmp_path / "batches.npz", **held, domains=np.arange(90) % 3)
    known = replace(settings, data=str(tmp_path / "batches.npz"), domains=True)
    run = ImageRun(known)
    batch = next(iter(run.batches))
    assert list(batch.known) == ["domains"]
    assert batch.known["domains"].tolist() == run.parts.train.domains[first_rows(run)].tolist()
    with pytest.raises(ValueError, match="has no domains: give a column of a table"):
        _ = ImageRun(replace(settings, domains=True)).known


def test_training_separates_the_classes_of_plain_bars(settings, tmp_path):
    result = train_images(replace(settings, epochs=12), tmp_path / "run")
    assert result.row.scores["few_label_5"].mean > 0.9


def test_a_result_says_what_it_rests_on(settings, trained):
    folder = RunFolder.find(trained(settings))
    result = Result.read_file(folder.result_file)
    assert result.settings["alpha"] == 0.8
    assert "alpha" not in rows_of(folder.path)[0]  # only one that changes has a column
    assert result.sizes == {"train": 63, "test": 27}
    assert {"python", "torch", "lightning", "bayescl"} <= result.origin["versions"].keys()
    assert {"cpu", "threads", "gpu"} <= result.origin["hardware"].keys()
    assert result.row.seconds.mean > 0
    resolved = LossSettings("bayesian", settings.loss.resolved())
    stored = {**result.settings, "data": settings.data}
    assert ImageSettings.from_config(stored) == replace(settings, loss=resolved)


def test_the_checkpoint_holds_no_code(settings, trained, tmp_path):
    file = trained(settings) / "checkpoints" / "last.ckpt"
    assert torch.load(file, weights_only=True)["epoch"] == settings.epochs - 1
    folder = RunFolder.create(tmp_path / "run", "train images", {})
    AtomicCheckpointIO(folder).save_checkpoint({"callback": ImageSettings}, folder.checkpoint)
    with pytest.raises(ValueError, match="holds more than weights"):
        read_checkpoint(folder)


@pytest.mark.usefixtures("no_probes")
def test_embeddings_of_a_file_teach(settings, tmp_path):
    embeddings = np.random.default_rng(0).normal(size=(63, 3))
    np.save(tmp_path / "embeddings.npy", embeddings)
    taught = replace(settings, teacher=str(tmp_path / "embeddings.npy"))
    run = ImageRun(taught)
    teacher = next(iter(run.batches)).known["teacher"]
    np.testing.assert_allclose(teacher, embeddings[first_rows(run)], rtol=1e-6)
    losses = []
    for name, one in (("file", taught), ("run", settings)):
        train_images(one, tmp_path / name)
        losses.append(rows_of(tmp_path / name)[-1]["loss"])
    assert losses[0] != losses[1]


@pytest.mark.parametrize(
    ("embeddings", "message"),
    [
        (np.zeros((5, 3)), "one embedding per training item, got 5 in .* for 63 images"),
        (np.full((63, 3), np.nan), "teacher must be finite"),
        (np.zeros(63), "it must have 2 dimensions"),
    ],
)
def test_a_teacher_that_does_not_fit_is_refused(embeddings, message, settings, tmp_path):
    np.save(tmp_path / "embeddings.npy", embeddings)
    with pytest.raises(ValueError, match=message):
        _ = ImageRun(replace(settings, teacher=str(tmp_path / "embeddings.npy"))).known


PLAIN = ImageSettings(loss=LossSettings("info_nce"), device="cpu")


def test_drawings_get_affine_noise_and_photographs_the_recipe_unless_one_is_chosen():
    for shape in ((1, 8, 8), (1, 32, 32)):
        assert isinstance(build_augmentation(PLAIN, shape), AffineNoise)
    for shape in ((1, 33, 32), (3, 8, 8)):
        assert isinstance(build_augmentation(PLAIN, shape), SimCLRAugmentation)
    for shape, strength in (((1, 8, 8), 0.75), ((3, 8, 8), 1.0)):
        assert build_augmentation(PLAIN, shape).strength == strength
        assert build_augmentation(replace(PLAIN, strength=0.3), shape).strength == 0.3
    chosen = replace(PLAIN, augmentation="simclr", view_size=6)
    images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    assert build_augmentation(chosen, (1, 8, 8))(images, seed=0).shape == (2, 1, 6, 6)
    affine = replace(PLAIN, augmentation="affine")
    assert isinstance(build_augmentation(affine, (3, 64, 64)), AffineNoise)
    with pytest.raises(ValueError, match="view_size is only for the simclr augmentation"):
        build_augmentation(replace(PLAIN, view_size=6), (1, 8, 8))


def test_learning_rate_and_dimensions_reach_the_model(settings):
    chosen = replace(settings, lr=2.0, hidden_dim=9, embedding_dim=5)
    model = ImageRun(chosen).model
    assert model.projection_head.layers[0].out_features == 9
    assert model.projection_head.layers[3].out_features == 5
    optimizer = model.configure_optimizers()["optimizer"]
    assert optimizer.param_groups[0]["lr"] == 2.0
    assert optimizer.param_groups[0]["weight_decay"] == 1e-6
    schedule = model.configure_optimizers()["lr_scheduler"]["scheduler"]
    assert schedule.T_max == settings.epochs * 3  # steps of half a cosine
    assert schedule.eta_min == 0


def test_the_papers_linear_probe_can_be_asked_for(settings, monkeypatch):
    short = partial(augmented_linear_probe, epochs=2)
    monkeypatch.setattr("bayescl_lab.items.probes.augmented_linear_probe", short)
    run = ImageRun(replace(settings, linear_protocol="augmented"))
    train, evaluation = run.parts.train, run.parts.evaluation
    expected = short(run.model, train, evaluation)["linear"]
    assert run.evaluate().scores["linear"].mean == expected
