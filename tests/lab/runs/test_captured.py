"""The captured step on a CPU, with PyTorch's capture replaced by what it does to a module."""

from dataclasses import replace

import pytest
import torch

from bayescl_lab.items.batches import EpochOrder, StoreBatches
from bayescl_lab.runs.captured import CapturedStep
from bayescl_lab.runs.images.image_run import ImageRun
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings

SETTINGS = ImageSettings(
    loss=LossSettings("info_nce"), augmentation="simclr", encoder="small", width=4, batch_size=16
)


def warmed_up(module, sample, *, allow_unused_input):
    """Pass samples through a module three times, as a capture does, and return it."""
    assert allow_unused_input
    assert not torch.is_autocast_cache_enabled() or not torch.is_autocast_enabled("cpu")
    for _ in range(3):
        outputs = [it for it in module(*sample) if it.requires_grad]
        gradients = [torch.zeros_like(it) for it in outputs]
        torch.autograd.grad(outputs, list(module.parameters()), gradients)
    return module


def trained(capture: bool, share: float, half: bool) -> tuple[dict[str, torch.Tensor], list[float]]:
    """State and losses after three steps."""
    run = ImageRun(replace(SETTINGS, data="digits", device="cpu", positive_share=share))
    model, store = run.model.train(), run.parts.train
    if capture:
        model.captured = CapturedStep(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    batches = StoreBatches(store, EpochOrder(len(store), 16, 0))
    for step, batch in zip(range(3), batches, strict=False):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
            loss = model.training_step(batch, step)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return model.state_dict(), losses


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_captured_step_trains_as_an_eager_one_and_warming_up_leaves_no_trace(
    share, half, monkeypatch
):
    monkeypatch.setattr(torch.cuda, "make_graphed_callables", warmed_up)
    state, losses = trained(True, share, half)
    expected, expected_losses = trained(False, share, half)
    torch.testing.assert_close(losses, expected_losses)
    assert state.keys() == expected.keys()
    torch.testing.assert_close(state, expected)


def test_where_capturing_fails_training_goes_on_eagerly(monkeypatch, caplog):
    def failing(module, sample, **_):
        warmed_up(module, sample, allow_unused_input=True)
        raise RuntimeError("operation not permitted\nwhen stream is capturing")

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", failing)
    state, losses = trained(True, 0.5, half=False)
    assert caplog.messages == ["training continues without a CUDA graph: operation not permitted"]
    expected, expected_losses = trained(False, 0.5, half=False)
    assert losses == expected_losses
    torch.testing.assert_close(state, expected, atol=0, rtol=0)


def test_where_a_graph_is_impossible_a_warning_says_what_it_needs(caplog):
    run = ImageRun(replace(SETTINGS, captured=True, device="cpu"))
    assert run._captured_step() is None
    assert "captured has no effect: it needs one GPU" in caplog.text
