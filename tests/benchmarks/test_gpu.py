"""The benchmark of GPUs: its checks, on the CPU."""

import sys

import gpu
import pytest
import torch


def test_the_losses_agree_with_float64_and_what_is_further_off_fails(monkeypatch):
    monkeypatch.setattr(gpu, "TEMPERATURES", (0.05, 0.5))
    rows = gpu.check("cpu", (40,))
    assert len(rows) == len(gpu.losses()) * len(gpu.TOLERANCE) * len(gpu.TEMPERATURES)
    assert all(row["passed"] for row in rows)
    monkeypatch.setattr(gpu, "TOLERANCE", dict.fromkeys(gpu.TOLERANCE, 0.0))
    assert not any(row["passed"] for row in gpu.check("cpu", (40,)))


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_without_a_device_nothing_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu.py"])
    assert gpu.main() == 2
    assert "there is none to measure" in capsys.readouterr().out
