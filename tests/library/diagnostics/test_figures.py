"""Weights, detection and calibration, each against what must hold."""

from dataclasses import replace

import pytest
import torch
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
