"""LightGCN by users and by pairs is the same training."""

from types import SimpleNamespace

import lightgcn_steps
import numpy as np
import torch

from bayescl_lab.ranking.interactions import Interactions, RankingParts


def test_lightgcn_by_users_equals_lightgcn_by_pairs_if_a_batch_holds_everything():
    drawn = np.divmod(np.random.default_rng(0).permutation(30 * 40)[:200], 40)
    train = Interactions.from_pairs(*drawn, user_ids=30, item_ids=40)
    parts = RankingParts(train, train.subset(slice(0)), "validation")
    chosen = SimpleNamespace(dim=4, layers=2, lr=0.01, temperature=0.2)
    by_users, by_pairs = (
        lightgcn_steps.trained(parts, chosen, way, size, seed=0, steps=3)[0].users_and_items()
        for way, size in (("users", 30), ("pairs", 200))
    )
    torch.testing.assert_close(by_users, by_pairs)
