"""A training step waits for nothing on a GPU, whatever the loss; counted on fake CUDA tensors."""

from __future__ import annotations

from dataclasses import replace

import launches
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from bayescl_lab.runs.losses import LossSettings

SMALL = replace(launches.SETTINGS, encoder="small", width=4, hidden_dim=8)


@pytest.mark.parametrize("loss", LossSettings.classes())
def test_a_step_reads_nothing_back_and_copies_only_the_parameters_of_its_views(loss):
    for share, known in ((0.5, ()), (1.0, ("domains",)), (0.5, ("teacher",))):
        settings = replace(SMALL, loss=LossSettings(loss), positive_share=share)
        counts = launches.forward_counts(settings, known=known)
        assert {name: one["copies"] for name, one in counts.items() if "copies" in one} == {
            "epoch": 1,
            "parameters": 1,
        }
        assert not any("host" in counts[name] for name in ("batch", "augmentation", "objective"))


def test_a_step_of_resnet18_launches_less_than_half_of_what_it_did():
    counts = launches.forward_counts(launches.SETTINGS)
    assert counts["augmentation"]["device"] <= 240
    forward = sum(one.get("device", 0) for name, one in counts.items() if name != "epoch")
    assert forward + sum(launches.backward_counts(launches.SETTINGS).values()) <= 900


def test_a_value_that_is_read_back_is_an_error():
    with FakeTensorMode(), pytest.raises(RuntimeError):
        torch.ones(3, device="cuda").sum().item()


def test_a_loss_has_at_most_as_many_operations_as_the_naive_code():
    counts = {row["loss"]: row["operations"] for row in launches.loss_counts()}
    assert counts["InfoNCE"] <= counts[launches.REFERENCE] == 34
    assert {name: counts[name] <= most for name, most in launches.MOST.items()} == dict.fromkeys(
        launches.MOST, True
    )
