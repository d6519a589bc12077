"""All checks and benchmarks that need a GPU, within a budget of seconds.

    make bench-gpu
    python benchmarks/gpu.py --data FOLDER
    TRITON_INTERPRET=1 python benchmarks/gpu.py --quick --device cpu

It checks the fused engine against float64 on the device, runs the tests marked ``gpu``, measures
each kernel and the time and memory of all engines over batch sizes, and trains: ResNet-50 and
ResNet-18 for seconds per epoch, and ResNet-18 with six losses on a folder of images.

Each section runs in a process of its own with its share of the time, so that one that hangs or
takes the device down costs the others nothing. Every measured value is written at once to a dated
``.jsonl`` file in ``benchmarks/results``, and after every section a ``.json`` file and a Markdown
report. After a break, the next call goes on with the newest file of the same commit, device and
size, and tries again what failed or had no time; ``--anew`` starts over. Without a CUDA device the
exit code is 2. ``--quick --device cpu`` is a rehearsal: it runs training and, in Triton's
interpreter, the kernels, at sizes too small to measure anything. Nothing needs the internet.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import torch  # noqa: E402
from gpu_journal import NO_TIME, DeviceLostError, Journal, Run, failure  # noqa: E402
from gpu_report import implied_rule, origin, write  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
WHOLE = "the section"
"""The item that stands for a section's own failure."""
DEVICE_LOST = 3
"""The exit code of a section's process after which the device needs a new one."""
SMALLEST = 5.0
"""Seconds below which no section begins."""
SPARE = 15.0
"""Seconds that a section may take to end after its time is up."""


@dataclass(frozen=True)
class Section:
    """A part of the benchmark.

    Attributes:
        function: ``module.function``, which takes a :class:`Run` and records its items.
        share: of the time that is left when it begins.
        on_cpu: where a CPU can rehearse it: "always", "interpreting" Triton, or "never".
    """

    function: str
    share: float
    on_cpu: str = "interpreting"

    def runs_on_cpu(self) -> bool:
        """Whether a rehearsal can include it."""
        interpreting = os.environ.get("TRITON_INTERPRET") == "1"
        return self.on_cpu == "always" or (self.on_cpu == "interpreting" and interpreting)

    def load(self) -> Callable[[Run], None]:
        """The function."""
        module, name = self.function.split(".")
        found: Callable[[Run], None] = getattr(import_module(module), name)
        return found


SECTIONS = {
    "accuracy": Section("gpu_kernels.check_against_float64", 0.2),
    "tests": Section("gpu_kernels.run_gpu_tests", 0.15, "never"),
    "tiles": Section("gpu_kernels.measure_tiles", 0.2),
    "kernels": Section("gpu_kernels.measure_kernels", 0.15),
    "speed": Section("gpu_kernels.measure_speed", 0.35),
    "training": Section("gpu_training.measure_training", 0.4, "always"),
    "cifar10": Section("gpu_training.train_cifar10", 1.0, "always"),
}
"""What runs, in this order."""


def main() -> int:
    """Run the sections; 0 if all went well, 1 if something failed, 2 without a GPU."""
    arguments = parse()
    if arguments.section:
        return run_here(arguments)
    on_cpu = arguments.device == "cpu"
    if not (on_cpu and arguments.quick) and (on_cpu or not torch.cuda.is_available()):
        print("benchmarks/gpu.py measures a CUDA device, and there is none to measure.")
        return 2
    signal.signal(signal.SIGTERM, stop)
    begun = time.monotonic()
    command = shlex.join(["python", "benchmarks/gpu.py", *sys.argv[1:]])
    where = origin(arguments.device, quick=arguments.quick)
    journal = Journal.begin(arguments.out, arguments.name, where, anew=arguments.anew)
    for name in arguments.sections:
        section, left = SECTIONS[name], arguments.seconds - (time.monotonic() - begun)
        if on_cpu and not section.runs_on_cpu():
            continue
        if name in journal.done:
            print(f"{name}: done before", flush=True)
            continue
        if left < SMALLEST:
            journal.record(name, WHOLE, NO_TIME)
        else:
            run_apart(name, journal, arguments, section.share * left)
        seconds = time.monotonic() - begun
        path = write(journal, seconds, command)
        print(f"{name}: {seconds:.0f} s, written to {path.name}", flush=True)
        if name == "speed":
            print(*implied_rule(journal.sections.get(name, {})), sep="\n", flush=True)
    write(journal, time.monotonic() - begun, command)
    values = [value for items in journal.sections.values() for value in items.values()]
    return int(any(isinstance(value, dict) and "error" in value for value in values))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1440, help="budget for all sections")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="a rehearsal at small sizes")
    parser.add_argument(
        "--sections", nargs="+", choices=list(SECTIONS), default=list(SECTIONS), help="default: all"
    )
    parser.add_argument(
        "--data",
        help="folder of images, or its archive, for the section cifar10; default: "
        "cifar10-jpeg.tar.gz in $BAYESCL_DATA or in shared/data",
    )
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the result files")
    parser.add_argument("--name", default="gpu", help="of the result files, behind the date")
    parser.add_argument("--anew", action="store_true", help="measure again what is done")
    # How the benchmark calls itself: one section, on the journal of its caller.
    parser.add_argument("--section", choices=list(SECTIONS), help=argparse.SUPPRESS)
    parser.add_argument("--journal", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def run_here(arguments: argparse.Namespace) -> int:
    """Run one section in this process; ``DEVICE_LOST`` if no more can be done in it."""
    threading.Thread(target=end_with_caller, daemon=True).start()
    journal = Journal(arguments.journal)
    run = Run(
        journal,
        arguments.section,
        arguments.seconds,
        arguments.quick,
        arguments.device,
        arguments.data,
    )
    try:
        SECTIONS[arguments.section].load()(run)
    except DeviceLostError:
        return DEVICE_LOST
    except Exception as error:
        journal.record(arguments.section, WHOLE, failure(error))
    else:
        journal.finish(arguments.section)
    return 0


def end_with_caller() -> NoReturn:
    """Wait for the end of the calling process, then end this one and all that it started."""
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)
    raise AssertionError


def run_apart(name: str, journal: Journal, arguments: argparse.Namespace, seconds: float) -> None:
    """Run one section in a process of its own, again without the item that a process died of."""
    until = time.monotonic() + seconds
    while True:
        left = max(SMALLEST, until - time.monotonic())
        with started(name, journal, arguments, left) as (process, output):
            try:
                code = process.wait(left + SPARE)
            except subprocess.TimeoutExpired:
                code = None
            journal.read()
            item = journal.running[1] if journal.running else WHOLE
            if code is None:
                journal.record(name, item, NO_TIME)
            elif code not in (0, DEVICE_LOST):
                end = f"its process ended with exit code {code}: {output()}"
                journal.record(name, item, {"error": end})
        if code in (0, None) or (item == WHOLE and code != DEVICE_LOST) or time.monotonic() > until:
            return


@contextlib.contextmanager
def started(
    name: str, journal: Journal, arguments: argparse.Namespace, seconds: float
) -> Iterator[tuple[subprocess.Popen[bytes], Callable[[], str]]]:
    """A section's process, which does not outlive the block, and the end of what it has printed."""
    command = [sys.executable, str(Path(__file__).resolve()), "--section", name]
    command += ["--journal", str(journal.path), "--seconds", str(seconds)]
    command += ["--device", arguments.device]
    command += ["--quick"] * arguments.quick
    command += ["--data", arguments.data] if arguments.data else []
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )

        def output() -> str:
            log.seek(0)
            return log.read().decode(errors="replace")[-1500:]

        try:
            yield process, output
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def stop(number: int, _: FrameType | None) -> NoReturn:
    """End as on Ctrl-C, so that the section's process is ended too."""
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
