from __future__ import annotations

import numpy as np
import pytest

import bayescl
from bayescl.estimation import Fixed, LinearRamp, apply_schedule


def test_the_default_ramp_is_the_authors() -> None:
    ours = [LinearRamp(0.9).value(epoch) for epoch in range(400)]
    theirs = [np.linspace(0.501, 0.9, 20)[epoch // 20] for epoch in range(400)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-15)
    assert ours[::-1] == [LinearRamp(0.9).value(epoch) for epoch in reversed(range(400))]


def test_a_ramp_stays_at_its_end_and_never_leaves_its_range() -> None:
    ramp = LinearRamp(0.7, start=0.5, steps=3, every=1)
    assert [ramp.value(epoch) for epoch in (2, 3, 1000)] == [0.7] * 3
    falling = LinearRamp(0.5, start=1.0, steps=7, every=2)
    values = [falling.value(epoch) for epoch in range(20)]
    assert sorted(values, reverse=True) == values
    assert (min(values), max(values)) == (0.5, 1.0)
    for epoch in (0, 3, 50):  # one step is a fixed value
        assert LinearRamp(0.8, steps=1).value(epoch) == Fixed(0.8).value(epoch) == 0.8


def test_a_ramp_over_a_run_begins_at_its_start_and_ends_at_its_end() -> None:
    for epochs in (1, 2, 7, 30, 400, 1000):
        ramp = LinearRamp.over(epochs, 0.9, start=0.5)
        assert ramp.value(epochs - 1) == 0.9
        assert ramp.value(0) == (0.9 if epochs == 1 else 0.5)


def test_a_schedule_sets_what_a_checkpoint_keeps_and_nothing_else() -> None:
    loss = bayescl.BayesianContrastiveLoss(alpha=0.6)
    assert apply_schedule(LinearRamp(0.9), loss, "alpha", 400) == 0.9
    assert loss.state_dict()["_extra_state"]["alpha"] == 0.9
    info_nce = bayescl.InfoNCELoss()
    for call, message in (
        (lambda: apply_schedule(Fixed(0.9), info_nce, "alpha", 0), "has no hyper-parameter alpha"),
        (lambda: apply_schedule(Fixed(0.2), loss, "alpha", 0), r"alpha must lie in \[0.5, 1\]"),
        (lambda: LinearRamp(0.9).value(-1), "epoch must be a whole number of at least 0, got -1"),
        (lambda: LinearRamp(0.9, steps=0), "steps must be a whole number of at least 1, got 0"),
        (lambda: Fixed(float("nan")), "level must be finite"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
