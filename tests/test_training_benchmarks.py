"""The benchmarks that train go through on a CPU, at a size that measures nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


def gpu_benchmark(*options: str) -> subprocess.CompletedProcess:
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--device", "cpu", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_the_training_sections_of_the_gpu_benchmark_go_through_on_a_cpu(tmp_path):
    outcome = gpu_benchmark("--quick", "--out", str(tmp_path), "--name", "smoke")
    assert outcome.returncode == 0, outcome.stderr
    (written,) = tmp_path.glob("*-smoke.json")
    sections = json.loads(written.read_text())["sections"]
    assert list(sections) == ["training", "cifar10"]
    for loss in ("InfoNCE", "Bayesian"):
        step = sections["training"][loss]["parts_of_a_step"]
        assert list(step["shares"]) == ["data", "augmentation", "network", "loss"]
        assert sum(step["shares"].values()) == pytest.approx(1.0)
        probes = sections["cifar10"]["losses"][loss]["probes"]
        assert {"few_label_1", "knn", "linear"} <= probes.keys()
    table = written.with_suffix(".md").read_text()
    assert "| Bayesian |" in table
    assert "failed" not in table


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
