"""What each method of ``benchmarks/rivals`` computes, and that it trains in the library's loop."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from compare_rivals import NEED_LIGHTLY, ORDER, image_plan, train_planned
from rivals.methods import (
    FNC,
    NNCLR,
    GloFND,
    PlainLoss,
    Rival,
    Step,
    SwAV,
    best_candidates,
    kept_candidates_loss,
    two_view_logits,
)
from rivals.training import RIVALS, RivalSimCLR, build_rival, train_rival
from torch.nn import functional as F

import bayescl
from bayescl_lab.images.batches import EpochOrder, StoreBatches
from bayescl_lab.images.datasets import load_images
from bayescl_lab.runs.images.model import build_model
from bayescl_lab.runs.images.run import train_images
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings

BATCH, DIM = 6, 8
LABELS = torch.tensor([0, 0, 1, 1, 1, 2])


def views() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, BATCH, DIM, generator=generator).unbind()


def step_of(view_1, view_2, *, progress: float = 0.5, teacher=None) -> Step:
    return Step(view_1, view_2, torch.arange(len(view_1)), LABELS, progress, teacher)


def class_teacher(_: int) -> torch.Tensor:
    """A teacher that sees the class and nothing else."""
    return F.one_hot(LABELS, 3).float() @ torch.eye(3, DIM)


def test_a_plain_loss_gets_labels_only_where_it_needs_them():
    view_1, view_2 = views()
    step = step_of(view_1, view_2)
    for loss, groups in ((bayescl.InfoNCELoss(), None), (bayescl.OracleContrastiveLoss(), LABELS)):
        options = {} if groups is None else {"groups": groups}
        assert torch.equal(PlainLoss(loss)(step), loss(view_1, view_2, **options))


def test_false_negatives_are_among_the_best_and_above_the_threshold():
    score = torch.tensor([[0.9, 0.8, 0.3, 0.95]])
    candidate = torch.tensor([[True, True, True, False]])
    for top_k, threshold, wanted in ((2, 0.5, [0, 1]), (2, 0.85, [0]), (1, 0.0, [0])):
        best = best_candidates(score, candidate, top_k=top_k, threshold=threshold)
        assert best[0].nonzero().flatten().tolist() == wanted


@pytest.mark.parametrize("mode", ["eliminate", "attract"])
def test_fnc_is_the_oracle_if_its_teacher_knows_classes_and_info_nce_if_it_finds_nothing(mode):
    view_1, view_2 = views()
    step = step_of(view_1, view_2, teacher=class_teacher)
    blind = FNC(BATCH, DIM, temperature=0.3, mode=mode, threshold=2.0)
    torch.testing.assert_close(blind(step), bayescl.InfoNCELoss(temperature=0.3)(view_1, view_2))
    knowing = FNC(BATCH, DIM, temperature=0.3, mode=mode, top_k=99, threshold=0.5)(step)
    if mode == "eliminate":
        oracle = bayescl.OracleContrastiveLoss(temperature=0.3)(view_1, view_2, groups=LABELS)
        torch.testing.assert_close(knowing, oracle)
        return
    rows, label = F.normalize(torch.cat([view_1, view_2]), dim=1), LABELS.repeat(2).tolist()
    losses = []
    for i in range(2 * BATCH):
        logit = {j: float(rows[i] @ rows[j]) / 0.3 for j in range(2 * BATCH) if j != i}
        total = math.log(sum(math.exp(value) for value in logit.values()))
        pulled = [value for j, value in logit.items() if label[j] == label[i]]
        losses.append(total - sum(pulled) / len(pulled))
    torch.testing.assert_close(knowing, torch.tensor(losses).mean())


def test_kept_candidates_stand_for_all():
    pairs = two_view_logits(*views(), 0.5)
    kept = pairs.candidate.clone()
    kept[0, pairs.candidate[0].nonzero()[:4]] = False
    row = pairs.logits[0]
    size = int(pairs.candidate[0].sum())
    rest = row[kept[0]].exp().sum() * size / (size - 4)
    positive = row[pairs.positive[0]].exp().squeeze()
    losses = kept_candidates_loss(pairs, kept)
    torch.testing.assert_close(losses[0], -torch.log(positive / (positive + rest)))
    none = kept_candidates_loss(pairs, torch.zeros_like(kept))
    assert torch.equal(none, torch.zeros(2 * BATCH))


def test_thresholds_of_a_batchs_items_start_at_their_quantiles_and_follow_them():
    view_1, view_2 = views()
    rival = GloFND(BATCH, DIM, share=0.2, start=0.5, rate=0.01)
    before = rival(step_of(view_1, view_2, progress=0.4))
    torch.testing.assert_close(before, bayescl.InfoNCELoss()(view_1, view_2))
    assert torch.equal(rival.updates, torch.zeros(BATCH))
    rival(step_of(view_1, view_2))
    pairs = two_view_logits(view_1, view_2, 0.5)
    similarity = pairs.similarity[pairs.candidate].view(2, BATCH, -1).transpose(0, 1).flatten(1)
    torch.testing.assert_close(rival.threshold, similarity.quantile(0.8, dim=1))
    rival.threshold.fill_(-1.0)  # everything is above: thresholds must rise
    for _ in range(400):
        rival(step_of(view_1, view_2))
    above = (similarity > rival.threshold[:, None]).float().mean(1)
    assert ((above - 0.2).abs() < 0.11).all()  # one in twenty on either side, and a swing
    rival = GloFND(20, DIM, start=0.0)
    items = torch.tensor([3, 4, 5, 6, 7, 8])
    rival(Step(view_1, view_2, items, LABELS, 0.5))
    assert rival.updates.nonzero().squeeze(1).tolist() == items.tolist()
    assert (rival.threshold[:3] == 1).all()


def test_nnclr_with_the_views_as_neighbours_is_info_nce_and_even_swav_predicts_uniformly():
    pytest.importorskip("lightly")
    view_1, view_2 = views()
    rival = NNCLR(BATCH, DIM, temperature=0.3, queue=2 * BATCH)
    rival.predict = torch.nn.Identity()
    rival.neighbour.bank.copy_(F.normalize(torch.cat([view_1, view_2]), dim=1))
    loss = rival(step_of(view_1, view_2))
    torch.testing.assert_close(loss, bayescl.InfoNCELoss(temperature=0.3)(view_1, view_2))
    rival = SwAV(BATCH, DIM, temperature=0.2, epsilon=1e6, prototypes=4)
    loss = rival(step_of(view_1, view_2))
    with torch.no_grad():
        logits = [rival.prototypes(F.normalize(view, dim=1)) / 0.2 for view in (view_1, view_2)]
    expected = -torch.stack([F.log_softmax(side, dim=1).mean() for side in logits]).mean()
    torch.testing.assert_close(loss.detach(), expected, rtol=1e-4, atol=1e-4)


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
    ours = train_rival(SHARED, "info_nce", {"temperature": 0.3})
    assert (ours["scores"], ours["loss"]) == (theirs["probes"], theirs["loss"])


@pytest.mark.parametrize("method", sorted({*RIVALS} - {"fnc_eliminate"}))
def test_every_method_trains(method, monkeypatch):
    if method in NEED_LIGHTLY:
        pytest.importorskip("lightly")
    # Probes are the same for all, and take longer than the training.
    monkeypatch.setattr("rivals.training.run_probes", lambda *_: {})
    assert math.isfinite(train_rival(replace(SHARED, epochs=1), method, {})["loss"])


class _Taught(Rival):
    """Compares the teacher with the student, and trains on nothing but the views."""

    momentum = 0.5

    def forward(self, step):
        assert not step.teacher(3).requires_grad
        self.apart = (step.teacher(1) - step.view_1).abs().max().item()
        self.items, self.labels = step.items, step.labels
        return step.view_1.square().mean() + step.view_2.square().mean()


def test_items_are_places_in_the_data_and_the_teacher_follows_the_student():
    train = load_images("digits").train
    model = RivalSimCLR(build_model(SHARED, train, steps_per_epoch=4), _Taught())
    order, everyone = EpochOrder(len(train), 32, seed=0), torch.arange(len(train))
    batch = next(iter(StoreBatches(train, order, {"items": everyone})))
    asked = {"current_epoch": 0, "global_step": 0, "global_rank": 0, "barebones": False}
    model.trainer = SimpleNamespace(**asked, strategy=None)
    model.training_step(batch, 0)
    assert model.loss.apart == 0
    assert torch.equal(train.take(model.loss.items), batch.images)
    assert torch.equal(train.labels[model.loss.items], model.loss.labels)
    parameter, slow = next(model.encoder.parameters()), next(model.teacher.parameters())
    before = slow.clone()
    with torch.no_grad():
        parameter += 1
    model.trainer.global_step = 1000
    model.on_train_batch_end()
    torch.testing.assert_close(slow, before + 0.5)
    assert not any(weight.requires_grad for weight in model.teacher.parameters())


def test_the_plan_gives_every_method_the_same_budget_and_knows_them_all(monkeypatch):
    plan = image_plan()  # refuses unequal budgets
    assert set(plan.grids) == set(RIVALS)
    assert set(ORDER) == set(plan.grids) | set(plan.recorded)
    assert all(method in plan.titles for method in ORDER)
    with pytest.raises(ValueError, match="method must be one of info_nce"):
        build_rival("nothing", {}, 8, 8)
    given = []
    monkeypatch.setattr("compare_rivals.train_rival", lambda *values: given.append(values) or {})
    train_planned("glofnd", 3, "validation", **image_plan(epochs=1).fixed, share=0.2)
    ((settings, method, values),) = given
    assert (settings.evaluate_on, settings.seed, settings.epochs) == ("validation", 3, 1)
    assert (method, values) == ("glofnd", {"share": 0.2})
