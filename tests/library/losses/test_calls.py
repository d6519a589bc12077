"""What one call may bring along: a temperature, groups of several keys, an objective of its own."""

import pytest
import torch
from cases import rows
from torch import Tensor

import bayescl
from bayescl.batch import Batch
from bayescl.rows import Rows

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
