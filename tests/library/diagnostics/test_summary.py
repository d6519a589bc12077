import pytest
import torch
from reference.process import pair_auc

import bayescl
from bayescl.diagnostics import (
    diagnose,
    score_candidates,
)


def test_on_the_process_what_is_measured_is_what_was_drawn(processed):
    found = diagnose([processed(0.9, 0.1)])
    assert found.measured_tau_plus == pytest.approx(0.1, abs=0.005)
    assert found.measured.auc == pytest.approx(pair_auc(0.9), abs=0.01)
    assert found.measured.model == pytest.approx(0.9, abs=0.015)
    assert found.label_free.model == pytest.approx(0.9, abs=0.025)
    assumed, model, authors = found.posteriors
    assert assumed.ece < 0.008
    assert model.ece < 0.008
    assert authors.ece > 2 * assumed.ece
    # Over all candidates the mean weight is 1; true negatives get more and false ones less.
    assert found.mean_weight_false < 0.95 < 1 < found.mean_weight_true
    mean = 0.9 * found.mean_weight_true + 0.1 * found.mean_weight_false
    assert mean == pytest.approx(1, abs=0.01)


def test_weights_that_fall_with_rank_find_what_logits_find_and_infonce_nothing(processed):
    scored = processed(0.9, 0.1, anchors=400)
    found = diagnose([scored])
    assert found.by_weight.roc_auc == pytest.approx(found.by_logit.roc_auc, abs=0.1)
    assert found.by_weight.roc_auc > 0.7
    logits, truth = (scored.positive, scored.unlabeled), scored.truth
    unweighted = bayescl.InfoNCELoss()
    alike = diagnose([score_candidates(unweighted, *logits, layout="logits", false_negative=truth)])
    assert alike.by_weight.roc_auc == 0.5
    assert alike.by_logit == found.by_logit
    assert alike.effective.weighted == pytest.approx(alike.effective.candidates)
    assert alike.effective.in_gradient == alike.effective.in_gradient_unweighted
    assert [check.source for check in alike.posteriors] == [
        "measured, model reading",
        "measured, authors' reading",
    ]


def test_the_oracle_finds_them_all(views):
    loss = bayescl.OracleContrastiveLoss()
    found = diagnose([score_candidates(loss, *views[:2], labels=views[2])])
    assert (found.by_weight.roc_auc, found.by_weight.average_precision) == (1, 1)
    assert (found.mean_weight_false, found.mean_weight_true) == (0, 1)
    assert found.effective.weighted == pytest.approx(36)


def test_batches_of_unequal_size_are_pooled(views):
    view_1, view_2, labels = views
    loss = bayescl.BayesianContrastiveLoss(alpha=0.8, tau_plus=0.2)
    parts = [
        score_candidates(loss, view_1[rows], view_2[rows], labels=labels[rows])
        for rows in (slice(0, 16), slice(16, 24))
    ]
    found = diagnose(parts)
    assert found.anchors == 48
    assert found.effective.candidates == pytest.approx((32 * 30 + 16 * 14) / 48)
    share = sum(int(p.truth.sum()) for p in parts) / sum(int(p.valid.sum()) for p in parts)
    assert found.measured_tau_plus == pytest.approx(share)


def test_without_labels_what_needs_none_is_there(views):
    loss = bayescl.BayesianContrastiveLoss(alpha=0.8, tau_plus=0.2)
    found = diagnose([score_candidates(loss, *views[:2])])
    assert found.measured is None
    assert found.posteriors == ()
    assert found.by_weight is None
    with pytest.raises(ValueError, match="batches must not be empty"):
        diagnose([])


def test_one_class_alone_has_no_false_or_no_true_negatives_and_no_figures_for_them(views):
    view_1, view_2, _ = views
    loss = bayescl.BayesianContrastiveLoss(alpha=0.8, tau_plus=0.2)
    for labels in (torch.zeros(24).long(), torch.arange(24)):
        found = diagnose([score_candidates(loss, view_1, view_2, labels=labels)])
        assert found.by_weight is None
        assert found.measured is None
