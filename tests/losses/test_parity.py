"""Gradients to second order, and the authors' arithmetic; random calls check values (``fuzz``)."""

from __future__ import annotations

from functools import partial

import torch
from cases import each
from reference import objectives as reference
from torch import Tensor

import bayescl

TEMPERATURE = 0.5


def rows(count: int, seed: int, dim: int = 6) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, dim, dtype=torch.float64, generator=generator).requires_grad_()


@each("name", list(reference.WEIGHTINGS))
def test_gradients_through_embeddings_are_right_to_second_order(name: str) -> None:
    loss = reference.WEIGHTINGS[name].made(temperature=TEMPERATURE, engine="reference")
    inputs = (rows(3, 10, dim=3), rows(3, 20, dim=3))
    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)


@each(("alpha", "beta", "tau_plus"), [(0.9, 0.9, 0.1), (0.7, 1.0, 0.01)])
def test_the_authors_arithmetic_differs_by_their_epsilon_alone(
    alpha: float, beta: float, tau_plus: float
) -> None:
    views = [rows(8, seed).detach() for seed in (0, 1)]
    parameters = {"alpha": alpha, "beta": beta, "tau_plus": tau_plus}
    loss = bayescl.BayesianContrastiveLoss(**parameters, ranks="upper", reduction="none")
    ours = loss(*views)
    unit = torch.nn.functional.normalize(torch.cat(views))
    logits, own = unit @ unit.T / TEMPERATURE, torch.arange(16)
    others = (own[:, None] - own) % 8 != 0

    def theirs(epsilon: float) -> Tensor:
        row = partial(reference.bayesian, **parameters, ranks="upper", epsilon=epsilon)
        return torch.stack([row(logits[i, i - 8], logits[i][others[i]]) for i in range(16)])

    with_epsilon = (theirs(1e-3) - ours).abs().max()
    assert 1e-5 < with_epsilon < 0.02
    torch.testing.assert_close(theirs(0.0), ours, rtol=1e-10, atol=0)
    assert (theirs(1e-6) - ours).abs().max() < 2e-3 * with_epsilon
