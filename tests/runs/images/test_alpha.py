from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from runs.same_run import PowerCut, assert_same_run, cut_power_at, final_state

from bayescl.estimation import LinearRamp, anchor_aucs
from bayescl.functional import unit_vectors
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.alpha import (
    alpha_callback,
    embedded_views,
    labelled_alpha,
    labelled_part,
    unlabelled_alpha,
)
from bayescl_lab.runs.images.run import ImageRun, train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings


def alphas(out) -> list[float]:
    return [row["alpha"] for row in RunFolder(out, "train images").read_metrics()]


def tensors_of(run: ImageRun) -> dict[str, torch.Tensor]:
    state = run.model.state_dict()
    return {name: value.clone() for name, value in state.items() if torch.is_tensor(value)}


def final_alpha(out) -> float:
    return final_state(out)["loss._extra_state"]["alpha"]


pytestmark = pytest.mark.usefixtures("no_probes")


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory) -> Callable[[ImageSettings], Path]:
    """Makes the unbroken run of some settings, once."""
    done: dict[str, Path] = {}

    def find(settings: ImageSettings) -> Path:
        if settings.alpha_schedule not in done:
            out = done[settings.alpha_schedule] = tmp_path_factory.mktemp("unbroken") / "run"
            train_images(settings, out, checkpoint_every_steps=1)
        return done[settings.alpha_schedule]

    return find


@pytest.fixture
def changing(settings) -> ImageSettings:
    """Settings with an alpha that is measured every second epoch."""
    return replace(settings, alpha_schedule="measured", alpha_every=2, alpha_reading="auc")


# Two views per step and three steps per epoch; each measurement, in the first epoch and in the
# third, draws two views more.
@pytest.mark.parametrize(
    ("schedule", "call"), [("ramp", 11), ("measured", 2), ("measured", 16), ("label-free", 18)]
)
def test_a_run_cut_off_anywhere_goes_on_with_the_same_alpha(
    changing, unbroken, tmp_path, monkeypatch, schedule, call
) -> None:
    settings = replace(changing, alpha_schedule=schedule)
    with monkeypatch.context() as patch:
        cut_power_at(patch, call)
        with pytest.raises(PowerCut):
            train_images(settings, tmp_path / "broken", checkpoint_every_steps=1)
    train_images(settings, tmp_path / "broken", resume=True, checkpoint_every_steps=1)
    assert_same_run(tmp_path / "broken", unbroken(settings))
    assert final_alpha(tmp_path / "broken") == alphas(unbroken(settings))[-1]


def test_alpha_follows_the_ramp_or_is_measured_as_often_as_asked(changing, unbroken) -> None:
    run = unbroken(replace(changing, alpha_schedule="ramp"))
    ramp = LinearRamp.over(4, 0.8)
    assert alphas(run) == pytest.approx([ramp.value(epoch) for epoch in range(4)])
    assert final_alpha(run) == 0.8
    first, second, third, last = alphas(unbroken(changing))
    assert first == second != third == last
    assert 0.5 < min(first, third) <= max(first, third) <= 1


def test_measuring_changes_neither_model_nor_generator(settings) -> None:
    run = ImageRun(settings)
    run.model.train()
    before = tensors_of(run)
    generator = torch.get_rng_state()
    for schedule in ("measured", "label-free"):
        callback = alpha_callback(replace(settings, alpha_schedule=schedule), run.parts.train)
        assert callback is not None
        measured = [callback.source(run.model, epoch) for epoch in (3, 3, 4)]
        assert measured[0] == measured[1]
        assert all(0.5 <= alpha <= 1 for alpha in measured)
    assert run.model.training
    assert torch.equal(torch.get_rng_state(), generator)
    after = tensors_of(run)
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_alpha_with_labels_is_the_auc_of_the_views_of_that_part(settings) -> None:
    run = ImageRun(settings)
    part = labelled_part(run.parts.train, per_class=6, seed=1)
    view_1, view_2 = embedded_views(run.model, part, 1, 5)
    scores = unit_vectors(view_1) @ unit_vectors(view_2).T
    same = part.labels[:, None] == part.labels
    others = ~torch.eye(len(part), dtype=torch.bool)
    auc = float(anchor_aucs(scores, same, valid=others).mean())
    measured = {
        reading: labelled_alpha(run.model, 5, images=part, reading=reading, seed=1)
        for reading in ("auc", "model")
    }
    assert measured["auc"] == pytest.approx(max(auc, 0.5))
    model = min(1.0, max(0.5, 0.5 + 1.5 * (auc - 0.5)))
    assert measured["model"] == pytest.approx(model)


def test_without_labels_no_label_is_looked_at(settings) -> None:
    run = ImageRun(settings)
    images = run.parts.train
    shuffled = replace(images, labels=images.labels.flip(0))
    for size in (20, 512):
        own = unlabelled_alpha(run.model, 0, images=images, size=size)
        assert own == unlabelled_alpha(run.model, 0, images=shuffled, size=size)


def test_the_labelled_part_is_stratified_and_of_training_images_of_known_class(settings) -> None:
    images = ImageRun(settings).parts.train
    part = labelled_part(images, per_class=5, seed=3)
    assert part.labels.bincount().tolist() == [5, 5, 5]
    again = labelled_part(images, per_class=5, seed=3)
    assert torch.equal(part.images, again.images)
    pixels = {image.numpy().tobytes() for image in images.images}
    assert all(image.numpy().tobytes() in pixels for image in part.images)
    assert len(labelled_part(images, per_class=1000)) == len(images)
    labels = images.labels.clone()
    labels[labels == 2] = -1
    known = labelled_part(replace(images, labels=labels), per_class=4)
    assert known.labels.unique().tolist() == [0, 1]
    labels[:] = -1
    with pytest.raises(ValueError, match="needs two classes with two labelled images each"):
        labelled_part(replace(images, labels=labels))


def test_settings_name_the_schedule_where_there_is_one_and_it_makes_sense(settings) -> None:
    with pytest.raises(ValueError, match="alpha_schedule must be fixed for the loss info_nce"):
        replace(settings, loss=LossSettings("info_nce"), alpha_schedule="ramp")
    hardest = LossSettings("bayesian", {"alpha": 0.7, "beta": 1.0})
    with pytest.raises(ValueError, match="beta must be below 1 if alpha is measured"):
        replace(settings, loss=hardest, alpha_schedule="measured")
    with pytest.raises(ValueError, match="Input should be 'fixed', 'ramp', 'measured'"):
        replace(settings, alpha_schedule="cosine")
    assert not any(name.startswith("alpha_") for name in settings.as_config())
    measured = replace(settings, alpha_schedule="measured", alpha_reading="auc", alpha_every=3)
    config = measured.as_config()
    assert config["alpha_schedule"] == "measured"
    assert ImageSettings.from_config(config).as_config() == config
