"""What must hold for every loss at any input: precision, temperature, state."""

import math

import pytest
import torch
from cases import rows
from reference.objectives import WEIGHTINGS
from torch import Tensor

import bayescl

MAKERS = {name: row.made for name, row in WEIGHTINGS.items()}
names = pytest.mark.parametrize("name", list(MAKERS))


def views(batch: int, seed: int, dim: int = 5, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [rows(batch, view, dim).to(dtype) for view in (seed, seed + 100)]


@names
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_embeddings_are_scored_in_float32(name, dtype):
    loss = MAKERS[name](temperature=0.1)
    view_1, view_2 = views(16, 0, dim=32)
    half_1, half_2 = view_1.to(dtype).requires_grad_(), view_2.to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(half_1, half_2)
    assert value.dtype == torch.float32
    # Rounding the embeddings is all that may differ.
    torch.testing.assert_close(value, loss(half_1.float(), half_2.float()), rtol=1e-6, atol=1e-6)
    value.backward()
    assert half_1.grad is not None
    assert half_1.grad.dtype == dtype
    assert half_1.grad.isfinite().all()
    plain = loss(view_1, view_2)
    with torch.autocast("cpu", dtype=torch.bfloat16):  # does not round logits
        assert torch.equal(plain, loss(view_1, view_2))


def test_a_learnable_temperature_stays_between_its_bounds():
    temperature = bayescl.LearnableTemperature(0.07, minimum=0.01, maximum=0.5)
    for logit in (-50.0, 50.0):
        torch.nn.init.constant_(temperature.logit, logit)
        assert temperature().item() == pytest.approx(0.01 if logit < 0 else 0.5)
    for bound, inside in ((0.01, 0.5), (0.5, 0.01)):  # as near as float64 allows
        temperature.set(math.nextafter(bound, inside))
        assert temperature().item() == pytest.approx(bound)


def test_what_a_loss_was_set_to_shows_and_is_saved_without_code(tmp_path):
    settings = {"alpha": 0.8, "beta": 0.6, "tau_plus": 0.2}
    learnable = bayescl.LearnableTemperature(0.2)
    source = bayescl.BayesianContrastiveLoss(**settings, temperature=learnable)
    torch.save(source.state_dict(), tmp_path / "state.pt")
    other = bayescl.LearnableTemperature(0.5)
    target = bayescl.BayesianContrastiveLoss(num_classes=20, temperature=other)
    assert (target.tau_plus, target.beta) == (0.05, 0.5)
    target.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert {name: getattr(target, name) for name in settings} == settings
    assert target.temperature == pytest.approx(0.2, rel=1e-6)
    assert torch.equal(source(*views(5, 6)), target(*views(5, 6)))
    assert "alpha=0.8, beta=0.6" in repr(target)
    assert "temperature=0.3" in repr(bayescl.HardContrastiveLoss(temperature=0.3))


@names
def test_gradients_through_embeddings_are_right_to_second_order(name):
    loss = MAKERS[name](temperature=0.5, engine="reference")
    inputs = [view.requires_grad_() for view in views(3, 10, dim=3, dtype=torch.float64)]
    assert torch.autograd.gradcheck(loss, inputs)
    assert torch.autograd.gradgradcheck(loss, inputs)
