import pytest
import torch

import bayescl
from bayescl.diagnostics import candidate_weights, score_candidates

LOSSES = [
    bayescl.InfoNCELoss(temperature=0.3),
    bayescl.DebiasedContrastiveLoss(temperature=0.3, tau_plus=0.2),
    bayescl.HardContrastiveLoss(temperature=0.3, tau_plus=0.2, concentration=0.7),
    bayescl.BayesianContrastiveLoss(temperature=0.3, tau_plus=0.2, alpha=0.8, beta=0.7),
    bayescl.BayesianContrastiveLoss(temperature=0.3, alpha=0.8, ranks="upper"),
]


@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_scored_is_what_the_loss_is_computed_from(loss, views):
    view_1, view_2, labels = views
    scored = score_candidates(loss, view_1, view_2, labels=labels)
    values = scored.objective(scored.positive, scored.unlabeled, valid=scored.valid)
    torch.testing.assert_close(values.mean(), loss(view_1, view_2))
    if loss not in LOSSES[1:3]:  # a softmax with the weights that are shown
        sums = (candidate_weights(scored) * scored.unlabeled.exp()).sum(dim=1)
        values = -(scored.positive - (scored.positive.exp() + sums).log())
        torch.testing.assert_close(values.mean(), loss(view_1, view_2))


def test_the_hard_loss_corrects_the_sum_with_the_weights_that_are_shown(views):
    loss = LOSSES[2]
    scored = score_candidates(loss, *views[:2])
    count = scored.valid.sum(dim=1)
    sums = (candidate_weights(scored) * scored.unlabeled.exp()).sum(dim=1)
    rest = (sums - count * 0.2 * scored.positive.exp()) / 0.8
    rest = torch.maximum(rest, count * torch.tensor(-1 / 0.3).exp())
    values = (1 + rest / scored.positive.exp()).log()
    torch.testing.assert_close(values.mean(), loss(*views[:2]))


def test_the_oracles_weights_leave_false_negatives_out(views):
    view_1, view_2, labels = views
    loss = bayescl.OracleContrastiveLoss()
    scored = score_candidates(loss, view_1, view_2, labels=labels)
    weights = candidate_weights(scored)
    assert torch.equal(weights, (scored.valid & ~scored.truth).float())
    values = (1 + (weights * scored.unlabeled.exp()).sum(dim=1) / scored.positive.exp()).log()
    torch.testing.assert_close(values.mean(), loss(view_1, view_2, groups=labels))
    with pytest.raises(ValueError, match="false negatives are unknown"):
        candidate_weights(score_candidates(loss, view_1, view_2))


def test_labels_mark_items_of_the_anchors_class_but_not_its_own_views_or_duplicates(views):
    view_1, view_2, labels = views
    items, classes = torch.arange(24).repeat(2), labels.repeat(2)
    same = classes[:, None] == classes
    for options, own in (({}, items), ({"groups": torch.arange(24) // 2}, items // 2)):
        scored = score_candidates(LOSSES[3], view_1, view_2, labels=labels, **options)
        assert torch.equal(scored.valid, own[:, None] != own)
        assert torch.equal(scored.truth, scored.valid & same)


def test_pairs_and_drawn_candidates_are_marked_too(views):
    anchors, positives, labels = views
    scored = score_candidates(LOSSES[0], anchors, positives, labels=labels, layout="in_batch")
    assert torch.equal(scored.truth, (labels[:, None] == labels) & scored.valid)
    assert not bool(scored.valid.diagonal().any())

    own = torch.stack([positives.roll(shift, 0) for shift in range(1, 6)], dim=1)
    truth = labels[:, None] == torch.stack([labels.roll(shift) for shift in range(1, 6)], dim=1)
    known = {"false_negative": truth, "layout": "sampled"}
    drawn = score_candidates(LOSSES[0], anchors, positives, own, **known)
    assert torch.equal(drawn.truth, truth)
    assert bool(drawn.valid.all())


def test_a_learnable_temperature_is_the_one_in_use(views):
    temperature = bayescl.LearnableTemperature(0.5)
    loss = bayescl.InfoNCELoss(temperature=temperature)
    before = score_candidates(loss, *views[:2])
    with torch.no_grad():
        for parameter in temperature.parameters():
            parameter.add_(0.3)
    after = score_candidates(loss, *views[:2])
    ratio = 0.5 / float(temperature().detach())
    torch.testing.assert_close(after.positive, before.positive * ratio)


def test_what_cannot_be_scored_is_refused(views):
    view_1, view_2, labels = views
    with pytest.raises(ValueError, match="layout must be one of two_views, views, in_batch"):
        score_candidates(LOSSES[0], view_1, view_2, layout="pairs")
    with pytest.raises(ValueError, match="score one direction at a time"):
        score_candidates(LOSSES[0], view_1, view_2, layout="in_batch", both_directions=True)
    for embeddings, options in (
        ((view_1[:, 0], view_1), {"layout": "logits"}),
        ((view_1, view_2, view_1), {"layout": "sampled"}),
        ((view_1, view_2), {"layout": "in_batch", "extra": view_1}),
    ):
        with pytest.raises(ValueError, match="labels must be None if false_negative is given"):
            score_candidates(LOSSES[0], *embeddings, labels=labels, **options)
    plain = bayescl.ContrastiveLoss(bayescl.functional.info_nce_loss)
    scored = score_candidates(plain, view_1, view_2)
    with pytest.raises(TypeError, match="objective must be a LogSumObjective, got function"):
        candidate_weights(scored)
