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
    return modules[1].Journal.begin(folder, ORIGIN | changes, anew=False)


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
    run.journal.record("kernels", "item", {"median_ms": 1})
    for section in ("speed", "kernels"):
        run.journal.finish(section)
    again = begin(modules, tmp_path)
    known = {"kept": {"median_ms": 1.5}, "too large": {"left_out": "out of memory"}}
    assert again.sections == {"speed": known, "kernels": {"item": {"median_ms": 1}}}
    assert again.done == ["kernels"]  # nothing is missing there
    assert run_of(modules, again).measure("kept", raising(AssertionError())) == {"median_ms": 1.5}
    assert run_of(modules, again).measure("wrong", lambda: 1) == 1
    for change in ({"commit": "d"}, {"quick": False}):
        assert begin(modules, tmp_path, **change).sections == {}


DEATHS = {
    "killed": ("os.kill(os.getpid(), 9)", "exit code -9"),
    "device lost": ("lose()", "illegal address"),
    "hanging": ("time.sleep(60)", "no time"),
}
SECTION = """
import os, sys, time
sys.path.insert(0, BENCHMARKS)
from pathlib import Path
from gpu_journal import Journal, Run
path = Path(sys.argv[sys.argv.index("--journal") + 1])
run = Run(Journal(path), "speed", 60.0, quick=True, device="cpu")
def lose():
    run.journal.record("speed", "second", {"error": "illegal address"})
    os._exit(3)
def second():
    DEATH
for item, function in (("first", dict), ("second", second), ("third", dict)):
    run.measure(item, function)
run.journal.finish("speed")
"""
"""What a section's process does, without what it measures."""


@pytest.mark.parametrize("death", DEATHS)
def test_an_item_that_takes_its_process_down_costs_no_other(modules, tmp_path, monkeypatch, death):
    gpu, (dies, words) = modules[0], DEATHS[death]
    program = tmp_path / "section.py"
    program.write_text(SECTION.replace("BENCHMARKS", repr(str(BENCHMARKS))).replace("DEATH", dies))
    monkeypatch.setattr(gpu, "__file__", str(program))
    if death == "hanging":
        monkeypatch.setattr(gpu, "SMALLEST", 0.2)
        monkeypatch.setattr(gpu, "SPARE", 20.0)
    journal = begin(modules, tmp_path)
    arguments = argparse.Namespace(device="cpu", quick=True)
    gpu.run_apart("speed", journal, arguments, 0.2 if death == "hanging" else 120.0)
    items = journal.sections["speed"]
    assert items["first"] == {}
    assert words in str(items["second"])
    assert ("third" in items) == (journal.done == ["speed"]) == (death != "hanging")


@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, marks=pytest.mark.slow), signal.SIGKILL]
)
def test_a_break_ends_the_section_too_and_keeps_its_values(tmp_path, number):
    command = [sys.executable, str(BENCHMARKS / "gpu.py"), "--quick", "--device", "cpu"]
    command += ["--out", str(tmp_path), "--sections", "training"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    until, sections = time.monotonic() + 240, {}
    while time.monotonic() < until and process.poll() is None and not sections:
        time.sleep(0.05)
        for path in tmp_path.glob("*-gpu.json"):
            sections = json.loads(path.read_text())["sections"]
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == (128 + number if number == signal.SIGTERM else -number)
    (written,) = tmp_path.glob("*-gpu.json")
    time.sleep(0.5)
    kept = written.read_text()
    time.sleep(0.5)
    assert written.read_text() == kept  # nobody goes on writing
    assert json.loads(kept)["sections"].keys() == {"training"}
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


def test_the_report_names_what_failed_and_the_rule_for_auto(modules, tmp_path):
    journal = begin(modules, tmp_path, processor="a device")
    times = {"dense": 4.0, "chunked": 3.0, "fused": 1.0}
    for engine, milliseconds in times.items():
        about = {"arithmetic": "bfloat16"} if engine == "fused" else {}
        row = {"method": engine, "engine": engine, "objective": "Bayesian", "batch": 64, **about}
        journal.record("speed", engine, {**row, "median_ms": milliseconds, "extra_mib": 0.0})
        other = {**row, "batch": 32, "median_ms": 5.0 - milliseconds, "extra_mib": 0.0}
        journal.record("speed", f"{engine} on less", other)
    journal.record("kernels", "bfloat16, range", {"error": "OutOfResources: shared memory"})
    table = modules[1].write(journal, 12.0, "a command").read_text()
    assert "| fused   | 4.0 | 1.0 |" in table
    assert "Bayesian, bfloat16: `auto` would choose fused from B = 64 on" in table
    assert "0.2 (B = 32), 3.0 (B = 64)" in table
    assert "- kernels, bfloat16, range: failed, OutOfResources: shared memory" in table
