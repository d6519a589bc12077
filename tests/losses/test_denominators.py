"""Moving denominators: exact where they can be, right on average, and saved with the loss."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import pytest
import torch
from cases import each
from torch import Tensor

import bayescl
from bayescl import MovingDenominators

COUNT = 7
LOSSES = {
    "info_nce": (bayescl.InfoNCELoss, {}),
    "bayesian": (bayescl.BayesianContrastiveLoss, {"beta": 0.7}),
    "oracle": (bayescl.OracleContrastiveLoss, {}),
}


def views(seed: int = 0, count: int = COUNT) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(2, count, 3, generator=generator, dtype=torch.float64)
    return [view.requires_grad_() for view in rows]


def moving(size: int = COUNT, rate: float = 1.0) -> MovingDenominators:
    return MovingDenominators(size, rate=rate).double()


@each(
    ("name", "engine", "reduction", "call"),
    product(LOSSES, ["dense", "chunked"], ["mean", "sum", "none"], ["forward", "in_batch"]),
)
def test_a_batch_of_the_whole_set_at_rate_1_is_the_plain_loss(
    name: str, engine: Any, reduction: Any, call: str
) -> None:
    made, settings = LOSSES[name]
    settings = {**settings, "engine": engine, "reduction": reduction, "chunk_size": 3}
    groups, options = torch.tensor([0, 0, 1, 2, 3, 4, 4]), {}
    if call == "in_batch":
        options = {"both_directions": True, "log_q": views(3)[0][:, 0].detach()}
    rows, temperature = views(), torch.tensor(0.1, dtype=torch.float64, requires_grad=True)
    losses = [made(denominators=moving(), **settings), made(**settings)]
    for step in range(2):  # at the second visit, too
        indices = torch.randperm(COUNT, generator=torch.Generator().manual_seed(step))
        results = []
        for loss, given in zip(losses, ({"indices": indices}, {}), strict=True):
            value = getattr(loss, call)(
                *rows, groups=groups, temperature=temperature, **options, **given
            )
            weights = torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).view_as(value)
            results.append([value, *torch.autograd.grad(value, [*rows, temperature], weights)])
        for one, other in zip(*results, strict=True):
            torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


@each("engine", ["dense", "chunked"])
def test_gradients_of_all_small_batches_add_up_to_that_of_the_whole_set(engine: Any) -> None:
    rows, batch = views(), 3
    full = bayescl.InfoNCELoss(reduction="sum").in_batch(*rows, both_directions=True)
    expected = torch.autograd.grad(full, rows)
    denominators = moving()
    loss = bayescl.InfoNCELoss(reduction="sum", engine=engine, denominators=denominators)
    loss.in_batch(*rows, both_directions=True, indices=torch.arange(COUNT))
    denominators.rate = 1e-14  # estimates stay those of the whole set
    total, visits = 0.0, 0
    for some in combinations(range(COUNT), batch):
        indices = torch.tensor(some)
        total += loss.in_batch(*(view[indices] for view in rows), indices=indices,
                               both_directions=True)  # fmt: skip
        visits += 0 in some
    found = torch.autograd.grad(total, rows)
    torch.testing.assert_close(total / visits, full)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one / visits, other, rtol=1e-9, atol=1e-9)


def test_a_step_is_the_formula() -> None:
    anchors, positives = torch.nn.functional.normalize(torch.stack(views()).detach(), dim=2)
    denominators = moving(20, rate=0.25)
    loss = bayescl.InfoNCELoss(temperature=1.0, reduction="none", denominators=denominators)
    past = loss.in_batch(anchors, positives, indices=torch.arange(COUNT)).exp()
    logits = anchors @ positives.T
    sums = 19 / (COUNT - 1) * (logits.exp().sum(1) - logits.diag().exp())
    torch.testing.assert_close(past, 1 + sums / logits.diag().exp())
    logits = -logits
    moved = 0.75 * sums + 0.25 * 19 / (COUNT - 1) * (logits.exp().sum(1) - logits.diag().exp())
    value = loss.in_batch(-anchors, positives, indices=torch.arange(COUNT))
    torch.testing.assert_close(value, (1 + moved / logits.diag().exp()).log())
    torch.testing.assert_close(denominators.log_sums[0, :COUNT].exp(), moved)
    assert (denominators.log_sums[:, COUNT:] == -torch.inf).all()


def test_estimates_and_rate_resume_and_rest_in_evaluation() -> None:
    rows, indices = views(), torch.arange(COUNT)
    loss = bayescl.BayesianContrastiveLoss(denominators=moving(20, rate=0.5))
    loss(*rows, indices=indices)
    resumed = bayescl.BayesianContrastiveLoss(denominators=moving(20))
    resumed.load_state_dict(loss.state_dict())
    assert resumed.denominators.rate == 0.5
    assert repr(resumed.denominators) == "MovingDenominators(size=20, rate=0.5)"
    assert torch.equal(loss(*views(1), indices=indices), resumed(*views(1), indices=indices))
    kept = loss.denominators.log_sums.clone()
    loss.eval()
    assert torch.equal(loss(*rows), bayescl.BayesianContrastiveLoss()(*rows))
    assert not torch.equal(loss(*rows, indices=indices), loss(*rows))
    loss.train()
    torch.func.grad(lambda first: loss(first, rows[1], indices=indices))(rows[0])
    assert torch.equal(loss.denominators.log_sums, kept)


def test_what_is_not_finite_is_not_kept() -> None:
    loss = bayescl.InfoNCELoss(denominators=moving(), reduction="none")
    with torch.no_grad():
        rows = views()
        loss(*rows, indices=torch.arange(COUNT))
        kept = loss.denominators.log_sums.clone()
        rows[0][0] = torch.nan
        assert loss(*rows, indices=torch.arange(COUNT)).isnan().any()
    assert torch.equal(loss.denominators.log_sums, kept)
    loss.check_finite = True
    with pytest.raises(ValueError, match="view_1 must be finite"):
        loss(*rows, indices=torch.arange(COUNT))


def test_a_call_that_is_refused_keeps_nothing() -> None:
    loss = bayescl.InfoNCELoss(denominators=moving(), normalize=False, check_finite=True)
    rows = [view.detach().float() for view in views()]
    loss(*rows, indices=torch.arange(COUNT))
    kept = loss.denominators.log_sums.clone()
    rows[0][0] = 1e30
    with pytest.raises(ValueError, match="logits must be finite"):
        loss(rows[0], -rows[0], indices=torch.arange(COUNT))
    assert torch.equal(loss.denominators.log_sums, kept)


def test_a_cached_step_moves_them_once() -> None:
    encoders = [torch.nn.Linear(3, 4, dtype=torch.float64) for _ in range(2)]
    encoders[1].load_state_dict(encoders[0].state_dict())
    losses = [bayescl.InfoNCELoss(denominators=moving(9, rate=0.5)) for _ in range(2)]
    rows = [view.detach() for view in views()]
    for seed in range(2):
        indices = torch.randperm(9, generator=torch.Generator().manual_seed(seed))[:COUNT]
        losses[0](*(encoders[0](view) for view in rows), indices=indices).backward()
        chunks = (view.split(3) for view in rows)
        bayescl.cached_backward(losses[1], encoders[1], *chunks, indices=indices)
    assert torch.equal(losses[0].denominators.log_sums, losses[1].denominators.log_sums)
    torch.testing.assert_close(encoders[0].weight.grad, encoders[1].weight.grad)


def _call(indices: Any, **settings: Any) -> Tensor:
    loss = bayescl.InfoNCELoss(denominators=MovingDenominators(9), **settings)
    return loss(*views(), indices=indices)


PLACES = torch.arange(COUNT)
KEEPING = bayescl.InfoNCELoss(denominators=MovingDenominators(9))


@each(
    ("call", "message"),
    [
        (lambda: MovingDenominators(1), "size must be a whole number of at least 2, got 1"),
        (lambda: MovingDenominators(9, rate=0.0), r"rate must lie in \(0, 1\], got 0.0"),
        (lambda: MovingDenominators(9, rate=1.5), r"rate must lie in \(0, 1\], got 1.5"),
        (lambda: MovingDenominators(9).set_extra_state({}), "the state of MovingDenominators must"),
        (lambda: _call(PLACES, engine="fused"), "engine must be auto, dense or chunked with"),
        (lambda: _call(None), "indices must be given to train a loss with denominators"),
        (lambda: _call(PLACES[:3]), r"indices must have shape \[7\], got \[3\]"),
        (lambda: _call(PLACES / 2), "indices must hold integers, got torch.float32"),
        (lambda: _call(PLACES + 3), r"indices must lie in \[0, 8\], got 9"),
        (lambda: _call(PLACES - 1), r"indices must lie in \[0, 8\], got -1"),
        (lambda: _call(PLACES // 3), "indices must be distinct, got 0 3 times"),
        (lambda: _call(PLACES.to("meta")), "indices must be on cpu, like the embeddings, got meta"),
        (lambda: bayescl.InfoNCELoss()(*views(), indices=PLACES), "indices must be None, because"),
        (lambda: KEEPING.sampled(*views(), views()[0]), "indices must be given"),
        (lambda: KEEPING.from_logits(torch.ones(2), torch.ones(2, 3)), "indices must be given"),
        (
            lambda: KEEPING.in_batch(*views(), extra=views()[0], indices=PLACES),
            "extra must be None with indices",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_what_is_no_denominators_or_indices_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="denominators must be MovingDenominators, got int"):
        bayescl.InfoNCELoss(denominators=9)
    with pytest.raises(TypeError, match="indices must be a tensor, got list"):
        _call([0, 1])
