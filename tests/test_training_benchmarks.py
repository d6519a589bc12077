"""The benchmarks that train go through on a CPU, at a size that measures nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def gpu_benchmark(*options: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--device", "cpu", *options]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | environment
    )


def test_the_training_section_of_the_gpu_benchmark_goes_through_on_a_cpu(tmp_path):
    outcome = gpu_benchmark("--quick", "--out", str(tmp_path))
    assert outcome.returncode == 0, outcome.stderr
    (written,) = tmp_path.glob("*-gpu.json")
    sections = json.loads(written.read_text())["sections"]
    assert list(sections) == ["training"]
    for loss in ("InfoNCE", "Bayesian", "latent classes"):
        assert sections["training"][f"small, {loss}"]["median_ms"] > 0
    table = written.with_suffix(".md").read_text()
    assert "| Bayesian " in table
    assert "failed" not in table


def test_the_kernel_sections_are_rehearsed_in_the_interpreter_and_not_measured_twice(tmp_path):
    pytest.importorskip("triton")
    options = ("--quick", "--out", str(tmp_path), "--sections")
    outcome = gpu_benchmark(*options, "accuracy", "kernels", TRITON_INTERPRET="1")
    assert outcome.returncode == 0, outcome.stderr
    (written,) = tmp_path.glob("*-gpu.json")
    first = json.loads(written.read_text())["sections"]
    assert all(row["loss_error"] < 1e-4 for row in first["accuracy"].values())
    assert all(row["gradient_error"] < 2e-3 for row in first["accuracy"].values())
    assert {row["arithmetic"] for row in first["kernels"].values()} == {"float16", "float32 ieee"}
    again = gpu_benchmark(*options, "kernels", "speed", TRITON_INTERPRET="1")
    assert again.returncode == 0, again.stderr
    assert "kernels: done before" in again.stdout
    sections = json.loads(written.read_text())["sections"]
    assert {name: sections[name] for name in first} == first
    assert {row["batch"] for row in sections["speed"].values()} == {12, 24}


def test_without_a_gpu_nothing_is_measured():
    outcome = gpu_benchmark()
    assert (outcome.returncode, outcome.stderr) == (2, "")
    assert "there is none to measure" in outcome.stdout


def test_seconds_per_epoch_are_measured_side_by_side(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import harness
    import image_epoch

    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    image_epoch.main(["--encoder", "small", "--batch-size", "16", "--rounds", "2"])
    (written,) = tmp_path.glob("*-image-epoch.json")
    result = json.loads(written.read_text())
    seconds = [result["losses"][name]["seconds_per_step"] for name in ("InfoNCE", "Bayesian")]
    assert min(seconds) > 0
    assert result["losses"]["InfoNCE"]["seconds_per_epoch"] == seconds[0] * (50_000 // 16)
    assert result["bayesian_over_info_nce"] > 0
    assert "Bayesian / InfoNCE" in capsys.readouterr().out
