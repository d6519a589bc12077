"""What must hold for every loss at any input, and what a call may bring along."""

import math

import pytest
import torch
from cases import rows
from reference.objectives import WEIGHTINGS
from torch import Tensor

import bayescl
from bayescl.batch import Batch
from bayescl.rows import Rows

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


engines = pytest.mark.parametrize("engine", ["reference", "blocked"])


@engines
@pytest.mark.parametrize("shape", [lambda p: p.mean(), lambda p: p[:, None], lambda p: p[:1]])
def test_an_objective_must_return_one_value_per_anchor(engine, shape):
    def objective(positive: Tensor, unlabeled: Tensor, *, valid: Tensor | None = None) -> Tensor:
        return shape(positive)

    loss = bayescl.ContrastiveLoss(objective, engine=engine, chunk_size=4)
    with pytest.raises(ValueError, match="objective must return one value per anchor, shape"):
        loss(rows(5, 0).requires_grad_(), rows(5, 1))
    with pytest.raises(ValueError, match="objective must return one value per anchor, shape"):
        loss.from_logits(torch.zeros(3), torch.zeros(3, 2))


def test_a_learnable_temperature_is_what_the_loss_says_and_can_be_set():
    learnable = bayescl.LearnableTemperature(0.07)
    loss = bayescl.InfoNCELoss(temperature=learnable)
    with torch.no_grad():
        learnable.logit += 0.5
    moved = learnable().item()
    assert loss.temperature == pytest.approx(moved)
    assert moved != pytest.approx(0.07, rel=0.05)
    assert loss.get_extra_state()["temperature"] == pytest.approx(moved)
    loss.temperature = 0.2
    assert learnable().item() == pytest.approx(0.2)
    other = bayescl.InfoNCELoss(temperature=bayescl.LearnableTemperature(0.5))
    other.load_state_dict(loss.state_dict())
    assert torch.equal(other.learnable_temperature.logit, learnable.logit)
    with pytest.raises(ValueError, match=r"temperature must lie in \(0.01, 1\), got 2.0"):
        loss.temperature = 2.0


@pytest.mark.parametrize("state", [None, {}, {"temperature": 0.5}, "text"])
def test_a_damaged_state_is_refused_by_name(state):
    loss = bayescl.BayesianContrastiveLoss()
    with pytest.raises(ValueError, match="the state of BayesianContrastiveLoss must contain"):
        loss.load_state_dict({"_extra_state": state})


@engines
@pytest.mark.parametrize("several", [False, True])
def test_a_batch_of_ones_own_leaves_out_each_anchor_itself(engine, several):
    """Anchors are the columns, and their positives are other rows."""
    anchors, positives = rows(5, 0), rows(10 if several else 5, 1)
    of = torch.arange(5).repeat(2) if several else None
    own = torch.arange(5)
    batch = Batch("in_batch", Rows(anchors), Rows(positives), (Rows(anchors),), of, own=own)
    loss = bayescl.InfoNCELoss(engine=engine, reduction="none", normalize=False, chunk_size=2)
    whose = own if of is None else of
    positive = (anchors[whose] * positives).sum(dim=1) / 0.5
    others = (anchors @ anchors.T / 0.5).masked_fill(torch.eye(5, dtype=torch.bool), -torch.inf)
    expected = torch.cat([positive[:, None], others[whose]], dim=1).logsumexp(dim=1) - positive
    torch.testing.assert_close(loss.evaluate(batch), expected)
