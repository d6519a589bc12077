"""Unit vectors; ``losses/test_layouts`` checks logits."""

import pytest
import torch

from bayescl.functional import unit_vectors


def test_unit_vectors_have_length_one_at_any_scale():
    rows = torch.randn(5, 8, generator=torch.Generator().manual_seed(0))
    for scale in (1e-30, 1.0, 1e30):
        torch.testing.assert_close(unit_vectors(rows * scale).norm(dim=1), torch.ones(5))


@pytest.mark.parametrize("value", [0.0, 1e-41])
def test_an_embedding_without_a_direction_is_zero_with_a_finite_gradient(value):
    rows = torch.full((2, 3), value, requires_grad=True)
    unit = unit_vectors(rows)
    unit.sum().backward()
    assert unit.abs().max() <= value
    assert rows.grad is not None
    assert rows.grad.isfinite().all()


@pytest.mark.parametrize("scale", [3e-11, 3e-9, 1.0, 3e9, 3e11])
def test_short_and_long_embeddings_have_the_gradient_that_their_length_asks_for(scale):
    generator = torch.Generator().manual_seed(1)
    rows = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    slopes = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    gradients = []
    for factor in (1.0, scale):
        leaf = (rows * factor).float().requires_grad_()
        (unit_vectors(leaf) * slopes).sum().backward()
        assert leaf.grad is not None
        gradients.append(leaf.grad * factor)
    torch.testing.assert_close(gradients[1], gradients[0])
