"""The benchmark of GPUs keeps what it has measured, whatever happens to it; its sections run."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gpu
import gpu_journal
import harness
import image_epoch
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of fork
ORIGIN = {"commit": "c", "quick": True, "device": "cpu"}
FORK = multiprocessing.get_context("fork")


def begin(folder: Path, **changes):
    return gpu_journal.Journal.begin(folder, ORIGIN | changes)


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
    page = gpu_journal.write_page(run.journal, 12.0).read_text()
    assert "| kept | 1.5       |" in page
    assert "- speed, wrong: failed, ValueError: no such kernel" in page
    again = begin(tmp_path)
    known = {"kept": {"median_ms": 1.5}, "too large": {"left_out": "out of memory"}}
    assert again.sections == {"speed": known}
    assert run_of(again).measure("kept", raising(AssertionError())) == {"median_ms": 1.5}
    assert run_of(again).measure("wrong", lambda: 1) == 1
    for change in ({"commit": "d"}, {"quick": False}):
        assert begin(tmp_path, **change).sections == {}


def dying(run):
    """A section that kills its process, then loses its device, then ends well."""

    def lose():
        run.journal.record("speed", "lost", {"error": "illegal address"})
        os._exit(3)

    kill = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
    for item, function in (("first", dict), ("killed", kill), ("lost", lose), ("last", dict)):
        run.measure(item, function)


def hanging(run):
    """A section that never ends."""
    run.measure("endless", lambda: time.sleep(600))


@pytest.fixture
def section(monkeypatch):
    """Puts a function of this file in the place of a section, in processes that begin at once."""
    monkeypatch.setattr(gpu.multiprocessing, "get_context", lambda _: FORK)

    def put(function, share=1.0):
        there = gpu.Section(f"{__name__}.{function.__name__}", share, on_cpu=True)
        monkeypatch.setitem(gpu.SECTIONS, "speed", there)

    return put


def test_an_item_that_takes_its_process_down_costs_no_other(tmp_path, section):
    section(dying)
    journal = begin(tmp_path)
    gpu.run_apart("speed", journal, 600.0)
    items = journal.sections["speed"]
    assert (items["first"], items["last"]) == ({}, {})
    assert "exit code -9" in items["killed"]["error"]
    assert items["lost"] == {"error": "illegal address"}


@pytest.mark.parametrize("broken", [False, True])
def test_time_that_is_up_or_a_break_ends_the_section(tmp_path, monkeypatch, section, broken):
    section(hanging, share=0.001)
    words = ["--quick", "--device", "cpu", "--sections", "speed", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", ["gpu.py", *words])
    monkeypatch.setattr(gpu, "SPARE", 600.0 if broken else 1.0)
    monkeypatch.setattr(gpu, "SMALLEST", 0.0)
    earlier = signal.getsignal(signal.SIGTERM)
    try:
        if broken:
            threading.Timer(1, os.kill, (os.getpid(), signal.SIGTERM)).start()
            with pytest.raises(SystemExit) as ended:
                gpu.main()
            assert ended.value.code == 128 + signal.SIGTERM
        else:
            gpu.main()
            (written,) = tmp_path.glob("*-gpu.json")
            (value,) = json.loads(written.read_text())["sections"]["speed"].values()
            assert value == gpu_journal.NO_TIME
    finally:
        signal.signal(signal.SIGTERM, earlier)
    assert multiprocessing.active_children() == []


def test_the_training_section_goes_through_on_a_cpu(tmp_path):
    run = run_of(begin(tmp_path), "training")
    image_epoch.measure_training(run)
    assert list(run.items) == [f"small, {loss}" for loss in image_epoch.LOSSES]
    assert all(value["median_ms"] > 0 for value in run.items.values())


REHEARSAL = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[1:3]
import gpu_engines, gpu_journal
journal = gpu_journal.Journal.begin(Path(sys.argv[3]), {"quick": True, "device": "cpu"})
gpu_engines.check_against_float64(gpu_journal.Run(journal, "accuracy", 600))
gpu_engines.measure_speed(gpu_journal.Run(journal, "speed", 600))
"""


def test_the_sections_with_kernels_are_rehearsed_in_the_interpreter(tmp_path):
    pytest.importorskip("triton")
    places = [gpu.ROOT / "src", gpu.ROOT / "benchmarks", tmp_path]
    command = [sys.executable, "-c", REHEARSAL, *map(str, places)]
    subprocess.run(command, env=os.environ | {"TRITON_INTERPRET": "1"}, check=True, timeout=600)
    (written,) = tmp_path.glob("*-gpu.json")
    accuracy, speed = json.loads(written.read_text())["sections"].values()
    assert all(row["loss_error"] < 1e-4 for row in accuracy.values())
    assert all(row["gradient_error"] < 2e-3 for row in accuracy.values())
    assert {row.get("arithmetic") for row in speed.values()} == {None, "float16", "float32 ieee"}


def test_without_a_gpu_nothing_is_measured(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--device", "cpu"])
    assert gpu.main() == 2
    assert "there is none to measure" in capsys.readouterr().out


def test_seconds_per_epoch_are_measured_side_by_side(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    words = ["--encoder", "small", "--batch-size", "16", "--rounds", "2"]
    monkeypatch.setattr(sys, "argv", ["image_epoch.py", *words])
    image_epoch.main()
    (written,) = tmp_path.glob("*-image-epoch.json")
    result = json.loads(written.read_text())
    seconds = [result["losses"][name]["seconds_per_step"] for name in image_epoch.LOSSES]
    assert min(seconds) > 0
    assert result["losses"]["InfoNCE"]["seconds_per_epoch"] == seconds[0] * (50_000 // 16)
    assert result["bayesian_over_info_nce"] > 0
    assert "Bayesian" in capsys.readouterr().out
