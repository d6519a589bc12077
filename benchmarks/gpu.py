"""All checks and benchmarks that need a GPU, within a budget of seconds.

    make bench-gpu
    python benchmarks/gpu.py --seconds 1500 --data FOLDER
    TRITON_INTERPRET=1 python benchmarks/gpu.py --quick --device cpu

It checks the engines against float64 on the device, runs the tests marked ``gpu``, and measures
time and memory of one forward and backward pass over batch sizes, of each fused kernel, and of
training ResNet-50 (``gpu_training.py``). With a folder of images it also trains ResNet-18 on them
until the budget is used up. After every section it rewrites a dated JSON file and a Markdown table
in ``benchmarks/results``. A section that fails is recorded, and the rest still runs. After an
interruption, the next call keeps the finished sections of the newest file of the same commit and
device; ``--anew`` starts over. Without a CUDA device the exit code is 2. ``--quick --device cpu``
is a rehearsal: it runs training and, in Triton's interpreter, the kernels, at sizes too small to
measure anything.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import torch  # noqa: E402
from baselines import cross_entropy_info_nce  # noqa: E402
from gpu_report import finished, write  # noqa: E402
from gpu_training import measure_training, train_cifar10  # noqa: E402

from bayescl.engines import dense_loss  # noqa: E402
from bayescl.engines.fused import fused_loss  # noqa: E402
from bayescl.functional import Bayesian, InfoNCE, LogSumObjective, unit_vectors  # noqa: E402
from bayescl.losses.layouts import two_views  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
BATCHES = (256, 1024, 4096, 16_384, 32_768, 65_536, 131_072)
DIM = 128
INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
TEMPERATURE = 0.1
OBJECTIVES: dict[str, LogSumObjective] = {"InfoNCE": InfoNCE(), "Bayesian": Bayesian(0.9, 0.5, 0.1)}
ARITHMETIC = {
    "bfloat16": (torch.bfloat16, "ieee"),
    "float32 tf32x3": (torch.float32, "tf32x3"),
    "float32 ieee": (torch.float32, "ieee"),
}
if INTERPRETING:  # which multiplies the bits of bfloat16 as integers
    ARITHMETIC = {
        "float16": (torch.float16, "ieee"),
        "float32 ieee": (torch.float32, "ieee"),
    }
DEVICE = "cpu" if INTERPRETING else "cuda"
Step = Callable[[list[torch.Tensor]], torch.Tensor]
"""A loss of two views, as one number."""


@dataclass
class Run:
    """What the sections write into, and how much time is left."""

    seconds: float
    quick: bool
    device: str = "cuda"
    data: str | None = None
    started: float = field(default_factory=time.monotonic)
    sections: dict[str, Any] = field(default_factory=dict)

    @property
    def left(self) -> float:
        """Seconds of the budget that are left."""
        return self.seconds - (time.monotonic() - self.started)


def views(batch: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Two views of unit vectors that agree in part, as leaves."""
    generator = torch.Generator(DEVICE).manual_seed(batch)
    shared, first, second = (
        torch.randn(batch, DIM, device=DEVICE, generator=generator) for _ in range(3)
    )
    return [unit_vectors(shared + noise).to(dtype).requires_grad_() for noise in (first, second)]


def fused_step(name: str, precision: str) -> Step:
    objective = OBJECTIVES[name]
    return lambda pair: fused_loss(
        two_views(*pair), TEMPERATURE, lambda _: objective, precision=precision
    ).mean()


def dense_step(name: str) -> Step:
    objective = OBJECTIVES[name]
    return lambda pair: dense_loss(two_views(*pair), TEMPERATURE, lambda _: objective).mean()


def check_against_float64(run: Run) -> dict[str, Any]:
    """Losses and gradients of every engine against the dense engine in float64."""
    found, batch = {}, (20 if INTERPRETING else 300) if run.quick else 1500
    for name in OBJECTIVES:
        steps = {"dense float32": (torch.float32, dense_step(name))}
        for label, (dtype, precision) in ARITHMETIC.items():
            steps[f"fused {label}"] = (dtype, fused_step(name, precision))
        for label, (dtype, step) in steps.items():
            pair = views(batch, dtype)
            exact = [view.detach().double().requires_grad_() for view in pair]
            expected = dense_step(name)(exact)
            right = torch.cat(torch.autograd.grad(expected, exact))
            loss = step(pair)
            gradient = torch.cat(torch.autograd.grad(loss, pair)).double()
            found[f"{name}, {label}"] = {
                "loss_error": abs(loss.item() - expected.item()),
                "gradient_error": float((gradient - right).norm() / right.norm()),
            }
    return found


def run_gpu_tests(run: Run) -> dict[str, Any]:
    """The tests marked ``gpu``, in a process of their own."""
    limit = max(30.0, min(150.0, run.left / 2.5))
    command = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "tests/engines"]
    try:
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired as error:
        return {"timed_out_after": limit, "tail": _text(error.stdout)[-3000:]}
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    last = done.stdout.strip().splitlines()[-1:]
    result = {"exit_code": done.returncode, "summary": last, "failed": failed}
    if done.returncode:
        result["tail"] = done.stdout[-6000:] + done.stderr[-1000:]
    return result


def measure_speed(run: Run) -> list[dict[str, Any]]:
    """Time and extra memory of forward and backward, all methods side by side, small to large.

    A method stops where it runs out of memory or where, by its last time, the next batch would
    not fit into what is left of the budget.
    """
    methods: dict[str, tuple[torch.dtype, Step]] = {
        "F.cross_entropy InfoNCE": (torch.float32, lambda pair: cross_entropy(pair)),
        "dense Bayesian": (torch.float32, dense_step("Bayesian")),
    }
    for label, (dtype, precision) in ARITHMETIC.items():
        for name in OBJECTIVES:
            methods[f"fused {name}, {label}"] = (dtype, fused_step(name, precision))
    rows: list[dict[str, Any]] = []
    last: dict[str, tuple[int, float]] = {}
    until = 0.35 * run.left  # what later sections and the writing get
    quick = (12, 24) if INTERPRETING else BATCHES[:3]
    for batch in quick if run.quick else BATCHES:
        for name, (dtype, step) in list(methods.items()):
            before, seconds = last.get(name, (batch, 0.0))
            expected = seconds * (batch / before) ** 2
            if run.left - until < 4 * expected + 5:
                rows.append({"batch": batch, "method": name, "left_out": "no time"})
                continue
            try:
                measured = measure_step(step, batch, dtype)
            except torch.cuda.OutOfMemoryError:
                del methods[name]
                rows.append({"batch": batch, "method": name, "left_out": "out of memory"})
                continue
            finally:
                if DEVICE == "cuda":
                    torch.cuda.empty_cache()
            last[name] = (batch, measured["median_ms"] / 1e3)
            rows.append({"batch": batch, "method": name, **measured})
    return rows


def cross_entropy(pair: list[torch.Tensor]) -> torch.Tensor:
    return cross_entropy_info_nce(*pair, temperature=TEMPERATURE)


def measure_step(step: Step, batch: int, dtype: torch.dtype) -> dict[str, Any]:
    """Median and quartiles of a step's time in milliseconds, and its peak extra memory."""
    pair = views(batch, dtype)

    def once() -> None:
        torch.autograd.grad(step(pair), pair)

    once()  # compiles
    if DEVICE == "cpu":
        return {**time_repeats(once), "extra_mib": 0.0}
    torch.cuda.synchronize()
    held = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    once()
    torch.cuda.synchronize()
    extra = torch.cuda.max_memory_allocated() - held
    return {**time_repeats(once), "extra_mib": extra / 2**20}


def time_repeats(once: Callable[[], object], limit: float = 1.5) -> dict[str, Any]:
    """Times by CUDA events: 3 to 50 repeats, as many as fit into ``limit`` seconds."""
    times: list[float] = []
    begun = time.monotonic()
    while len(times) < 3 or (len(times) < 50 and time.monotonic() - begun < limit):
        times.append(milliseconds_on_device(once) if DEVICE == "cuda" else milliseconds(once))
        if times[0] > 1e3 * limit:
            break
    low = high = times[0]
    if len(times) > 1:
        low, _, high = statistics.quantiles(times, n=4, method="inclusive")
    return {
        "median_ms": statistics.median(times),
        "quartiles_ms": [low, high],
        "repeats": len(times),
    }


def milliseconds_on_device(once: Callable[[], object]) -> float:
    """Time of a call between two events of the device."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    once()
    end.record()
    end.synchronize()
    return start.elapsed_time(end)


def milliseconds(once: Callable[[], object]) -> float:
    """Time of a call by the clock."""
    start = time.perf_counter()
    once()
    return 1e3 * (time.perf_counter() - start)


def measure_kernels(run: Run) -> list[dict[str, Any]]:
    """Each fused kernel alone at one batch: where the time goes, and what tiles to change."""
    from bayescl.engines import _fused_launch as launch
    from bayescl.functional.histogram import inverse_widths, log2_weights

    batch = (16 if INTERPRETING else 2048) if run.quick else 16_384
    bins, rows = 256, []
    scale = torch.full((), 1.4427 / TEMPERATURE, device=DEVICE)
    for label, (dtype, precision) in ARITHMETIC.items():
        whole = two_views(*(view.detach() for view in views(batch, dtype)))
        problem = launch.Problem(whole.anchors, whole.candidates, whole.rule, precision)
        low, top = launch.similarity_ranges(problem)
        inverse = inverse_widths(low, top)
        counts = launch.histograms(problem, bins, top, inverse)

        def weigh(counts: torch.Tensor = counts, inverse: torch.Tensor = inverse) -> torch.Tensor:
            bayesian = OBJECTIVES["Bayesian"]
            return log2_weights(counts, inverse, bayesian.weights_of_cdf, "mid")

        binned = launch.Binned(bins, top, inverse, weigh())
        kernels: dict[str, Callable[[], object]] = {
            "range": lambda p=problem: launch.similarity_ranges(p),
            "histogram": lambda p=problem, t=top, i=inverse: launch.histograms(p, bins, t, i),
            "weights of bins": weigh,
        }
        for kind, table in (("", launch.Binned(0)), (", weighted", binned)):
            log_sum, _ = launch.log_sums(problem, scale, table, count=False)
            upstream = torch.ones_like(log_sum)
            shared = (problem, scale, table)
            kernels[f"log-sum-exp{kind}"] = lambda s=shared: launch.log_sums(*s, count=False)
            kernels[f"anchor gradient{kind}"] = lambda s=shared, v=log_sum: launch.anchor_gradients(
                *s, v
            )
            kernels[f"candidate gradient{kind}"] = lambda s=shared, v=log_sum, u=upstream: (
                launch.candidate_gradients(*s, v, u)
            )
        for name, kernel in kernels.items():
            kernel()
            measured = time_repeats(kernel, limit=0.3)
            rows.append({"batch": batch, "arithmetic": label, "kernel": name, **measured})
    return rows


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


SECTIONS: dict[str, Callable[[Run], Any]] = {
    "accuracy": check_against_float64,
    "kernels": measure_kernels,
    "training": measure_training,
    "speed": measure_speed,
    "tests": run_gpu_tests,
    "cifar10": train_cifar10,
}
"""What runs, in this order. A section takes the run and returns plain values for the JSON file;
to add one (a training run, say), write a documented function and name it here."""
ON_CPU = (
    ("accuracy", "kernels", "training", "speed", "cifar10")
    if INTERPRETING
    else ("training", "cifar10")
)
"""Sections that a CPU can go through, with ``--quick``."""


def main() -> int:
    """Run the sections within the budget; 0 if all of them ran, 1 if one failed, 2 without GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=440, help="budget for all sections")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--quick", action="store_true", help="small batches only")
    parser.add_argument("--sections", nargs="+", choices=list(SECTIONS), help="default: all")
    parser.add_argument("--data", help="folder of images for the section cifar10")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the result files")
    parser.add_argument("--name", default="gpu", help="of the result files, behind the date")
    parser.add_argument("--anew", action="store_true", help="measure again what is done")
    arguments = parser.parse_args()
    on_cpu = arguments.device == "cpu"
    if not (on_cpu and arguments.quick) and (on_cpu or not torch.cuda.is_available()):
        print("benchmarks/gpu.py measures a CUDA device, and there is none to measure.")
        return 2
    sections = arguments.sections or [
        name for name in SECTIONS if name != "cifar10" or arguments.data or on_cpu
    ]
    if on_cpu:
        sections = [name for name in sections if name in ON_CPU]
    command = shlex.join(["python", "benchmarks/gpu.py", *sys.argv[1:]])
    run = Run(arguments.seconds, arguments.quick, arguments.device, arguments.data)
    if not arguments.anew:
        run.sections = finished(arguments.out, arguments.name)
    failed = False
    for name in sections:
        if name in run.sections:
            print(f"{name}: done before", flush=True)
            continue
        if run.left < 10:
            run.sections[name] = {"error": "no time left"}
            continue
        try:
            run.sections[name] = SECTIONS[name](run)
        except Exception as error:
            failed = True
            if not on_cpu:
                torch.cuda.empty_cache()
            run.sections[name] = {
                "error": f"{type(error).__name__}: {error}"[:1000],
                "traceback": traceback.format_exc()[-4000:],
            }
        path = write(run.sections, run.seconds - run.left, arguments.out, command, arguments.name)
        print(f"{name}: {run.seconds - run.left:.0f} s, written to {path.name}", flush=True)
    tests = run.sections.get("tests", {})
    return int(failed or bool(tests.get("exit_code", 0)))


if __name__ == "__main__":
    sys.exit(main())
