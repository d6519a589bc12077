from __future__ import annotations

import math
from copy import deepcopy

import pytest
import torch
from torch import nn

from bayescl_lab.images.optimizers import MOMENTUM, OPTIMIZERS, TRUST, Lars


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)).double()


def gradients(step: int, model: nn.Module) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    return [
        torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        for parameter in model.parameters()
    ]


def test_lars_takes_the_steps_of_its_formula():
    model, lr, decay = network(), 0.7, 0.02
    expected = [parameter.detach().clone() for parameter in model.parameters()]
    speeds = [torch.zeros_like(parameter) for parameter in expected]
    optimizer = Lars(model.parameters(), lr=lr, weight_decay=decay)
    for step in range(4):
        for number, gradient in enumerate(gradients(step, model)):
            list(model.parameters())[number].grad = gradient.clone()
            update, weight = gradient, expected[number]
            if weight.ndim > 1:
                update = gradient + decay * weight
                norms = [math.sqrt(sum(x * x for x in t.flatten())) for t in (weight, update)]
                update = TRUST * norms[0] / norms[1] * update
            speeds[number] = MOMENTUM * speeds[number] + update
            expected[number] = weight - lr * speeds[number]
        optimizer.step()
    for parameter, weight in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.detach(), weight)


def test_zeros_move_as_by_sgd_and_no_bias_and_no_scale_decays():
    zero, still = (nn.Parameter(torch.zeros(2, 2)), nn.Parameter(torch.ones(2, 2)))
    optimizer = Lars([zero, still], lr=0.5)
    zero.grad, still.grad = torch.ones(2, 2), torch.zeros(2, 2)
    optimizer.step()
    assert torch.equal(zero.detach(), torch.full((2, 2), -0.5))
    assert torch.equal(still.detach(), torch.ones(2, 2))
    model = network()
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    Lars(model.parameters(), lr=1.0, weight_decay=0.5).step()
    for parameter, old in zip(model.parameters(), before, strict=True):
        moved = not torch.equal(parameter.detach(), old)
        assert moved == (parameter.ndim > 1)


def test_lars_goes_on_from_its_state():
    models, optimizers = [network(), network()], []
    for model in models:
        optimizers.append(Lars(model.parameters(), lr=0.1, weight_decay=0.1))
    for step in range(4):
        if step == 2:
            models[1].load_state_dict(models[0].state_dict())
            optimizers[1] = Lars(models[1].parameters(), lr=9.0, weight_decay=9.0)
            optimizers[1].load_state_dict(deepcopy(optimizers[0].state_dict()))
        for model, optimizer in zip(models, optimizers, strict=True):
            for parameter, gradient in zip(model.parameters(), gradients(step, model), strict=True):
                parameter.grad = gradient
            optimizer.step()
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("name", "kind"), [("adam", torch.optim.Adam), ("sgd", torch.optim.SGD), ("lars", Lars)]
)
def test_learning_rate_and_decay_reach_the_optimizer(name, kind):
    optimizer = OPTIMIZERS[name](network().parameters(), lr=0.3, weight_decay=0.04)
    assert isinstance(optimizer, kind)
    group = optimizer.param_groups[0]
    assert (group["lr"], group.get("decay", group["weight_decay"])) == (0.3, 0.04)
