"""Weights, detection and calibration, each against what must hold."""

from dataclasses import replace

import pytest
import torch
from reference.process import pair_auc
from sklearn.metrics import average_precision_score, roc_auc_score
from torchmetrics.functional.classification import binary_calibration_error

import bayescl
from bayescl.diagnostics import Calibration, candidate_weights, diagnose, score_candidates
from bayescl.diagnostics.summary import calibration, detection


def judged(scored, alpha: float, tau_plus: float) -> Calibration:
    assumed = bayescl.BayesianContrastiveLoss(alpha=alpha, tau_plus=tau_plus).objective(1.0)
    return diagnose([replace(scored, objective=assumed)]).posteriors[0]


def test_the_posterior_is_calibrated_at_the_processs_own_parameters_only(processed):
    for alpha, tau_plus in ((0.9, 0.1), (0.7, 0.3), (1.0, 0.5)):
        assert judged(processed(alpha, tau_plus), alpha, tau_plus).ece < 0.008
    scored = processed(0.9, 0.1)
    own = judged(scored, 0.9, 0.1).ece
    for parameters in ((1.0, 0.1), (0.7, 0.1), (0.9, 0.3), (0.9, 0.02)):
        assert judged(scored, *parameters).ece > max(5 * own, 0.015)
    scored = processed(0.9, 0.2)
    constant = judged(scored, 0.5, 0.2)
    assert constant.ece < 0.002
    assert constant.skill == pytest.approx(0, abs=1e-3)
    best = judged(scored, 0.9, 0.2).skill
    for parameters in ((0.6, 0.2), (0.75, 0.2), (1.0, 0.2), (0.9, 0.05), (0.9, 0.4)):
        assert judged(scored, *parameters).skill < best - 0.002


def test_calibration_agrees_with_torchmetrics_where_groups_are_alike():
    generator = torch.Generator().manual_seed(0)
    # Predictions at the middle of 20 equal steps: equal counts and equal widths group them alike.
    predicted = torch.arange(20).repeat(50) / 20 + 0.025
    truth = torch.rand(1000, generator=generator) < predicted**2
    expected = binary_calibration_error(predicted, truth.int(), n_bins=20)
    found = calibration(predicted, truth, "middles", 0.9, 0.1)
    assert found.count.tolist() == [50] * 20
    assert found.ece == pytest.approx(float(expected), abs=1e-6)


def test_calibration_keeps_equal_predictions_together_and_loses_nothing():
    predicted = torch.tensor([0.5] * 90 + [0.9] * 10)
    truth = torch.cat([torch.arange(90) % 2 == 0, torch.ones(10, dtype=torch.bool)])
    found = calibration(predicted, truth, "ranks", 0.9, 0.1)
    assert found.count.tolist() == [90, 10]
    assert found.ece == pytest.approx(0.1 * 0.1, abs=1e-6)


def test_detection_agrees_with_scikit_learn_at_any_scale():
    generator = torch.Generator().manual_seed(1)
    truth = torch.rand(400, generator=generator) < 0.2
    suspicion = 1e-4 * (torch.randn(400, generator=generator) + truth)
    for values in (suspicion - 50, (suspicion * 2e4).round() - 50):  # the latter with ties
        wanted = [score(truth, values) for score in (roc_auc_score, average_precision_score)]
        wanted.append(float(truth.float().mean()))
        assert detection(values, truth) == pytest.approx(tuple(wanted), abs=1e-6)
    truth = torch.tensor([True, False, False, False])
    result = detection(torch.ones(4), truth)
    assert (result.roc_auc, result.average_precision) == (0.5, 0.25)
    for one_kind in (truth & False, truth | True, truth[:0]):
        assert detection(torch.ones(len(one_kind)), one_kind) is None


def test_effective_negatives_follow_the_definition(views):
    loss = bayescl.BayesianContrastiveLoss(alpha=0.9, beta=0.8, temperature=0.2)
    scored = score_candidates(loss, *views[:2])
    weights = candidate_weights(scored).double()
    plain = weights.sum(1) ** 2 / weights.square().sum(1)
    terms = weights * scored.unlabeled.double().exp() * scored.valid
    softmax = terms.sum(1) ** 2 / terms.square().sum(1)
    found = diagnose([scored]).effective
    assert found.weighted == pytest.approx(float(plain.mean()))
    assert found.in_gradient == pytest.approx(float(softmax.mean()))
    logits = torch.tensor([[1000.0, 1000.0, -1000.0], [0.0, 0.0, 0.0]])  # no overflow
    valid = torch.tensor([[True] * 3, [False] * 3])
    scored = score_candidates(loss, logits[:, 0], logits, layout="logits", valid=valid)
    assert diagnose([scored]).effective.in_gradient == 1  # the mean of 2 and 0


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
    with pytest.raises(ValueError, match="at least one candidate"):
        diagnose([])


def test_one_class_alone_has_no_false_or_no_true_negatives_and_no_figures_for_them(views):
    view_1, view_2, _ = views
    loss = bayescl.BayesianContrastiveLoss(alpha=0.8, tau_plus=0.2)
    for labels in (torch.zeros(24).long(), torch.arange(24)):
        found = diagnose([score_candidates(loss, view_1, view_2, labels=labels)])
        assert found.by_weight is None
        assert found.measured is None
