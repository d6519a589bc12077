"""The benchmark of GPUs keeps what it has measured, whatever happens to it; its sections run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import gpu
import gpu_journal
import harness
import image_epoch
import pytest
import torch

PROGRAM = Path(gpu.__file__)
ORIGIN = {"commit": "c", "quick": True, "device": "cpu"}


def begin(folder: Path, **changes):
    return gpu_journal.Journal.begin(folder, ORIGIN | changes, anew=False)


def run_of(journal, section: str = "speed"):
    return gpu_journal.Run(journal, section, seconds=60.0)


def raising(error: Exception):
    def function():
        raise error

    return function


def test_the_next_call_keeps_values_and_tries_the_rest_again(tmp_path):
    run = run_of(begin(tmp_path))
    assert run.measure("kept", lambda: {"median_ms": 1.5}) == {"median_ms": 1.5}
    assert run.measure("too large", raising(torch.OutOfMemoryError())) is None
    assert run.measure("wrong", raising(ValueError("no such kernel"))) is None
    assert run.measure("long", lambda: 1, needs=1e6) is None
    assert "ValueError: no such kernel" in run.items["wrong"]["error"]
    assert run.measure("wrong", lambda: 1) is None  # not twice in one call
    run.journal.record("kernels", "item", {"median_ms": 1})
    for section in ("speed", "kernels"):
        run.journal.finish(section)
    page = gpu_journal.write_page(run.journal, 12.0, "a command").read_text()
    assert "| kept | 1.5       |" in page
    assert "- speed, wrong: failed, ValueError: no such kernel" in page
    again = begin(tmp_path)
    known = {"kept": {"median_ms": 1.5}, "too large": {"left_out": "out of memory"}}
    assert again.sections == {"speed": known, "kernels": {"item": {"median_ms": 1}}}
    assert again.done == ["kernels"]  # nothing is missing there
    assert run_of(again).measure("kept", raising(AssertionError())) == {"median_ms": 1.5}
    assert run_of(again).measure("wrong", lambda: 1) == 1
    for change in ({"commit": "d"}, {"quick": False}):
        assert begin(tmp_path, **change).sections == {}


SECTION = """
import os, time
def dying(run):
    def lose():
        run.journal.record("speed", "lost", {"error": "illegal address"})
        os._exit(3)
    kill = lambda: os.kill(os.getpid(), 9)
    for item, function in (("first", dict), ("killed", kill), ("lost", lose), ("last", dict)):
        run.measure(item, function)
def hanging(run):
    time.sleep(60)
"""
"""Sections, without what they measure."""


@pytest.mark.parametrize("section", ["dying", "hanging"])
def test_an_item_that_takes_its_process_down_costs_no_other(tmp_path, monkeypatch, section):
    (tmp_path / "sections.py").write_text(SECTION)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(gpu.SECTIONS, "speed", gpu.Section(f"sections.{section}", 1.0))
    if section == "hanging":
        monkeypatch.setattr(gpu, "SMALLEST", 0.2)
        monkeypatch.setattr(gpu, "SPARE", 2.0)
    journal = begin(tmp_path)
    gpu.run_apart("speed", journal, 0.2 if section == "hanging" else 600.0)
    items = journal.sections["speed"]
    if section == "hanging":
        assert (items, journal.done) == ({gpu.WHOLE: gpu_journal.NO_TIME}, [])
    else:
        assert (items["first"], items["last"], journal.done) == ({}, {}, ["speed"])
        assert "exit code -9" in items["killed"]["error"]
        assert items["lost"] == {"error": "illegal address"}


def gpu_benchmark(folder: Path, *options: str, **environment: str) -> subprocess.Popen:
    command = [sys.executable, str(PROGRAM), "--quick", "--device", "cpu", "--out", str(folder)]
    environment = {**os.environ, "OF_THIS_TEST": str(folder), **environment}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen([*command, *options], env=environment, **pipes)


def still_running(folder: Path) -> bool:
    """Whether a process of a benchmark that writes to a folder is left."""
    for place in Path("/proc").glob("[0-9]*"):
        try:
            state = (place / "stat").read_text().rpartition(")")[2].split()[0]
            if str(folder) in (place / "environ").read_text(errors="replace") and state != "Z":
                return True
        except OSError:
            continue
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_a_break_ends_the_section_too_and_keeps_its_values(tmp_path, number):
    process = gpu_benchmark(tmp_path, "--sections", "training")
    until, sections = time.monotonic() + 240, {}
    while time.monotonic() < until and process.poll() is None and not sections:
        time.sleep(0.05)
        for path in tmp_path.glob("*-gpu.json"):
            sections = json.loads(path.read_text())["sections"]
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == (128 + number if number == signal.SIGTERM else -number)
    until = time.monotonic() + 20
    while time.monotonic() < until and still_running(tmp_path):
        time.sleep(0.1)
    assert not still_running(tmp_path)
    (written,) = tmp_path.glob("*-gpu.json")
    assert json.loads(written.read_text())["sections"].keys() == {"training"}


def test_the_training_section_goes_through_on_a_cpu(tmp_path):
    run = run_of(begin(tmp_path), "training")
    image_epoch.measure_training(run)
    assert list(run.items) == [f"small, {loss}" for loss in image_epoch.LOSSES]
    assert all(value["median_ms"] > 0 for value in run.items.values())


def test_the_sections_with_kernels_are_rehearsed_in_the_interpreter(tmp_path):
    pytest.importorskip("triton")
    with gpu_benchmark(
        tmp_path, "--sections", "accuracy", "speed", TRITON_INTERPRET="1"
    ) as process:
        try:
            said, _ = process.communicate(timeout=600)
        finally:
            process.kill()  # its section ends with it
    assert process.returncode == 0, said
    (written,) = tmp_path.glob("*-gpu.json")
    accuracy, speed = json.loads(written.read_text())["sections"].values()
    assert all(row["loss_error"] < 1e-4 for row in accuracy.values())
    assert all(row["gradient_error"] < 2e-3 for row in accuracy.values())
    assert {row.get("arithmetic") for row in speed.values()} == {None, "float16", "float32 ieee"}
    assert {row["batch"] for row in speed.values()} == {12, 24}


def test_without_a_gpu_nothing_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu"])
    assert gpu.main() == 2
    assert "there is none to measure" in capsys.readouterr().out


def test_seconds_per_epoch_are_measured_side_by_side(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    image_epoch.main(["--encoder", "small", "--batch-size", "16", "--rounds", "2"])
    (written,) = tmp_path.glob("*-image-epoch.json")
    result = json.loads(written.read_text())
    seconds = [result["losses"][name]["seconds_per_step"] for name in image_epoch.LOSSES]
    assert min(seconds) > 0
    assert result["losses"]["InfoNCE"]["seconds_per_epoch"] == seconds[0] * (50_000 // 16)
    assert result["bayesian_over_info_nce"] > 0
    assert "Bayesian" in capsys.readouterr().out
