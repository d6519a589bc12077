"""What each method of ``benchmarks/rivals`` computes, against closed forms and loops."""

from __future__ import annotations

import math

import pytest
import torch
from rivals.fnc import FNC, cancelled_loss, found_false_negatives
from rivals.glofnd import GloFND, kept_candidates_loss
from rivals.steps import PlainLoss, Sizes, Step, two_view_logits
from torch.nn import functional as F

import bayescl

BATCH, DIM = 6, 8
LABELS = torch.tensor([0, 0, 1, 1, 1, 2])


def views(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(BATCH, DIM, generator=generator),
        torch.randn(BATCH, DIM, generator=generator),
    )


def step_of(view_1, view_2, *, progress: float = 0.5, teacher=None) -> Step:
    return Step(view_1, view_2, torch.arange(len(view_1)), LABELS, progress, teacher)


def class_teacher(view: int) -> torch.Tensor:
    """A teacher that sees the class and nothing else."""
    del view
    return F.one_hot(LABELS, 3).float() @ torch.eye(3, DIM)


def rows_of(view_1, view_2):
    return list(F.normalize(torch.cat([view_1, view_2]), dim=1))


def test_pairs_of_rows_are_themselves_positives_or_candidates():
    pairs = two_view_logits(*views(), 0.5)
    itself = torch.eye(2 * BATCH, dtype=torch.bool)
    assert torch.equal(pairs.positive | pairs.candidate, ~itself)
    assert not (pairs.positive & pairs.candidate).any()
    assert (pairs.positive.sum(1) == 1).all()


def test_a_plain_loss_gets_labels_only_where_it_needs_them():
    view_1, view_2 = views()
    step = step_of(view_1, view_2)
    for loss, groups in ((bayescl.InfoNCELoss(), None), (bayescl.OracleContrastiveLoss(), LABELS)):
        options = {} if groups is None else {"groups": groups}
        assert torch.equal(PlainLoss(loss)(step), loss(view_1, view_2, **options))


def test_false_negatives_are_among_the_best_and_above_the_threshold():
    score = torch.tensor([[0.9, 0.8, 0.3, 0.95]])
    candidate = torch.tensor([[True, True, True, False]])
    best_two = found_false_negatives(score, candidate, top_k=2, threshold=0.5)
    assert best_two.tolist() == [[True, True, False, False]]
    strict = found_false_negatives(score, candidate, top_k=2, threshold=0.85)
    assert strict.tolist() == [[True, False, False, False]]
    one = found_false_negatives(score, candidate, top_k=1, threshold=0.0)
    assert one.tolist() == [[True, False, False, False]]


def test_cancellation_in_closed_form():
    logits = torch.tensor([[1.0, 2.0, 0.0]])
    marks = {
        "positive": torch.tensor([[True, False, False]]),
        "candidate": torch.tensor([[False, True, True]]),
        "false_negative": torch.tensor([[False, True, False]]),
    }
    eliminated = cancelled_loss(logits, **marks, attract=False)
    torch.testing.assert_close(eliminated, torch.tensor([math.log(1 + math.exp(-1.0))]))
    attracted = cancelled_loss(logits, **marks, attract=True)
    expected = math.log(math.e + math.e**2 + 1) - 1.5
    torch.testing.assert_close(attracted, torch.tensor([expected]))


def test_fnc_whose_teacher_knows_the_classes_is_the_oracle():
    view_1, view_2 = views()
    rival = FNC(Sizes(BATCH, DIM), temperature=0.3, mode="eliminate", top_k=99, threshold=0.5)
    loss = rival(step_of(view_1, view_2, teacher=class_teacher))
    oracle = bayescl.OracleContrastiveLoss(temperature=0.3)(view_1, view_2, groups=LABELS)
    torch.testing.assert_close(loss, oracle)


@pytest.mark.parametrize("mode", ["eliminate", "attract"])
def test_fnc_that_finds_nothing_is_info_nce(mode):
    view_1, view_2 = views()
    rival = FNC(Sizes(BATCH, DIM), temperature=0.3, mode=mode, threshold=2.0)
    loss = rival(step_of(view_1, view_2, teacher=class_teacher))
    torch.testing.assert_close(loss, bayescl.InfoNCELoss(temperature=0.3)(view_1, view_2))


def test_attracting_fnc_is_the_mean_over_what_it_found():
    view_1, view_2 = views()
    rival = FNC(Sizes(BATCH, DIM), temperature=0.3, mode="attract", top_k=99, threshold=0.5)
    rows, label = rows_of(view_1, view_2), LABELS.repeat(2).tolist()
    losses = []
    for i in range(2 * BATCH):
        logit = {j: float(rows[i] @ rows[j]) / 0.3 for j in range(2 * BATCH) if j != i}
        total = math.log(sum(math.exp(value) for value in logit.values()))
        pulled = [value for j, value in logit.items() if label[j] == label[i]]
        losses.append(total - sum(pulled) / len(pulled))
    loss = rival(step_of(view_1, view_2, teacher=class_teacher))
    torch.testing.assert_close(loss, torch.tensor(losses).mean())


def test_fnc_scores_against_the_teachers_memory_of_earlier_batches():
    view_1, view_2 = views()
    slow = {view: torch.randn(BATCH, DIM) for view in (1, 2, 3)}
    rival = FNC(
        Sizes(BATCH, DIM), temperature=0.3, mode="eliminate", threshold=2.0, support=1, memory=40
    )
    first = rival(step_of(view_1, view_2, teacher=slow.__getitem__))
    assert int(rival.filled) == 3 * BATCH
    columns = F.normalize(torch.cat([slow[1], slow[2], slow[3]]), dim=1)
    losses = []
    for i, row in enumerate(rows_of(view_1, view_2)):
        item, view = i % BATCH, i // BATCH
        own, positive = view * BATCH + item, [v * BATCH + item for v in range(3) if v != view]
        logit = {j: float(row @ columns[j]) / 0.3 for j in range(len(columns)) if j != own}
        total = math.log(sum(math.exp(value) for value in logit.values()))
        losses.append(total - sum(logit[j] for j in positive) / 2)
    torch.testing.assert_close(first, torch.tensor(losses).mean())
    second = rival(step_of(view_1, view_2, teacher=slow.__getitem__))
    assert second > first  # the earlier batch is in the denominator now


def test_glofnd_is_info_nce_until_it_starts():
    view_1, view_2 = views()
    rival = GloFND(Sizes(BATCH, DIM), temperature=0.3, start=0.5)
    loss = rival(step_of(view_1, view_2, progress=0.4))
    torch.testing.assert_close(loss, bayescl.InfoNCELoss(temperature=0.3)(view_1, view_2))
    assert torch.equal(rival.updates, torch.zeros(BATCH))


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


def test_a_threshold_starts_at_its_quantile_and_follows_it():
    view_1, view_2 = views()
    rival = GloFND(Sizes(BATCH, DIM), share=0.2, start=0.0, rate=0.01)
    rival(step_of(view_1, view_2))
    pairs = two_view_logits(view_1, view_2, 0.5)
    similarity = pairs.similarity[pairs.candidate].view(2, BATCH, -1).transpose(0, 1).flatten(1)
    torch.testing.assert_close(rival.threshold, similarity.quantile(0.8, dim=1))
    rival.threshold.fill_(-1.0)  # everything is above: thresholds must rise
    for _ in range(400):
        rival(step_of(view_1, view_2))
    above = (similarity > rival.threshold[:, None]).float().mean(1)
    assert ((above - 0.2).abs() < 0.11).all()  # one in twenty on either side, and a swing


def test_only_items_of_the_batch_learn():
    view_1, view_2 = views()
    rival = GloFND(Sizes(20, DIM), start=0.0)
    items = torch.tensor([3, 4, 5, 6, 7, 8])
    rival(Step(view_1, view_2, items, LABELS, 0.5))
    assert rival.updates.nonzero().squeeze(1).tolist() == items.tolist()
    assert (rival.threshold[:3] == 1).all()


def test_nnclr_whose_neighbours_are_the_views_is_info_nce():
    pytest.importorskip("lightly")
    from rivals.from_lightly import NNCLR

    view_1, view_2 = views()
    rival = NNCLR(Sizes(BATCH, DIM), temperature=0.3, queue=2 * BATCH)
    rival.predict = torch.nn.Identity()
    rival.neighbour.bank.copy_(F.normalize(torch.cat([view_1, view_2]), dim=1))
    loss = rival(step_of(view_1, view_2))
    torch.testing.assert_close(loss, bayescl.InfoNCELoss(temperature=0.3)(view_1, view_2))


def test_swav_with_even_assignments_predicts_the_uniform_distribution():
    pytest.importorskip("lightly")
    from rivals.from_lightly import SwAV

    view_1, view_2 = views()
    rival = SwAV(Sizes(BATCH, DIM), temperature=0.2, epsilon=1e6, prototypes=4)
    loss = rival(step_of(view_1, view_2))
    with torch.no_grad():
        logits = [rival.prototypes(F.normalize(view, dim=1)) / 0.2 for view in (view_1, view_2)]
    expected = -torch.stack([F.log_softmax(one, dim=1).mean() for one in logits]).mean()
    torch.testing.assert_close(loss.detach(), expected, rtol=1e-4, atol=1e-4)


def test_swav_remembers_both_views_apart():
    pytest.importorskip("lightly")
    from rivals.from_lightly import SwAV

    view_1, view_2 = views()
    rival = SwAV(Sizes(BATCH, DIM), prototypes=4, queue=BATCH)
    rival(step_of(view_1, view_2))
    torch.testing.assert_close(rival.queue, F.normalize(torch.stack([view_1, view_2]), dim=2))
    assert rival(step_of(view_1, view_2)).requires_grad
