"""Programs that benchmarks time beside ours train."""

from __future__ import annotations

import pytest
from lightgcn_epoch import our_step, published_step
from recsys import random_interactions


@pytest.mark.parametrize("step_of", [our_step, published_step])
def test_a_program_of_lightgcn_trains_for_a_few_steps(step_of):
    step = step_of(random_interactions(users=30, items=40, pairs=200))
    for _ in range(3):
        step()
