"""Programs that benchmarks time beside ours train."""

from __future__ import annotations

from types import SimpleNamespace

import lightgcn_steps
import pytest
import torch
from lightgcn_epoch import our_step, published_step
from recsys import random_interactions

from bayescl_lab.ranking.interactions import RankingParts


@pytest.mark.parametrize("step_of", [our_step, published_step])
def test_a_program_of_lightgcn_trains_for_a_few_steps(step_of):
    step = step_of(random_interactions(users=30, items=40, pairs=200))
    for _ in range(3):
        step()


def test_lightgcn_by_users_equals_lightgcn_by_pairs_if_a_batch_holds_everything():
    train = random_interactions(users=30, items=40, pairs=200)
    parts = RankingParts(train, train.subset(slice(0)), "validation")
    chosen = SimpleNamespace(dim=4, layers=2, lr=0.01, temperature=0.2)
    by_users, by_pairs = (
        lightgcn_steps.trained(parts, chosen, way, size, seed=0, steps=3)[0].users_and_items()
        for way, size in (("users", 30), ("pairs", 200))
    )
    torch.testing.assert_close(by_users, by_pairs)
