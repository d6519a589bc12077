"""The cached step does what the uncached one does, with the graph of one chunk at a time."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from cases import rows as drawn
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

import bayescl
from bayescl import cached_backward

LOSSES = {
    "info_nce": bayescl.InfoNCELoss,
    "debiased": bayescl.DebiasedContrastiveLoss,
    "hard": bayescl.HardContrastiveLoss,
    "bayesian": partial(bayescl.BayesianContrastiveLoss, alpha=0.9, beta=0.7),
    "bayesian, in blocks": partial(bayescl.BayesianContrastiveLoss, engine="blocked", chunk_size=5),
}
DIM, INFO_NCE = 12, bayescl.InfoNCELoss()
rows = partial(drawn, dim=DIM)


def encoder(*middle: nn.Module, seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(DIM, 24), *middle, nn.ReLU(), nn.Linear(24, 8))


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
    tolerance: float = 1e-5,
    **whole: Any,
) -> None:
    """The cached step and the uncached one give the same value, gradients, buffers and dice."""
    torch.manual_seed(9)
    value = cached_backward(loss, cached, *views, **whole)
    after = torch.rand(3)
    torch.manual_seed(9)
    expected = uncached(partial(other or loss, **whole), plain, *views)
    assert torch.equal(after, torch.rand(3))
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-7)
    for one, two in zip([cached] if isinstance(cached, nn.Module) else cached, plain, strict=False):
        assert_same_state(one, two, tolerance)


@pytest.mark.parametrize("name", list(LOSSES))
@pytest.mark.parametrize("sizes", [(5, 7), (1, 4, 4, 3), (12,)])
def test_the_step_equals_the_uncached_one_with_dropout(name: str, sizes: tuple[int, ...]) -> None:
    views = [rows(12, 1).split(sizes), rows(12, 2).split(sizes)]
    cached, plain = encoder(nn.Dropout(0.4)), encoder(nn.Dropout(0.4))
    loss, other = [LOSSES[name](temperature=bayescl.LearnableTemperature(0.2)) for _ in range(2)]
    compare(cached, [plain, plain], *views, loss=loss, other=other)
    assert_same_state(loss, other)


def test_further_arguments_of_the_loss_are_for_all_rows_at_once() -> None:
    labels = torch.tensor([0, 0, 1, -1, -1, -1, 1, 0, -1, -1, -1, -1])
    cached, plain = encoder(), encoder()
    views = [rows(12, view).split((5, 7)) for view in range(2)]
    loss = bayescl.BayesianContrastiveLoss()
    compare(cached, [plain, plain], *views, loss=loss, labels=labels, groups=torch.arange(12) // 2)


@pytest.mark.gpu
@pytest.mark.parametrize("half", [False, True])
def test_dropout_on_a_gpu_is_replayed(half: bool) -> None:
    views = [rows(12, 1).cuda().split((5, 7)), rows(12, 2).cuda().split((5, 7))]
    cached, plain = encoder(nn.Dropout(0.4)).cuda(), encoder(nn.Dropout(0.4)).cuda()
    loss = bayescl.BayesianContrastiveLoss()
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=half):
        torch.manual_seed(9)
        value = cached_backward(loss, cached, *views)
        after = torch.rand(3, device="cuda")
        torch.manual_seed(9)
        torch.testing.assert_close(value, uncached(loss, [plain, plain], *views))
    assert torch.equal(after, torch.rand(3, device="cuda"))
    assert_same_state(cached, plain, tolerance=2e-2 if half else 1e-5)


def test_running_statistics_move_once_and_gradients_are_added_to_what_is_there() -> None:
    views = [rows(12, 1).split(4), rows(12, 2).split(4)]
    cached, plain = encoder(nn.BatchNorm1d(24)), encoder(nn.BatchNorm1d(24))
    for _ in range(2):
        compare(cached, [plain, plain], *views)
    assert int(cached[1].num_batches_tracked) == 12  # 2 steps x 2 views x 3 chunks


def test_running_statistics_stay_in_evaluation_mode_and_where_an_encoder_fails() -> None:
    model = encoder(nn.BatchNorm1d(24))
    before = [buffer.clone() for buffer in model.buffers()]
    cached_backward(bayescl.InfoNCELoss(), model.eval(), rows(4, 1).split(2), rows(4, 2).split(2))
    assert all(map(torch.equal, before, model.buffers()))
    model.train()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        cached_backward(bayescl.InfoNCELoss(), model, [rows(2, 0), torch.ones(2, 5)], [rows(4, 1)])
    assert all(map(torch.equal, before, model.buffers()))
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_other_buffers_that_move_while_training_are_replayed_too() -> None:
    """Spectral norm turns its vectors at every call, and the weight with them."""
    views = [rows(6, 1).split(2), rows(6, 2).split(2)]
    cached, plain = [encoder(spectral_norm(nn.Linear(24, 24))) for _ in range(2)]
    loss = bayescl.InfoNCELoss()
    cached_backward(loss, cached, *views)
    # The uncached graph would need every version of the vectors; one chunk at a time needs one.
    embeddings, states = [], []
    with torch.no_grad():
        for chunk in (*views[0], *views[1]):
            states.append({name: value.clone() for name, value in plain.named_buffers()})
            embeddings.append(plain(chunk))
    leaves = [part.requires_grad_() for part in embeddings]
    loss(torch.cat(leaves[:3]), torch.cat(leaves[3:])).backward()
    for chunk, leaf, state in zip((*views[0], *views[1]), leaves, states, strict=True):
        plain.load_state_dict(state, strict=False)
        plain(chunk).backward(leaf.grad)
    assert_same_state(cached, plain)


def test_random_numbers_go_on_as_after_one_pass() -> None:
    def loss(first: Tensor, second: Tensor) -> Tensor:
        drawn = torch.randperm(6)[:4]  # between the passes
        return bayescl.InfoNCELoss()(first[drawn], second[drawn])

    plain = encoder(nn.Dropout(0.4))
    views = [rows(6, 1).split(2), rows(6, 2).split(2)]
    compare(encoder(nn.Dropout(0.4)), [plain, plain], *views, loss=loss)


def test_each_view_may_have_its_own_encoder_and_chunks() -> None:
    cached, plain = [[encoder(nn.Dropout(0.2), seed=seed) for seed in (1, 2)] for _ in range(2)]
    loss = partial(bayescl.BayesianContrastiveLoss().in_batch, both_directions=True)
    groups = torch.tensor([0, 1, 2, 0, 3, 4, 5, 6, 7])
    compare(cached, plain, rows(9, 1).split(4), rows(9, 2).split(2), loss=loss, groups=groups)


def test_under_autocast_parameters_receive_the_gradient_of_the_uncached_step() -> None:
    views = [rows(8, 1).split(3), rows(8, 2).split(3)]
    plain = encoder(nn.Dropout(0.3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        # bfloat16 gradients of chunks are rounded before they are added up.
        compare(encoder(nn.Dropout(0.3)), [plain, plain], *views, tolerance=2e-2)


def test_a_scaled_loss_scales_every_gradient() -> None:
    views = [rows(6, 1).split(2), rows(6, 2).split(2)]
    cached, plain = encoder(), encoder()
    value = cached_backward(
        bayescl.InfoNCELoss(), cached, *views, backward=lambda value: (8 * value).backward()
    )
    expected = uncached(bayescl.InfoNCELoss(), [plain, plain], *views)
    torch.testing.assert_close(value, expected)
    for parameter, other in zip(cached.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, 8 * other.grad)


def test_a_frozen_encoder_may_stand_beside_a_trained_one() -> None:
    trained, frozen, plain = encoder(seed=1), encoder(seed=2).requires_grad_(False), encoder(seed=1)
    views = [rows(6, 1).split(2), rows(6, 2).split(3)]
    cached_backward(bayescl.InfoNCELoss(), (trained, frozen), *views)
    uncached(bayescl.InfoNCELoss(), (plain, frozen), *views)
    assert_same_state(trained, plain)
    assert all(parameter.grad is None for parameter in frozen.parameters())


class Named(nn.Module):
    """An encoder with two inputs, as of tokens and their mask."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(DIM, 8)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        return self.linear(tokens * mask)


def test_a_chunk_may_hold_several_inputs_by_place_or_by_name() -> None:
    pairs = [(rows(3, seed), (rows(3, seed + 10) > 0).float()) for seed in range(4)]
    by_name: list[dict[str, Any]] = [{"tokens": first, "mask": second} for first, second in pairs]
    placed, named = Named(), Named()
    loss = bayescl.InfoNCELoss()
    value = cached_backward(loss, placed, pairs[:2], pairs[2:])
    assert torch.equal(value, cached_backward(loss, named, by_name[:2], by_name[2:]))
    assert torch.equal(placed.linear.weight.grad, named.linear.weight.grad)


class Alive(torch.autograd.Function):
    """Counts graphs that were built and not yet differentiated."""

    now = 0
    most = 0

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        if any(ctx.needs_input_grad):
            Alive.now += 1
            Alive.most = max(Alive.most, Alive.now)
        return rows.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        Alive.now -= 1
        return gradient


class Watched(nn.Linear):
    def forward(self, rows: Tensor) -> Tensor:
        return Alive.apply(super().forward(rows))


def test_the_graph_of_one_chunk_is_alive_at_a_time() -> None:
    Alive.now = Alive.most = 0
    views = [rows(10, 1).split(2), rows(10, 2).split(2)]
    loss = bayescl.InfoNCELoss()
    uncached(loss, [Watched(DIM, 8)] * 2, *views)
    assert Alive.most == 10
    Alive.most = 0
    cached_backward(loss, Watched(DIM, 8), *views)
    assert (Alive.now, Alive.most) == (0, 1)


class Editing(nn.Module):
    """An encoder that replaces the entries of its batch."""

    def __init__(self, edit: Callable[[Any], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.edit, self.linear = edit, nn.Linear(DIM, 8)

    def forward(self, *batch: Any, **named: Any) -> Tensor:
        return self.linear(self.edit(batch[0] if batch else named))


@dataclass
class Sample:
    x: Any


def replaced(batch: Any) -> Tensor:
    batch["x"] = batch["x"] * 0.5 + 1
    return batch["x"]


def replaced_in_list(batch: Any) -> Tensor:
    batch["parts"][0] = batch["parts"][0] * 0.5 + 1
    return batch["parts"][0]


def popped(batch: Any) -> Tensor:
    return batch["parts"].pop() - 1


def replaced_in_object(batch: Any) -> Tensor:
    batch.x = batch.x * 0.5 + 1
    return batch.x


def replaced_in_a_list_of_an_object(batch: Any) -> Tensor:
    batch.x.append(batch.x.pop() * 0.5 + 1)
    return batch.x[0]


REPLACING: dict[str, tuple[Callable[[Any], Tensor], Callable[[Tensor], Any]]] = {
    "a named input": (replaced, lambda x: {"x": x}),
    "a mapping": (replaced, lambda x: ({"x": x},)),
    "another mapping": (replaced, lambda x: (UserDict(x=x),)),
    "a list in a mapping": (replaced_in_list, lambda x: ({"parts": [x]},)),
    "a list in a mapping by name": (replaced_in_list, lambda x: {"parts": [x]}),
    "what is taken out": (popped, lambda x: ({"parts": [x]},)),
    "an object": (replaced_in_object, lambda x: (Sample(x),)),
    "a list in an object": (replaced_in_a_list_of_an_object, lambda x: (Sample([x]),)),
}


@pytest.mark.parametrize("case", list(REPLACING))
def test_an_encoder_may_replace_the_entries_of_its_batch(case: str) -> None:
    edit, wrap = REPLACING[case]
    parts = [rows(6, 1).split(3), rows(6, 2).split(3)]
    cached, plain = Editing(edit), Editing(edit)
    value = cached_backward(INFO_NCE, cached, *([wrap(x) for x in view] for view in parts))
    embeddings = [
        torch.cat([plain.linear(edit_once(edit, wrap, x)) for x in view]) for view in parts
    ]
    expected = INFO_NCE(*embeddings)
    expected.backward()
    torch.testing.assert_close(value, expected.detach())
    assert_same_state(cached, plain)


def edit_once(edit: Callable[[Any], Tensor], wrap: Callable[[Tensor], Any], x: Tensor) -> Tensor:
    """What an encoder makes of a fresh batch."""
    batch = wrap(x)
    return edit(batch[0] if isinstance(batch, tuple) else batch)


IN_PLACE: dict[str, tuple[Callable[[Any], Tensor], Callable[[Tensor], Any], str]] = {
    "a tensor": (lambda x: x.sub_(1), lambda x: x, "view 0, chunk 0"),
    "ReLU": (nn.ReLU(inplace=True), lambda x: x, "view 0, chunk 0"),
    "Dropout": (nn.Dropout(0.5, inplace=True), lambda x: x, "view 0, chunk 0"),
    "an element": (lambda x: x[0].mul_(2), lambda x: ([x],), r"view 0, chunk 0\[0\]\[0\]"),
    "a named input": (lambda x: x["x"].sub_(1), lambda x: {"x": x}, r"view 0, chunk 0\['x'\]"),
    "nested": (
        lambda x: x["a"]["b"][1].sub_(1),
        lambda x: {"a": {"b": (3, x)}},
        r"view 0, chunk 0\['a'\]\['b'\]\[1\]",
    ),
    "a field": (lambda x: x.x.sub_(1), lambda x: (Sample(x),), r"view 0, chunk 0\[0\].x"),
}


@pytest.mark.parametrize("case", list(IN_PLACE))
def test_an_encoder_that_overwrites_its_input_is_refused_by_name(case: str) -> None:
    edit, wrap, name = IN_PLACE[case]
    views = [[wrap(x) for x in rows(6, seed).split(3)] for seed in (1, 2)]
    model = Editing(edit)
    with pytest.raises(
        RuntimeError, match=rf"must not overwrite its input, but it changed {name}:"
    ):
        cached_backward(INFO_NCE, model, *views)
    assert model.linear.weight.grad is None


@pytest.mark.parametrize("other", [None, 0.5, [lambda x: x] * 2, lambda x: x, Sample.__init__])
def test_an_encoder_that_is_not_a_module_is_refused(other: Any) -> None:
    with pytest.raises(TypeError, match=r"encoder must be a torch.nn.Module or a sequence of them"):
        cached_backward(INFO_NCE, other, rows(4, 0).split(2), rows(4, 1).split(2))


def test_a_module_list_holds_one_encoder_per_view() -> None:
    cached, plain = [[encoder(seed=seed) for seed in (1, 2)] for _ in range(2)]
    views = [rows(9, 1).split(4), rows(9, 2).split(2)]
    cached_backward(INFO_NCE, nn.ModuleList(cached), *views)
    uncached(INFO_NCE, plain, *views)
    for one, other in zip(cached, plain, strict=True):
        assert_same_state(one, other)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("sizes", [(5, 7), (4, 4, 4), (12,)])
@pytest.mark.parametrize("name", list(LOSSES))
def test_teacher_chunks_are_encoded_once_before_the_views(
    name: str, sizes: tuple[int, ...], training: bool
) -> None:
    views, plain_items = [rows(12, seed).split((6, 6)) for seed in (1, 2)], rows(12, 3).split(sizes)
    cached, plain = [encoder(nn.BatchNorm1d(24), nn.Dropout(0.4)).train(training) for _ in range(2)]
    loss = LOSSES[name]()
    torch.manual_seed(9)
    value = cached_backward(loss, cached, *views, teacher=plain_items)
    after = torch.rand(3)
    torch.manual_seed(9)
    with torch.no_grad():
        teacher = torch.cat([plain(chunk) for chunk in plain_items])
    expected = uncached(partial(loss, teacher=teacher), [plain, plain], *views)
    assert torch.equal(after, torch.rand(3))
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-7)
    assert_same_state(cached, plain)
    assert int(cached[1].num_batches_tracked) == training * (4 + len(sizes))


def test_a_teacher_of_embeddings_is_passed_on_and_the_first_encoder_is_the_teacher() -> None:
    views = [rows(6, 1).split(3), rows(6, 2).split(2)]
    items = rows(6, 3)
    cached, plain = [[encoder(seed=seed) for seed in (1, 2)] for _ in range(2)]
    compare(cached, plain, *views, teacher=items)
    values = [
        cached_backward(INFO_NCE, plain, *views, teacher=given)
        for given in (items.split(2), plain[0](items).detach(), plain[1](items).detach())
    ]
    torch.testing.assert_close(values[0], values[1])
    assert not torch.isclose(values[0], values[2])


def test_a_teacher_that_is_no_list_of_chunks_is_refused() -> None:
    views = [rows(4, 0).split(2), rows(4, 1).split(2)]
    with pytest.raises(TypeError, match="teacher must be a list of chunks, got a whole batch"):
        cached_backward(INFO_NCE, encoder(), *views, teacher={"x": rows(4, 2)})
    with pytest.raises(ValueError, match="teacher must hold at least one chunk, got none"):
        cached_backward(INFO_NCE, encoder(), *views, teacher=[])
    in_place = Editing(nn.ReLU(inplace=True))
    with pytest.raises(RuntimeError, match="it changed teacher, chunk 0:"):
        cached_backward(INFO_NCE, in_place, *views, teacher=rows(4, 2).split(2))


def test_what_makes_no_step_is_refused() -> None:
    class Pair(nn.Linear):
        def forward(self, rows: Tensor) -> Any:
            return super().forward(rows), rows

    loss, single = bayescl.InfoNCELoss(), [rows(2, 0)]
    for encoders, views, message in (
        (encoder(), [], "views must be one per encoder, got 0"),
        ((encoder(),), [single, single], "views must be one per encoder, got 2 for 1"),
        (encoder(), [single, []], "view 1 must hold at least one chunk, got none"),
    ):
        with pytest.raises(ValueError, match=message):
            cached_backward(loss, encoders, *views)
    with pytest.raises(
        TypeError, match="view 0 must be a list of chunks, got a whole batch: split it"
    ):
        cached_backward(loss, encoder(), rows(4, 0), rows(4, 1))
    with pytest.raises(ValueError, match=r"loss must return a scalar, got shape \[4\]"):
        cached_backward(bayescl.InfoNCELoss(reduction="none"), encoder(), single, [rows(2, 1)])
    with pytest.raises(TypeError, match="encoder must return a tensor, got tuple"):
        cached_backward(loss, Pair(DIM, 8), single, single)
