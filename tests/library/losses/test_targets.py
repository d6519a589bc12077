"""Targets of more views, rows of a teacher that know nothing, and what is pointed out or refused.

``test_layouts`` compares targets of every kind with loops, sparse ones and several classes too.
"""

import inspect
from itertools import permutations

import pytest
import torch
from cases import rows
from reference.cases import LOSSES

import bayescl
from bayescl import Margin, Rows, losses
from bayescl.functional import target_probabilities

pytestmark = pytest.mark.filterwarnings("ignore:half of the anchors have at most")
ANCHORS, OTHERS = rows(6, 0).double(), rows(6, 1).double()
TEACHER = rows(6, 2).double()
ONE_IS_ZERO = TEACHER * (torch.arange(6) != 2)[:, None]
LABELS = torch.tensor([0, 1, 0, 2, -1, 1])
DOMAINS = torch.tensor([0, 1, 1, 1, 0, 1])


def test_a_teacher_row_of_zeros_gives_and_gets_no_share():
    """As if the candidate had no teacher, and the anchor no target."""
    similarity = torch.nn.functional.normalize(TEACHER, dim=1)
    similarity = similarity @ similarity.T
    absent = torch.arange(6) == 2
    similarity = similarity.masked_fill(absent[:, None] | absent, -torch.inf)
    similarity.fill_diagonal_(-torch.inf)
    loss = bayescl.InfoNCELoss(temperature=0.2)
    target = target_probabilities(similarity, temperature=0.2)
    assert (target[2] == 0).all()
    torch.testing.assert_close(
        loss.in_batch(ANCHORS, OTHERS, teacher=ONE_IS_ZERO),
        loss.in_batch(ANCHORS, OTHERS, target=target),
    )
    nobody = torch.zeros_like(TEACHER)
    assert torch.equal(loss(ANCHORS, OTHERS, teacher=nobody), loss(ANCHORS, OTHERS))
    margin = Margin(absolute=-0.5, by_teacher=True)
    assert torch.equal(
        loss.in_batch(ANCHORS, OTHERS, teacher=nobody, margin=margin),
        loss.in_batch(ANCHORS, OTHERS),
    )


@pytest.mark.parametrize("engine", ["reference", "blocked"])
@pytest.mark.parametrize("name", list(LOSSES))
def test_more_views_equal_the_mean_over_pairs_of_views(name, engine):
    """Every other view of an item is a positive; rows of other items are candidates."""
    views = [rows(5, seed).double().requires_grad_() for seed in range(4)]
    options = {"oracle": {"groups": LABELS[:5]}, "supervised": {"labels": LABELS[:5]}}.get(name, {})
    loss = LOSSES[name][0](temperature=0.25, engine=engine, normalize=False, chunk_size=3)
    found = loss(*views, **options)
    expected, temperature = [], torch.tensor(0.25, dtype=torch.float64)
    row = LOSSES[name][1](temperature)
    for one, other in permutations(range(4), 2):
        for item in range(5):
            kept = [k for k in range(5) if k != item]
            if name == "oracle" and LABELS[item] >= 0:
                kept = [k for k in kept if LABELS[k] != LABELS[item]]
            anchor = views[one][item]
            candidates = torch.stack([view[k] for view in views for k in kept])
            logits = candidates @ anchor / temperature
            value = row(anchor @ views[other][item] / temperature, logits)
            if name == "supervised":
                same = [LABELS[k] == LABELS[item] >= 0 for _ in views for k in kept]
                members = [j for j, is_same in enumerate(same) if is_same]
                positive = anchor @ views[other][item] / temperature
                value = value + sum((positive - logits[j]) / (len(members) + 1) for j in members)
            expected.append(value)
    mean = torch.stack(expected).mean()
    torch.testing.assert_close(found, mean, rtol=1e-12, atol=0)
    for mine, theirs in zip(
        torch.autograd.grad(found, views), torch.autograd.grad(mean, views), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("default", ["meta"])
def test_a_default_device_of_another_kind_changes_nothing(default):
    """As ``torch.set_default_device`` for a model with lazy or remote parameters."""
    for name, (make, _) in LOSSES.items():
        needed = {"oracle": {"groups": LABELS}, "supervised": {"labels": LABELS}}.get(name, {})
        loss = make(check_finite=True)
        expected = loss(ANCHORS, OTHERS, teacher=TEACHER, **needed)
        with torch.device(default):
            value = loss(ANCHORS, OTHERS, teacher=TEACHER, **needed)
        assert torch.equal(value, expected)
    with torch.device(default):
        assert len(list(bayescl.DomainBatchSampler([0, 0, 1, 1], 2, 1))) == 2


def test_every_loss_shows_the_shared_arguments_with_the_same_defaults():
    """But the supervised loss, whose target has equal parts."""
    shared = dict(inspect.signature(bayescl.ContrastiveLoss).parameters)
    del shared["objective"]
    for name in losses.__all__:
        kind = getattr(losses, name)
        if isinstance(kind, type) and issubclass(kind, bayescl.ContrastiveLoss):
            own = inspect.signature(kind).parameters
            differ = {each for each, argument in shared.items() if own[each] != argument}
            assert differ == ({"positive_share"} if name.startswith("Supervised") else set())
            assert all(argument.kind != argument.VAR_KEYWORD for argument in own.values())


def test_labels_without_effect_are_pointed_out_once():
    loss = bayescl.InfoNCELoss(positive_share=1)
    with pytest.warns(UserWarning, match="labels have no effect with positive_share=1"):
        loss(ANCHORS, OTHERS, labels=LABELS)
    loss(ANCHORS, OTHERS, labels=LABELS)
    assert torch.equal(
        loss(ANCHORS, OTHERS, labels=LABELS, domains=DOMAINS),
        loss(ANCHORS, OTHERS, domains=DOMAINS),
    )


@pytest.mark.parametrize("margin", [{"absolute": 0.1}, {"absolute": 0.0}, {"relative": 1.1}])
def test_a_margin_by_one_teacher_for_both_sides_that_excludes_nothing_is_refused(margin):
    loss, by_teacher = bayescl.InfoNCELoss(), Margin(**margin, by_teacher=True)
    whose = torch.tensor([0, 0, 1, 2, 3, 4])
    for call in (
        lambda: loss(ANCHORS, OTHERS, teacher=TEACHER, margin=by_teacher),
        lambda: loss.in_batch(ANCHORS, OTHERS, teacher=TEACHER, margin=by_teacher),
        lambda: loss.sampled(ANCHORS, OTHERS, Rows(OTHERS), teacher=TEACHER, margin=by_teacher),
    ):
        with pytest.raises(ValueError, match="excludes nothing: anchors and positives have the sa"):
            call()
    other = Rows(ANCHORS, teacher=OTHERS)
    assert loss.in_batch(other, OTHERS, teacher=TEACHER, margin=by_teacher).isfinite()
    one = loss.in_batch(ANCHORS, OTHERS, anchor_of=whose, teacher=TEACHER, margin=by_teacher)
    assert one.isfinite()  # an anchor's second positive has a teacher of its own


@pytest.mark.skipif(not hasattr(torch.nn, "InfoNCELoss"), reason="this PyTorch has no InfoNCELoss")
def test_info_nce_equals_that_of_pytorch():
    theirs = torch.nn.InfoNCELoss(temperature=0.2)(ANCHORS, OTHERS)
    torch.testing.assert_close(
        bayescl.InfoNCELoss(temperature=0.2).in_batch(ANCHORS, OTHERS), theirs
    )
