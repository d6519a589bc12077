"""The cached step does what the uncached one does, with the graph of one chunk at a time."""

from collections import UserDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from cases import Held
from cases import rows as drawn
from torch import Tensor, nn

import bayescl
from bayescl import cached_backward

LOSSES = {
    "info_nce": bayescl.InfoNCELoss,
    "bayesian": partial(bayescl.BayesianContrastiveLoss, alpha=0.9, beta=0.7),
    "bayesian, in blocks": partial(bayescl.BayesianContrastiveLoss, engine="blocked", chunk_size=5),
}
DIM, INFO_NCE = 12, bayescl.InfoNCELoss()
rows = partial(drawn, dim=DIM)


class Counted(nn.Module):
    """Multiplies by the number of calls: a buffer that every call moves and uses."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, rows: Tensor) -> Tensor:
        self.calls += 1
        return rows * self.calls.clone()


def encoder(*middle: nn.Module, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(DIM, 24), *middle, nn.ReLU(), nn.Linear(24, 8))


def views(*sizes: int) -> list[Sequence[Tensor]]:
    """Two views in chunks."""
    return [rows(sum(sizes), seed).split(sizes) for seed in (1, 2)]


def uncached(
    loss: Callable[..., Tensor], encoders: Sequence[nn.Module], *views: Sequence[Tensor]
) -> Tensor:
    """The same chunks in the same order, with all graphs at once."""
    value = loss(
        *(
            torch.cat([encoder(chunk) for chunk in chunks])
            for encoder, chunks in zip(encoders, views, strict=True)
        )
    )
    value.backward()
    return value.detach()


def assert_same_state(module: nn.Module, expected: nn.Module, tolerance: float = 1e-5) -> None:
    for (name, parameter), other in zip(
        module.named_parameters(), expected.parameters(), strict=True
    ):
        if other.grad is None:
            assert parameter.grad is None, name
            continue
        scale = other.grad.abs().max().clamp(min=1e-3)
        assert (parameter.grad - other.grad).abs().max() <= tolerance * scale, name
    for (name, buffer), other in zip(module.named_buffers(), expected.buffers(), strict=True):
        torch.testing.assert_close(buffer, other, msg=lambda text, name=name: f"{name}: {text}")


def compare(
    cached: nn.Module | Sequence[nn.Module],
    plain: Sequence[nn.Module],
    *views: Sequence[Tensor],
    loss: Callable[..., Tensor] = INFO_NCE,
    other: Callable[..., Tensor] | None = None,
    teacher: Sequence[Tensor] | None = None,
    tolerance: float = 1e-5,
    **whole: Any,
) -> None:
    """The cached step and the uncached one give the same value, gradients, buffers and dice."""
    torch.manual_seed(9)
    known = {} if teacher is None else {"teacher": teacher}
    value = cached_backward(loss, cached, *views, **whole, **known)
    after = torch.rand(3)
    torch.manual_seed(9)
    if teacher is not None:
        with torch.no_grad():
            whole["teacher"] = torch.cat([plain[0](chunk) for chunk in teacher])
    expected = uncached(partial(other or loss, **whole), plain, *views)
    assert torch.equal(after, torch.rand(3))
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-7)
    for one, two in zip(
        [cached] if isinstance(cached, nn.Sequential) else cached, plain, strict=False
    ):
        assert_same_state(one, two, tolerance)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("teacher", [(), (5, 7), (12,)])
@pytest.mark.parametrize("sizes", [(5, 7), (2, 4, 4, 2), (12,)])
@pytest.mark.parametrize("name", list(LOSSES))
def test_steps_equal_the_uncached_ones(name, sizes, teacher, training):
    """Dropout is replayed, buffers move once per step, and gradients are added up."""
    cached, plain = (
        encoder(nn.BatchNorm1d(24), nn.Dropout(0.4), Counted()).train(training) for _ in range(2)
    )
    loss, other = [LOSSES[name](temperature=bayescl.LearnableTemperature(0.2)) for _ in range(2)]
    items = rows(12, 3).split(teacher) if teacher else None
    for _ in range(2):
        compare(cached, [plain, plain], *views(*sizes), loss=loss, other=other, teacher=items)
        assert_same_state(loss, other)
    calls = 2 * (2 * len(sizes) + len(teacher))
    assert int(cached[1].num_batches_tracked) == calls * training
    assert int(cached[3].calls) == calls


def test_further_arguments_of_the_loss_are_for_all_rows_at_once():
    labels = torch.tensor([0, 0, 1, -1, -1, -1, 1, 0, -1, -1, -1, -1])
    cached, plain = encoder(), encoder()
    known = {"labels": labels, "groups": torch.arange(12) // 2}
    compare(cached, [plain, plain], *views(5, 7), loss=bayescl.BayesianContrastiveLoss(), **known)


@pytest.mark.gpu
@pytest.mark.parametrize("half", [False, True])
def test_dropout_on_a_gpu_is_replayed(half):
    cached, plain = encoder(nn.Dropout(0.4)).cuda(), encoder(nn.Dropout(0.4)).cuda()
    chunks = [[chunk.cuda() for chunk in view] for view in views(5, 7)]
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=half):
        compare(cached, [plain, plain], *chunks, tolerance=2e-2 if half else 1e-5)


def test_buffers_are_put_back_where_an_encoder_fails():
    model = encoder(nn.BatchNorm1d(24))
    before = [buffer.clone() for buffer in model.buffers()]
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        cached_backward(INFO_NCE, model, [rows(2, 0), torch.ones(2, 5)], [rows(4, 1)])
    assert all(map(torch.equal, before, model.buffers()))
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_random_numbers_go_on_as_after_one_pass():
    def loss(first: Tensor, second: Tensor) -> Tensor:
        drawn = torch.randperm(6)[:4]  # between the passes
        return INFO_NCE(first[drawn], second[drawn])

    plain = encoder(nn.Dropout(0.4))
    compare(encoder(nn.Dropout(0.4)), [plain, plain], *views(2, 2, 2), loss=loss)


@pytest.mark.parametrize("sequence", [list, nn.ModuleList])
def test_each_view_may_have_its_own_encoder_and_chunks(sequence):
    cached, plain = [[encoder(nn.Dropout(0.2), seed=seed) for seed in (1, 2)] for _ in range(2)]
    loss = partial(bayescl.BayesianContrastiveLoss().in_batch, both_directions=True)
    groups = torch.tensor([0, 1, 2, 0, 3, 4, 5, 6, 7])
    chunks = rows(9, 1).split(4), rows(9, 2).split(2)
    compare(sequence(cached), plain, *chunks, loss=loss, groups=groups)


def test_under_autocast_parameters_receive_the_gradient_of_the_uncached_step():
    plain = encoder(nn.Dropout(0.3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        # bfloat16 gradients of chunks are rounded before they are added up.
        compare(encoder(nn.Dropout(0.3)), [plain, plain], *views(3, 3, 2), tolerance=2e-2)


def test_a_scaled_loss_scales_every_gradient():
    cached, plain = encoder(), encoder()
    value = cached_backward(
        INFO_NCE, cached, *views(2, 4), backward=lambda value: (8 * value).backward()
    )
    expected = uncached(lambda *sides: 8 * INFO_NCE(*sides), [plain, plain], *views(2, 4))
    torch.testing.assert_close(8 * value, expected)
    assert_same_state(cached, plain)


def test_a_frozen_encoder_may_stand_beside_a_trained_one():
    cached, plain = [[encoder(seed=1), encoder(seed=2).requires_grad_(False)] for _ in range(2)]
    compare(cached, plain, *views(2, 4))


class Masked(nn.Linear):
    """An encoder with two inputs, as of tokens and their mask."""

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return super().forward(tokens * mask)


def test_a_chunk_may_hold_several_inputs_by_place_or_by_name():
    pairs = [(rows(3, seed), (rows(3, seed + 10) > 0).float()) for seed in range(4)]
    by_name: list[dict[str, Any]] = [{"tokens": first, "mask": second} for first, second in pairs]
    placed, named = Masked(DIM, 8), Masked(DIM, 8)
    named.load_state_dict(placed.state_dict())
    value = cached_backward(INFO_NCE, placed, pairs[:2], pairs[2:])
    assert torch.equal(value, cached_backward(INFO_NCE, named, by_name[:2], by_name[2:]))
    assert torch.equal(placed.weight.grad, named.weight.grad)


def test_the_graph_of_one_chunk_is_alive_at_a_time():
    held = Held()

    class Watched(nn.Linear):
        def forward(self, rows: Tensor) -> Tensor:
            with held:
                return super().forward(rows)

    uncached(INFO_NCE, [Watched(DIM, 8)] * 2, *views(2, 2, 2, 2, 2))
    whole, held.peak = held.peak, 0
    cached_backward(INFO_NCE, Watched(DIM, 8), *views(2, 2, 2, 2, 2))
    assert held.entries == 0
    assert whole == 10 * held.peak > 0


class Editing(nn.Module):
    """An encoder that changes its batch."""

    def __init__(self, edit: Callable[[Any], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.edit, self.linear = edit, nn.Linear(DIM, 8)

    def forward(self, *batch: Any, **named: Any) -> Tensor:
        return self.linear(self.edit(batch[0] if batch else named))


@dataclass
class Sample:
    x: Any


def replaced(batch: Any, key: Any) -> Tensor:
    batch[key] = batch[key] * 0.5 + 1
    return batch[key]


REPLACING: dict[str, tuple[Callable[[Any], Tensor], Callable[[Tensor], Any]]] = {
    "a named input": (lambda x: replaced(x, "x"), lambda x: {"x": x}),
    "a mapping": (lambda x: replaced(x, "x"), lambda x: ({"x": x},)),
    "another mapping": (lambda x: replaced(x, "x"), lambda x: (UserDict(x=x),)),
    "a list in a mapping": (lambda x: replaced(x["parts"], 0), lambda x: ({"parts": [x]},)),
    "a list by name": (lambda x: replaced(x["parts"], 0), lambda x: {"parts": [x]}),
    "an entry taken out": (lambda x: x["x"].pop() * 0.5 + 1, lambda x: ({"x": [x]},)),
    "an object": (lambda x: replaced(vars(x), "x"), lambda x: (Sample(x),)),
    "a list in an object": (lambda x: replaced(x.x, 0), lambda x: (Sample([x]),)),
}


@pytest.mark.parametrize("case", list(REPLACING))
def test_an_encoder_may_replace_the_entries_of_its_batch(case):
    edit, wrap = REPLACING[case]
    cached, plain = Editing(edit), Editing(lambda x: x * 0.5 + 1)
    value = cached_backward(INFO_NCE, cached, *([wrap(x) for x in view] for view in views(3, 3)))
    torch.testing.assert_close(value, uncached(INFO_NCE, [plain, plain], *views(3, 3)))
    assert_same_state(cached, plain)


IN_PLACE: dict[str, tuple[Callable[[Any], Tensor], Callable[[Tensor], Any], str]] = {
    "a tensor": (lambda x: x.sub_(1), lambda x: x, ""),
    "ReLU": (nn.ReLU(inplace=True), lambda x: x, ""),
    "Dropout": (nn.Dropout(0.5, inplace=True), lambda x: x, ""),
    "an element": (lambda x: x[0].mul_(2), lambda x: ([x],), r"\[0\]\[0\]"),
    "a named input": (lambda x: x["x"].sub_(1), lambda x: {"x": x}, r"\['x'\]"),
    "nested": (
        lambda x: x["a"]["b"][1].sub_(1),
        lambda x: {"a": {"b": (3, x)}},
        r"\['a'\]\['b'\]\[1\]",
    ),
    "a field": (lambda x: x.x.sub_(1), lambda x: (Sample(x),), r"\[0\].x"),
}


@pytest.mark.parametrize("case", list(IN_PLACE))
def test_an_encoder_that_overwrites_its_input_is_refused_by_name(case):
    edit, wrap, name = IN_PLACE[case]
    model = Editing(edit)
    message = "must not overwrite its input, but it changed"
    with pytest.raises(RuntimeError, match=rf"{message} view 0, chunk 0{name}:"):
        cached_backward(INFO_NCE, model, *([wrap(x) for x in view] for view in views(3, 3)))
    assert model.linear.weight.grad is None
    if case == "a tensor":
        with pytest.raises(RuntimeError, match=rf"{message} teacher, chunk 0:"):
            cached_backward(INFO_NCE, model, *views(3, 3), teacher=views(3, 3)[0])


def test_the_teacher_is_the_first_encoder_or_a_tensor_of_embeddings():
    items, models = rows(6, 3), [encoder(seed=seed) for seed in (1, 2)]
    values = [
        cached_backward(INFO_NCE, models, *views(2, 4), teacher=given)
        for given in (items.split(2), models[0](items).detach(), models[1](items).detach())
    ]
    torch.testing.assert_close(values[0], values[1])
    assert not torch.isclose(values[0], values[2])


class Twofold(nn.Linear):
    def forward(self, rows: Tensor) -> Any:
        return rows, rows


NO_MODULE = (TypeError, "encoder must be a torch.nn.Module or a sequence of them, got")
NO_CHUNKS = (TypeError, "must be a list of chunks, got a whole batch: split it")


@pytest.mark.parametrize(
    ("kind", "message", "encoders", "chunks", "options"),
    [
        *((*NO_MODULE, one, views(2, 2), {}) for one in (None, 0.5, [abs] * 2, abs)),
        (TypeError, "encoder must return a tensor, got tuple", Twofold(8, 8), views(2, 2), {}),
        (ValueError, "got 0 views and", encoder(), [], {}),
        (ValueError, "got 2 views and 1 encoders", [encoder()], views(2, 2), {}),
        (ValueError, "view 1 must contain at least one", encoder(), [*views(2)[:1], []], {}),
        (*NO_CHUNKS, encoder(), [rows(4, 0), rows(4, 1)], {}),
        (*NO_CHUNKS, encoder(), views(2, 2), {"teacher": {"x": rows(4, 2)}}),
        (ValueError, "teacher must contain at least one", encoder(), views(2, 2), {"teacher": []}),
    ],
)
def test_a_step_that_is_none_is_refused(kind, message, encoders, chunks, options):
    with pytest.raises(kind, match=message):
        cached_backward(INFO_NCE, encoders, *chunks, **options)


def test_a_loss_that_is_not_a_scalar_is_refused():
    with pytest.raises(ValueError, match=r"loss must return a scalar, got shape \[8\]"):
        cached_backward(bayescl.InfoNCELoss(reduction="none"), encoder(), *views(2, 2))
