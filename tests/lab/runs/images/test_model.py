"""What the settings of a run make of encoder, views, optimizer and the loop around them."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from bayescl_lab.images.augmentation import AffineNoise
from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation
from bayescl_lab.items.probes import augmented_linear_probe
from bayescl_lab.runs.images.image_run import ImageRun
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.images.model import build_augmentation
from bayescl_lab.runs.losses import LossSettings

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
