from __future__ import annotations

import copy
import json

import pytest
import torch
from cases import each

import bayescl
from bayescl.diagnostics import (
    candidate_weights,
    diagnose,
    reliability_figure,
    score_candidates,
)
from bayescl.diagnostics.summary import calibration, confident_pairs
from bayescl.figures import png


@each("layout", ["two_views", "in_batch", "sampled"])
def test_the_posterior_that_is_scored_is_what_the_loss_is_computed_from(
    informed_loss, views, layout
) -> None:
    loss = informed_loss.eval()
    embeddings = [*views[:2], views[1]] if layout == "sampled" else list(views[:2])
    call = {"two_views": loss, "in_batch": loss.in_batch, "sampled": loss.sampled}[layout]
    scored = score_candidates(loss, *embeddings, layout=layout)
    assert float(scored.same_class.max()) > 0.5
    known = {"same_class": scored.same_class, "trust": scored.trust}
    values = scored.objective(scored.positive, scored.unlabeled, valid=scored.valid, **known)
    torch.testing.assert_close(values.mean(), call(*embeddings))
    alone = scored.objective(scored.positive, scored.unlabeled, valid=scored.valid)
    assert not torch.allclose(values, alone)


def test_scoring_a_loss_in_training_leaves_its_memory_as_it_is_and_weights_have_mean_one(
    informed_loss, views
) -> None:
    before = copy.deepcopy(informed_loss.state_dict())
    scored = score_candidates(informed_loss, *views[:2], labels=views[2])
    assert informed_loss.training
    torch.testing.assert_close(informed_loss.state_dict(), before, rtol=0, atol=0)
    assert scored.tells_apart
    weights = candidate_weights(scored)
    negative = torch.where(scored.valid, 1 - scored.same_class, 0)
    count = scored.valid.sum(dim=1, keepdim=True)
    torch.testing.assert_close(weights, negative * count / negative.sum(dim=1, keepdim=True))


def test_before_anything_is_believed_the_weights_are_those_of_infonce(views) -> None:
    scored = score_candidates(bayescl.LatentClassContrastiveLoss(), *views[:2], labels=views[2])
    assert scored.same_class is None
    assert not scored.tells_apart
    assert torch.equal(candidate_weights(scored), scored.valid.float())
    found = diagnose([scored])
    assert found.confident is None
    assert "latent classes" not in [check.source for check in found.posteriors]


def test_a_diagnosis_holds_latent_classes_against_the_labels(informed_loss, views) -> None:
    view_1, view_2, labels = views
    scored = score_candidates(informed_loss, view_1, view_2, labels=labels)
    found = diagnose([scored])
    same_class, truth = scored.same_class[scored.valid], scored.truth[scored.valid]
    assert found.confident == confident_pairs(same_class, truth, 0.5)
    own = found.posteriors[0]
    assert (own.source, own.alpha, own.tau_plus) == ("latent classes", None, None)
    assert own.name == "latent classes"
    assert own.ece == calibration(1 - same_class, ~truth, "by hand").ece
    assert found.mean_weight_false < 0.8
    assert json.loads(json.dumps(found.figures(), allow_nan=False)) == found.figures()
    assert png(reliability_figure(found)).startswith(b"\x89PNG")


def test_pairs_are_those_above_the_threshold_of_the_loss_judged_or_not(
    informed_loss, views
) -> None:
    found = diagnose([score_candidates(informed_loss, *views[:2])]).confident
    assert found.share > 0
    assert (found.precision, found.recall) == (None, None)
    informed_loss.threshold = 1.0
    found = diagnose([score_candidates(informed_loss, *views[:2], labels=views[2])]).confident
    assert (found.threshold, found.share, found.precision, found.recall) == (1.0, 0, None, 0)


def test_confident_pairs_agree_with_scikit_learn() -> None:
    from sklearn.metrics import precision_score, recall_score

    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(300, generator=generator) < 0.3
    posterior = (0.5 * torch.rand(300, generator=generator) + 0.4 * truth).clamp(max=1)
    found = confident_pairs(posterior, truth, 0.4)
    assert found.precision == pytest.approx(precision_score(truth, posterior > 0.4))
    assert found.recall == pytest.approx(recall_score(truth, posterior > 0.4))


def test_groups_of_equal_width_keep_what_lies_between_apart() -> None:
    predicted = torch.tensor([0.0] * 95 + [0.32, 0.6, 0.61, 0.96, 1.0])
    groups = calibration(predicted, predicted > 0.5, "latent classes")
    assert groups.count.tolist() == [95, 1, 2, 2]
    assert groups.predicted.tolist() == pytest.approx([0, 0.32, 0.605, 0.98])
    assert groups.observed.tolist() == [0, 0, 1, 1]
