"""The cached step does what the uncached one does, with the graph of one chunk at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
import torch
from cases import each
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm

import bayescl
from bayescl import cached_backward

LOSSES = {
    "info_nce": bayescl.InfoNCELoss,
    "debiased": bayescl.DebiasedContrastiveLoss,
    "hard": bayescl.HardContrastiveLoss,
    "bayesian": partial(bayescl.BayesianContrastiveLoss, alpha=0.9, beta=0.7),
    "bayesian, chunked": partial(bayescl.BayesianContrastiveLoss, engine="chunked", chunk_size=5),
}
DIM = 12


def rows(count: int, seed: int) -> Tensor:
    return torch.randn(count, DIM, generator=torch.Generator().manual_seed(seed))


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


@each("name", list(LOSSES))
@each("sizes", [(5, 7), (1, 4, 4, 3), (12,)])
def test_the_step_equals_the_uncached_one_with_dropout(name: str, sizes: tuple[int, ...]) -> None:
    views = [rows(12, 1).split(sizes), rows(12, 2).split(sizes)]
    cached, plain = encoder(nn.Dropout(0.4)), encoder(nn.Dropout(0.4))
    loss, other = [LOSSES[name](temperature=bayescl.LearnableTemperature(0.2)) for _ in range(2)]
    torch.manual_seed(9)
    value = cached_backward(loss, cached, *views)
    torch.manual_seed(9)
    torch.testing.assert_close(value, uncached(other, [plain, plain], *views), rtol=1e-6, atol=0)
    assert_same_state(cached, plain)
    assert_same_state(loss, other)


def test_further_arguments_of_the_loss_are_for_all_rows_at_once() -> None:
    labels = torch.tensor([0, 0, 1, -1, -1, -1, 1, 0, -1, -1, -1, -1])
    cached, plain = encoder(), encoder()
    loss, other = [
        bayescl.LatentClassContrastiveLoss(num_classes=3, memory_size=24, refit_every=1)
        for _ in range(2)
    ]
    for seed in range(3):
        views = [rows(12, 2 * seed + view).split((5, 7)) for view in range(2)]
        value = cached_backward(loss, cached, *views, labels=labels)
        whole = partial(other, labels=labels)
        torch.testing.assert_close(value, uncached(whole, [plain, plain], *views))
    assert_same_state(cached, plain)


@pytest.mark.gpu
@each("half", [False, True])
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


def test_the_step_equals_that_of_the_unsplit_batch_where_rows_do_not_meet() -> None:
    view_1, view_2 = rows(12, 1), rows(12, 2)
    cached, plain = encoder(nn.LayerNorm(24)), encoder(nn.LayerNorm(24))
    loss = bayescl.BayesianContrastiveLoss()
    cached_backward(loss, cached, view_1.split(5), view_2.split(3))
    loss(plain(view_1), plain(view_2)).backward()
    assert_same_state(cached, plain)


def test_running_statistics_move_once_and_as_without_a_cache() -> None:
    views = [rows(12, 1).split(4), rows(12, 2).split(4)]
    cached, plain = encoder(nn.BatchNorm1d(24)), encoder(nn.BatchNorm1d(24))
    loss = bayescl.BayesianContrastiveLoss()
    for _ in range(2):
        cached_backward(loss, cached, *views)
        uncached(loss, [plain, plain], *views)
    assert int(cached[1].num_batches_tracked) == 12  # 2 steps x 2 views x 3 chunks
    assert_same_state(cached, plain)


def test_in_evaluation_mode_running_statistics_stay() -> None:
    cached = encoder(nn.BatchNorm1d(24)).eval()
    before = [buffer.clone() for buffer in cached.buffers()]
    cached_backward(bayescl.InfoNCELoss(), cached, rows(4, 1).split(2), rows(4, 2).split(2))
    assert all(map(torch.equal, before, cached.buffers()))


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
    views = [rows(6, 1).split(2), rows(6, 2).split(2)]
    cached, plain = encoder(nn.Dropout(0.4)), encoder(nn.Dropout(0.4))

    def loss(first: Tensor, second: Tensor) -> Tensor:
        drawn = torch.randperm(6)[:4]  # between the passes
        return bayescl.InfoNCELoss()(first[drawn], second[drawn])

    torch.manual_seed(3)
    cached_backward(loss, cached, *views)
    after = torch.rand(3)
    torch.manual_seed(3)
    uncached(loss, [plain, plain], *views)
    assert torch.equal(after, torch.rand(3))
    assert_same_state(cached, plain)


def test_each_view_may_have_its_own_encoder_and_chunks() -> None:
    users, items = encoder(nn.Dropout(0.2), seed=1), encoder(nn.Dropout(0.2), seed=2)
    other_users, other_items = encoder(nn.Dropout(0.2), seed=1), encoder(nn.Dropout(0.2), seed=2)
    views = [rows(9, 1).split(4), rows(9, 2).split(2)]
    groups = torch.tensor([0, 1, 2, 0, 3, 4, 5, 6, 7])

    def loss(first: Tensor, second: Tensor) -> Tensor:
        return bayescl.BayesianContrastiveLoss().in_batch(
            first, second, groups=groups, both_directions=True
        )

    torch.manual_seed(4)
    value = cached_backward(loss, (users, items), *views)
    torch.manual_seed(4)
    torch.testing.assert_close(value, uncached(loss, (other_users, other_items), *views))
    assert_same_state(users, other_users)
    assert_same_state(items, other_items)


def test_under_autocast_parameters_receive_the_gradient_of_the_uncached_step() -> None:
    views = [rows(8, 1).split(3), rows(8, 2).split(3)]
    cached, plain = encoder(nn.Dropout(0.3)), encoder(nn.Dropout(0.3))
    loss = bayescl.BayesianContrastiveLoss()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.manual_seed(6)
        value = cached_backward(loss, cached, *views)
        torch.manual_seed(6)
        torch.testing.assert_close(value, uncached(loss, [plain, plain], *views))
    # bfloat16 gradients of chunks are rounded before they are added up.
    assert_same_state(cached, plain, tolerance=2e-2)


def test_gradients_are_added_to_what_is_there() -> None:
    views = [rows(6, 1).split(2), rows(6, 2).split(2)]
    cached, plain = encoder(), encoder()
    for _ in range(2):
        cached_backward(bayescl.InfoNCELoss(), cached, *views)
    uncached(bayescl.InfoNCELoss(), [plain, plain], *views)
    for parameter, other in zip(cached.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, 2 * other.grad)


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
    trained, frozen = encoder(seed=1), encoder(seed=2).requires_grad_(False)
    other = encoder(seed=1)
    views = [rows(6, 1).split(2), rows(6, 2).split(3)]
    loss = bayescl.InfoNCELoss().in_batch
    cached_backward(loss, (trained, frozen), *views)
    uncached(loss, (other, frozen), *views)
    assert_same_state(trained, other)
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


def test_an_encoder_that_fails_leaves_its_buffers_as_they_were() -> None:
    model = encoder(nn.BatchNorm1d(24))
    before = [buffer.clone() for buffer in model.buffers()]
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        cached_backward(bayescl.InfoNCELoss(), model, [rows(2, 0), torch.ones(2, 5)], [rows(4, 1)])
    assert all(map(torch.equal, before, model.buffers()))
    assert not any(module._forward_pre_hooks for module in model.modules())


@each(
    ("call", "message"),
    [
        (lambda: cached_backward(bayescl.InfoNCELoss(), encoder()), "one per encoder, got 0"),
        (
            lambda: cached_backward(
                bayescl.InfoNCELoss(), (encoder(),), [rows(2, 0)], [rows(2, 1)]
            ),
            "views must be one per encoder, got 2 for 1",
        ),
        (
            lambda: cached_backward(bayescl.InfoNCELoss(), encoder(), [rows(2, 0)], []),
            "views must hold at least one chunk, got none in view 1",
        ),
        (
            lambda: cached_backward(
                bayescl.InfoNCELoss(reduction="none"), encoder(), [rows(2, 0)], [rows(2, 1)]
            ),
            r"loss must return a scalar, got shape \[4\]",
        ),
    ],
)
def test_what_makes_no_step_is_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_an_encoder_must_return_one_tensor() -> None:
    class Pair(nn.Linear):
        def forward(self, rows: Tensor) -> Any:
            return super().forward(rows), rows

    with pytest.raises(TypeError, match="encoder must return a tensor, got tuple"):
        cached_backward(bayescl.InfoNCELoss(), Pair(DIM, 8), [rows(2, 0)], [rows(2, 1)])
