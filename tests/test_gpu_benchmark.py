"""The benchmark of GPUs keeps what it has measured, whatever happens to it."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
ORIGIN = {"commit": "c", "quick": True}


@pytest.fixture
def modules(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu
    import gpu_journal

    return gpu, gpu_journal


def begin(modules, folder: Path, **changes):
    return modules[1].Journal.begin(folder, "smoke", ORIGIN | changes, anew=False)


def run_of(modules, journal, seconds: float = 60.0):
    return modules[1].Run(journal, "speed", seconds, quick=True, device="cpu")


def raising(error: Exception):
    def function():
        raise error

    return function


def test_the_next_call_keeps_values_and_tries_the_rest_again(modules, tmp_path):
    run = run_of(modules, begin(modules, tmp_path))
    assert run.measure("kept", lambda: {"median_ms": 1.5}) == {"median_ms": 1.5}
    assert run.measure("too large", raising(torch.OutOfMemoryError())) is None
    assert run.measure("wrong", raising(ValueError("no such kernel"))) is None
    assert run.measure("long", lambda: 1, needs=1e6) is None
    assert "ValueError: no such kernel" in run.items["wrong"]["error"]
    assert run.measure("wrong", lambda: 1) is None  # not twice in one call
    assert run.attempt("wrong", lambda: 1) is None
    assert run.attempt("right", lambda: 1) == 1
    assert "right" not in run.items
    run.journal.record("speed", "no data", {"left_out": "no folder was given"})
    again = begin(modules, tmp_path)
    known = {"kept": {"median_ms": 1.5}, "too large": {"left_out": "out of memory"}}
    assert again.sections == {"speed": known}
    assert run_of(modules, again).measure("kept", raising(AssertionError())) == {"median_ms": 1.5}
    assert run_of(modules, again).measure("wrong", lambda: 1) == 1


@pytest.mark.parametrize("change", [{"commit": "d"}, {"quick": False}])
def test_values_of_other_code_or_sizes_are_not_kept(modules, tmp_path, change):
    run_of(modules, begin(modules, tmp_path)).measure("item", lambda: 1)
    assert begin(modules, tmp_path, **change).sections == {}


def test_a_line_cut_off_by_a_break_costs_one_value(modules, tmp_path):
    run = run_of(modules, begin(modules, tmp_path))
    run.measure("first", lambda: 1)
    run.measure("second", lambda: 2)
    path = run.journal.path
    path.write_text(path.read_text()[:-8])
    again = run_of(modules, begin(modules, tmp_path))
    assert again.items == {"first": 1}
    again.measure("second", lambda: 2)
    assert begin(modules, tmp_path).sections == {"speed": {"first": 1, "second": 2}}


def test_a_section_is_done_unless_something_is_missing(modules, tmp_path):
    journal = begin(modules, tmp_path)
    run_of(modules, journal).measure("item", raising(ValueError()))
    journal.record("kernels", "item", 1)
    for section in ("speed", "kernels"):
        journal.finish(section)
    assert begin(modules, tmp_path).done == {"kernels"}


DEATHS = {
    "killed": "os.kill(os.getpid(), 9)",
    "device lost": "value('second', {'error': 'illegal address'}); os._exit(3)",
    "hanging": "time.sleep(60)",
}
SECTION = """
import json, os, sys, time
path = sys.argv[sys.argv.index("--journal") + 1]
known = open(path).read()
def write(line):
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\\n")
def value(item, value):
    write({"section": "speed", "item": item, "value": value})
for item in ("first", "second", "third"):
    if f'"{item}", "value"' not in known:
        write({"section": "speed", "item": item})
        if item == "second":
            DEATH
        value(item, 1)
write({"done": "speed"})
"""
"""What a section's process writes, without what it measures."""


@pytest.mark.parametrize("death", list(DEATHS))
def test_an_item_that_takes_its_process_down_costs_no_other(modules, tmp_path, monkeypatch, death):
    gpu = modules[0]
    program = tmp_path / "section.py"
    program.write_text(SECTION.replace("DEATH", DEATHS[death]))
    monkeypatch.setattr(gpu, "__file__", str(program))
    monkeypatch.setattr(gpu, "SMALLEST", 0.2)
    monkeypatch.setattr(gpu, "SPARE", 1.5)
    journal = begin(modules, tmp_path)
    arguments = argparse.Namespace(device="cpu", quick=True, data=None)
    gpu.run_apart("speed", journal, arguments, 0.2 if death == "hanging" else 60.0)
    items = journal.sections["speed"]
    assert items["first"] == 1
    if death == "hanging":
        assert items["second"] == {"left_out": "no time"}
        assert "third" not in items
    else:
        assert {"killed": "exit code -9", "device lost": "illegal address"}[death] in str(
            items["second"]["error"]
        )
        assert items["third"] == 1
        assert "speed" in journal.done


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_a_break_ends_the_section_too_and_keeps_its_values(modules, tmp_path, number):
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--quick", "--device", "cpu"]
    command += ["--out", str(tmp_path), "--name", "smoke", "--sections", "cifar10"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until = time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        time.sleep(0.05)
        files = list(tmp_path.glob("*.jsonl"))
        if files and '"plan"' in files[0].read_text():
            break
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == (128 + number if number == signal.SIGTERM else -number)
    (written,) = tmp_path.glob("*.jsonl")
    time.sleep(0.5)
    size = written.stat().st_size
    time.sleep(0.5)
    assert written.stat().st_size == size  # nobody goes on writing
    assert not running(str(written))


def running(word: str) -> list[str]:
    """Processes with a word in their command."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if word in command and state != "Z" and folder.name != str(os.getpid()):
            found.append(command)
    return found


def test_the_report_names_what_failed_and_the_fastest_engine(modules, tmp_path, monkeypatch):
    import gpu_report

    journal = begin(modules, tmp_path, processor="a device")
    times = {"dense": 4.0, "chunked": 3.0, "fused": 1.0}
    for engine, milliseconds in times.items():
        about = {"arithmetic": "bfloat16"} if engine == "fused" else {}
        row = {"method": engine, "engine": engine, "objective": "Bayesian", "batch": 64, **about}
        journal.record("speed", engine, {**row, "median_ms": milliseconds, "extra_mib": 0.0})
        other = {**row, "batch": 32, "median_ms": 5.0 - milliseconds, "extra_mib": 0.0}
        journal.record("speed", f"{engine} on less", other)
    journal.record("kernels", "bfloat16, range", {"error": "OutOfResources: shared memory"})
    path = gpu_report.write(journal, 12.0, "a command")
    table = path.with_suffix(".md").read_text()
    assert "| Bayesian | bfloat16 | dense (2.0) | fused (3.0) |" in table
    assert "Bayesian, bfloat16: `auto` would choose fused from B = 64 on" in table
    assert "- kernels, bfloat16, range: failed, OutOfResources: shared memory" in table
    assert json.loads(path.read_text())["sections"] == journal.sections


def test_epochs_and_losses_fit_into_the_time(modules):
    from gpu_training import affordable

    for left in (60, 300, 1000):
        number, epochs = affordable(left, seconds=4.0, overhead=15.0)
        assert epochs >= 5
        assert number * (15 + 4 * epochs) <= left
    assert affordable(1000, 4.0, 15.0)[0] == 6
    assert affordable(1, 4.0, 15.0) == (1, 1)
