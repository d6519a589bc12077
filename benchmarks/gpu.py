"""All checks and benchmarks that need a GPU, within a budget of seconds.

    make bench-gpu
    python benchmarks/gpu.py
    TRITON_INTERPRET=1 python benchmarks/gpu.py --quick --device cpu

Each section (see ``SECTIONS``) runs in a process of its own with its share of the time, so that
one that hangs or takes the device down costs the others nothing. Every value is written at once to
a dated file in ``benchmarks/results``, and after every section a page. After a break, the next call
goes on with the newest file of the same commit and device, and tries again what failed or had no
time. Without a CUDA device the exit code is 2. ``--quick --device cpu`` is a rehearsal: it runs
training and, in Triton's interpreter, the kernels, at sizes too small to measure anything.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
import threading
import time
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import torch  # noqa: E402
from gpu_journal import (  # noqa: E402
    BEGUN,
    DEVICE_LOST,
    NO_TIME,
    Journal,
    Run,
    failure,
    is_measured,
    origin,
    write_page,
)

WHOLE = "the section"
"""The item that stands for a section's own failure."""
SMALLEST = 5.0
"""Seconds below which no section begins."""
SPARE = 15.0
"""Seconds that a section may take to end after its time is up."""


class Section(NamedTuple):
    """A function that takes a :class:`Run`, and its share of the time that is left then."""

    function: str
    share: float
    on_cpu: bool = os.environ.get("TRITON_INTERPRET") == "1"


SECTIONS = {
    "accuracy": Section("gpu_engines.check_against_float64", 0.2),
    "tests": Section("gpu_engines.run_gpu_tests", 0.2, on_cpu=False),
    "speed": Section("gpu_engines.measure_speed", 0.4),
    "training": Section("image_epoch.measure_training", 1.0, on_cpu=True),
}
"""What runs, in this order."""


def main() -> int:
    """Run the sections; 0 if all went well, 1 if something failed, 2 without a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1440, help="budget for all sections")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="a rehearsal at small sizes")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--anew", action="store_true", help="measure again what is done")
    options = parser.parse_args()
    on_cpu = options.device == "cpu"
    if not (on_cpu and options.quick) and (on_cpu or not torch.cuda.is_available()):
        print("benchmarks/gpu.py measures a CUDA device, and there is none to measure.")
        return 2
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # as on Ctrl-C
    begun = time.monotonic()
    where = origin(options.device, quick=options.quick)
    journal = Journal.begin(options.out, where, anew=options.anew)
    for name in options.sections:
        section, left = SECTIONS[name], options.seconds - (time.monotonic() - begun)
        if on_cpu and not section.on_cpu:
            continue
        if left < SMALLEST:
            journal.record(name, WHOLE, NO_TIME)
        else:
            run_apart(name, journal, section.share * left)
        path = write_page(journal, time.monotonic() - begun)
        print(f"{name}: {time.monotonic() - begun:.0f} s, written to {path.name}", flush=True)
    values = [value for items in journal.sections.values() for value in items.values()]
    return int(any("error" in value for value in values if not is_measured(value)))


def run_apart(name: str, journal: Journal, seconds: float) -> None:
    """Run one section in a process of its own, again without the item that a process died of."""
    until = time.monotonic() + seconds
    while True:
        before, left = len(journal.sections.get(name, {})), max(SMALLEST, until - time.monotonic())
        code = run_process((name, SECTIONS[name].function, journal.path, left), left + SPARE)
        journal.read()
        items = journal.sections.get(name, {})
        item = next((item for item in items if items[item] == BEGUN), WHOLE)
        if code is None:
            journal.record(name, item, NO_TIME)
        elif code not in (0, DEVICE_LOST):
            journal.record(name, item, {"error": f"its process ended with exit code {code}"})
        if code in (0, None) or len(items) == before or time.monotonic() > until:
            return


def run_process(section: tuple[str, str, Path, float], seconds: float) -> int | None:
    """Exit code of a section's process, or None if it had to be ended."""
    process = multiprocessing.get_context("spawn").Process(target=run_here, args=section)
    process.start()
    try:
        process.join(seconds)
        return process.exitcode
    finally:  # whatever happens here, it does not go on there
        process.kill()
        process.join()


def run_here(name: str, function: str, journal_file: Path, seconds: float) -> None:
    """Run one section in this process, which ends with the calling one."""
    threading.Thread(target=end_with_caller, daemon=True).start()
    journal = Journal(journal_file)
    module, _, function = function.rpartition(".")
    try:
        getattr(import_module(module), function)(Run(journal, name, seconds))
    except Exception as error:
        journal.record(name, WHOLE, failure(error))


def end_with_caller() -> None:
    """Wait for the end of the calling process, then end this one."""
    caller = multiprocessing.parent_process()
    assert caller is not None
    caller.join()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
