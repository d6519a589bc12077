"""Methods train in the library's own loop."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from compare_rivals import GRIDS, NEED_LIGHTLY, ORDER, image_plan
from rivals.steps import Rival, Sizes
from rivals.training import (
    RIVALS,
    ItemBatches,
    RivalSettings,
    RivalSimCLR,
    build_rival,
    train_rival,
)

from bayescl_lab.images.batches import EpochOrder
from bayescl_lab.images.datasets import load_images
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.run import train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings

SHARED = ImageSettings(
    loss=LossSettings("info_nce", {"temperature": 0.3}),
    data="digits",
    max_train_images=128,
    width=4,
    hidden_dim=16,
    embedding_dim=8,
    epochs=2,
    batch_size=32,
    device="cpu",
    evaluate_on="validation",
)


def test_a_loss_of_the_library_gives_the_figures_of_the_library(tmp_path):
    theirs = train_images(SHARED, tmp_path / "library")
    ours = train_rival(RivalSettings("info_nce", {"temperature": 0.3}, SHARED), tmp_path / "ours")
    assert ours["scores"] == theirs["probes"]
    assert ours["loss"] == theirs["loss"]


@pytest.mark.parametrize("method", sorted(RIVALS))
def test_every_method_trains(method, tmp_path):
    if method in NEED_LIGHTLY:
        pytest.importorskip("lightly")
    settings = RivalSettings(method, {}, replace(SHARED, epochs=1))
    result = train_rival(settings, tmp_path / "run")
    assert {"few_label_1", "few_label_5", "knn", "linear"} <= result["scores"].keys()
    assert json.loads((tmp_path / "run" / "result.json").read_text()) == result


def test_a_finished_run_is_read_a_broken_one_starts_anew_another_one_is_refused(tmp_path):
    settings = RivalSettings("glofnd", {"share": 0.2}, replace(SHARED, epochs=1))
    first = train_rival(settings, tmp_path / "run")
    assert train_rival(settings, tmp_path / "run", resume=True) == first
    (tmp_path / "run" / "result.json").unlink()
    again = train_rival(settings, tmp_path / "run", resume=True)
    assert again["scores"] == first["scores"]
    other = RivalSettings("glofnd", {"share": 0.3}, settings.shared)
    with pytest.raises(ValueError, match="other settings"):
        train_rival(other, tmp_path / "run", resume=True)


def test_batches_say_which_images_they_hold():
    train = load_images("digits").train
    order = EpochOrder(len(train), 64, seed=0)
    seen = []
    for batch in ItemBatches(train, order):
        assert torch.equal(batch.images, train.take(batch.items))
        assert torch.equal(batch.labels, train.labels[batch.items])
        seen.append(batch.items)
    assert len(torch.cat(seen).unique()) == len(order) * 64


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="method must be one of info_nce"):
        build_rival(RivalSettings("nothing", {}, SHARED), Sizes(8, 8))


class _Taught(Rival):
    """Compares the teacher with the student, and trains on nothing but the views."""

    momentum = 0.5

    def forward(self, step):
        assert not step.teacher(3).requires_grad
        self.apart = (step.teacher(1) - step.view_1).abs().max().item()
        return step.view_1.square().mean() + step.view_2.square().mean()


def test_the_teacher_starts_as_the_student_and_follows_it(tmp_path):
    train = load_images("digits").train
    model = RivalSimCLR.in_place_of(build_model(SHARED, train, steps_per_epoch=4), _Taught())
    batch = next(iter(ItemBatches(train, EpochOrder(len(train), 32, seed=0))))
    model.trainer = _Trainer()
    model.training_step(batch, 0)
    assert model.loss.apart == 0
    parameter, slow = next(model.encoder.parameters()), next(model.teacher.parameters())
    before = slow.clone()
    with torch.no_grad():
        parameter += 1
    model.trainer.global_step = 1000
    model.on_train_batch_end()
    torch.testing.assert_close(slow, before + 0.5)
    assert not any(one.requires_grad for one in model.teacher.parameters())


class _Trainer:
    """What a module asks of its trainer."""

    current_epoch = 0
    global_step = 0
    global_rank = 0
    barebones = False
    strategy = None


@pytest.mark.parametrize("name", sorted(GRIDS))
def test_plans_give_every_method_the_same_budget_and_know_them_all(name):
    plan = image_plan(name)  # refuses unequal budgets
    assert set(plan.grids) == set(RIVALS)
    assert set(ORDER) == set(plan.grids) | set(plan.recorded)
    assert all(method in plan.titles for method in ORDER)
    settings = plan.settings(
        "fnc_attract", {"top_k": 5}, shared={}, seed=3, evaluate_on="validation"
    )
    assert settings.shared.evaluate_on == "validation"
    assert settings.shared.seed == 3
