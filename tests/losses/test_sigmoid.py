"""What the sigmoid loss has of its own: a bias."""

from __future__ import annotations

import pytest
import torch
from cases import rows

import bayescl


def test_temperature_and_bias_start_as_open_clips_and_learn() -> None:
    loss = bayescl.SigmoidContrastiveLoss()
    assert loss.temperature == pytest.approx(0.1)
    assert loss.bias == -10
    names = {name for name, _ in loss.named_parameters()}
    assert names == {"learnable_bias", "learnable_temperature.logit"}
    loss.in_batch(rows(5, 0), rows(5, 1)).backward()
    assert all(parameter.grad != 0 for parameter in loss.parameters())
    loss.bias = -3.0
    assert loss.learnable_bias == -3
    assert not list(bayescl.SigmoidContrastiveLoss(temperature=0.1, bias=-10.0).parameters())


def test_a_bias_per_call_is_the_one_used_and_receives_its_gradient() -> None:
    first, second = rows(7, 0), rows(7, 1)
    for engine in ("reference", "blocked"):
        usual = bayescl.SigmoidContrastiveLoss(temperature=0.3, engine=engine)
        other = bayescl.SigmoidContrastiveLoss(temperature=0.3, bias=1.0, engine=engine)
        given = torch.tensor(-10.0, requires_grad=True)
        for call in (
            lambda loss, **more: loss(first, second, **more),
            lambda loss, **more: loss.in_batch(
                first, second, extra=rows(3, 2), both_directions=True, **more
            ),
            lambda loss, **more: loss.sampled(first, second, rows(4, 3), **more),
            lambda loss, **more: loss.from_logits(first[:, 0], second, **more),
        ):
            value, expected = call(other, bias=given), call(usual)
            torch.testing.assert_close(value, expected)
            torch.testing.assert_close(
                torch.autograd.grad(value, given),
                torch.autograd.grad(expected, usual.learnable_bias),
            )
            assert not call(other).requires_grad
    for bad, words in ((float("nan"), "bias must be finite"), (torch.ones(2), r"shape \[\]")):
        with pytest.raises(ValueError, match=words):
            other(first, second, bias=bad)
    half = first.bfloat16()  # to which the bias must not be rounded
    exact = other.from_logits(half[:, 0].float(), half.float(), bias=-2.7)
    assert torch.equal(other.from_logits(half[:, 0], half, bias=-2.7), exact)


def test_all_that_was_learnt_travels_in_state_dict() -> None:
    first, second = rows(8, 0), rows(8, 1)
    for options in ({"bias": -4.0, "temperature": 0.3}, {}):
        source, target = (bayescl.SigmoidContrastiveLoss(**options) for _ in range(2))
        source.bias = -7.5
        target.load_state_dict(source.state_dict())
        assert target.bias == source.bias == -7.5
        assert torch.equal(target.in_batch(first, second), source.in_batch(first, second))
