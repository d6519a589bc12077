"""What the sigmoid losses have of their own: a bias, weights of mean 1, members that weigh less."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

import bayescl
from bayescl.diagnostics import candidate_weights, score_candidates
from bayescl.functional import sigmoid_loss

KINDS = (
    bayescl.SigmoidContrastiveLoss,
    bayescl.BayesianSigmoidLoss,
    bayescl.LatentClassSigmoidLoss,
)


def rows(count: int, seed: int, dim: int = 6) -> Tensor:
    return torch.randn(count, dim, generator=torch.Generator().manual_seed(seed))


def trained(**options: Any) -> bayescl.LatentClassSigmoidLoss:
    """A loss that trusts the classes that it has found."""
    loss = bayescl.LatentClassSigmoidLoss(
        num_classes=3, memory_size=64, refit_every=1, bias=-2.0, temperature=0.2, **options
    )
    for seed in range(6):
        items = 3 * torch.eye(6)[torch.arange(24) % 3] + 0.3 * rows(24, seed)
        loss.in_batch(items + 0.1 * rows(24, 50 + seed), items + 0.1 * rows(24, 90 + seed))
    assert loss.trust > 0.5
    return loss.eval()


def test_temperature_and_bias_start_as_open_clips_and_learn() -> None:
    for kind in KINDS:
        loss = kind()
        assert loss.temperature == pytest.approx(0.1)
        assert loss.bias == -10
        names = {name for name, _ in loss.named_parameters()}
        assert names == {"learnable_bias", "learnable_temperature.logit"}
        loss.in_batch(rows(5, 0), rows(5, 1)).backward()
        assert all(parameter.grad != 0 for parameter in loss.parameters())
        loss.bias = -3.0
        assert loss.learnable_bias == -3
        assert not list(kind(temperature=0.1, bias=-10.0).parameters())


def test_a_bias_per_call_is_the_one_used_and_receives_its_gradient() -> None:
    first, second = rows(7, 0), rows(7, 1)
    for engine in ("dense", "chunked"):
        usual = bayescl.SigmoidContrastiveLoss(temperature=0.3, engine=engine)
        other = bayescl.SigmoidContrastiveLoss(temperature=0.3, bias=1.0, engine=engine)
        given = torch.tensor(-10.0, requires_grad=True)
        for call in (
            lambda loss: loss(first, second),
            lambda loss: loss.in_batch(first, second, extra=rows(3, 2), both_directions=True),
            lambda loss: loss.sampled(first, second, rows(4, 3)),
            lambda loss: loss.from_logits(first[:, 0], second),
        ):
            with other.biased(given):
                value = call(other)
            expected = call(usual)
            torch.testing.assert_close(value, expected)
            torch.testing.assert_close(
                torch.autograd.grad(value, given),
                torch.autograd.grad(expected, usual.learnable_bias),
            )
            assert not call(other).requires_grad
    for bad, words in ((float("nan"), "bias must be finite"), (torch.ones(2), r"shape \[\]")):
        with pytest.raises(ValueError, match=words), other.biased(bad):
            pass


def test_one_direction_of_pairs_says_all() -> None:
    first, second = rows(9, 0), rows(9, 1)
    loss = bayescl.SigmoidContrastiveLoss(bias=-2.0, temperature=0.2)
    torch.testing.assert_close(
        loss.in_batch(first, second, both_directions=True), loss.in_batch(first, second)
    )


def test_weights_by_rank_have_mean_1() -> None:
    positive, unlabeled = rows(1, 0, dim=5)[0], rows(5, 1, dim=9)
    valid = rows(5, 2, dim=9) > -0.5
    even = torch.zeros(5, 9)  # whatever the weights, their mean counts
    for ranks in ("mid", "upper", "histogram"):
        setting = {"alpha": 0.9, "beta": 0.8, "ranks": ranks}
        torch.testing.assert_close(
            sigmoid_loss(positive, even, valid=valid, **setting),
            sigmoid_loss(positive, even, valid=valid),
        )
        assert not torch.allclose(
            sigmoid_loss(positive, unlabeled, **setting), sigmoid_loss(positive, unlabeled)
        )
    equal = bayescl.BayesianSigmoidLoss(alpha=0.5, beta=0.5)
    assert torch.equal(
        equal(unlabeled, unlabeled + 1), bayescl.SigmoidContrastiveLoss()(unlabeled, unlabeled + 1)
    )


def test_members_of_the_class_weigh_less() -> None:
    anchors, positives = (
        3 * torch.eye(6)[torch.arange(12) % 3] + rows(12, seed) for seed in (7, 8)
    )
    plain = bayescl.SigmoidContrastiveLoss(bias=-2.0, temperature=0.2)
    for engine in ("dense", "chunked"):
        half, none = trained(engine=engine), trained(relief=0.0, engine=engine)
        expected = plain.in_batch(anchors, positives)
        torch.testing.assert_close(none.in_batch(anchors, positives), expected)
        assert half.in_batch(anchors, positives) < 0.9 * expected
    scored = score_candidates(half, anchors, positives, layout="in_batch")
    weights = candidate_weights(scored)
    torch.testing.assert_close(weights, torch.where(scored.valid, 1 - 0.5 * scored.same_class, 0))
    labels = torch.arange(12) % 3
    known = half.in_batch(anchors, positives, labels=labels)
    same = (labels[:, None] == labels).float()
    cosines = torch.nn.functional.normalize(anchors) @ torch.nn.functional.normalize(positives).T
    logits, apart = cosines / 0.2, ~torch.eye(12, dtype=torch.bool)
    expected = sigmoid_loss(logits.diagonal(), logits, bias=-2.0, same_class=same, valid=apart)
    torch.testing.assert_close(known, expected.mean())


def test_all_that_was_learnt_travels_in_state_dict() -> None:
    first, second = rows(8, 0), rows(8, 1)
    sources = [bayescl.BayesianSigmoidLoss(alpha=0.8, bias=-4.0, temperature=0.3), trained()]
    sources.append(bayescl.SigmoidContrastiveLoss())
    torch.nn.init.constant_(sources[-1].learnable_bias, -7.5)
    targets = [
        bayescl.BayesianSigmoidLoss(bias=0.0, temperature=0.1),
        bayescl.LatentClassSigmoidLoss(memory_size=64, bias=0.0, temperature=0.1).eval(),
        bayescl.SigmoidContrastiveLoss(),
    ]
    for source, target in zip(sources, targets, strict=True):
        target.load_state_dict(source.state_dict())
        assert target.bias == source.bias
        assert torch.equal(target.in_batch(first, second), source.in_batch(first, second))


def test_what_belongs_to_a_softmax_is_refused() -> None:
    for kind, name in product(KINDS, ("aim", "attraction", "denominators")):
        with pytest.raises(TypeError, match=f"{name} is not an argument of {kind.__name__}"):
            kind(**{name: 1})
