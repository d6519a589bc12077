from __future__ import annotations

import pytest
import torch
from torch import nn

from bayescl_lab.images.optimizers import OPTIMIZERS


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)])
def test_learning_rate_and_decay_reach_the_optimizer(name, kind):
    optimizer = OPTIMIZERS[name](nn.Linear(5, 4).parameters(), lr=0.3, weight_decay=0.04)
    assert isinstance(optimizer, kind)
    group = optimizer.param_groups[0]
    assert (group["lr"], group["weight_decay"]) == (0.3, 0.04)
