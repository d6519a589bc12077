"""Sections of ``gpu.py`` on the engines: right, and how fast.

In Triton's interpreter they run on the CPU, at sizes that measure nothing.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from baselines import cross_entropy_info_nce
from gpu_journal import OUT_OF_MEMORY, Run

from bayescl.engines import _fused_launch as launch
from bayescl.engines._fused_tiles import Kernel, Precision, Tile
from bayescl.engines._fused_tuning import chosen_tiles
from bayescl.engines.fused import fused_loss
from bayescl.engines.select import Engine, per_anchor_losses
from bayescl.functional import Bayesian, InfoNCE, LogSumObjective, unit_vectors
from bayescl.functional.histogram import inverse_widths, log2_weights
from bayescl.losses.layouts import two_views

ROOT = Path(__file__).resolve().parent.parent
BATCHES = (4096, 8192, 16_384, 32_768, 65_536, 256, 1024, 131_072)
"""Two views make twice as many rows: first 2^13 to 2^17 of them, then the others."""
CHECKED = (1500, 4096, 32_768)
"""Batches whose losses and gradients are compared with float64."""
DIM = 128
BINS = 256
TEMPERATURE = 0.1
INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETING else "cuda"
EXACT_ENGINES: tuple[Engine, ...] = ("dense", "chunked")
OBJECTIVES: dict[str, LogSumObjective] = {"InfoNCE": InfoNCE(), "Bayesian": Bayesian(0.9, 0.5, 0.1)}
ARITHMETIC: dict[str, tuple[torch.dtype, Precision]] = {
    "bfloat16": (torch.bfloat16, "ieee"),
    "float32 tf32x3": (torch.float32, "tf32x3"),
    "float32 ieee": (torch.float32, "ieee"),
}
if INTERPRETING:  # which multiplies the bits of bfloat16 as integers
    ARITHMETIC = {
        "float16": (torch.float16, "ieee"),
        "float32 ieee": (torch.float32, "ieee"),
    }
Step = Callable[[list[torch.Tensor]], torch.Tensor]
"""A loss of two views, as one number."""


def views(batch: int, dtype: torch.dtype) -> list[torch.Tensor]:
    """Two views of unit vectors that agree in part, as leaves."""
    generator = torch.Generator(DEVICE).manual_seed(batch)
    shared, first, second = (
        torch.randn(batch, DIM, device=DEVICE, generator=generator) for _ in range(3)
    )
    return [unit_vectors(shared + noise).to(dtype).requires_grad_() for noise in (first, second)]


def fused_step(name: str, precision: Precision) -> Step:
    objective = OBJECTIVES[name]
    return lambda pair: fused_loss(
        two_views(*pair), TEMPERATURE, lambda _: objective, precision=precision
    ).mean()


def exact_step(name: str, engine: Engine) -> Step:
    """A step of the dense or the chunked engine, as a loss's mean calls it."""
    objective = OBJECTIVES[name]
    return lambda pair: per_anchor_losses(
        two_views(*pair), TEMPERATURE, lambda _: objective, engine=engine, uniform=True
    )[0].mean()


def gradients(step: Step, pair: list[torch.Tensor]) -> tuple[float, torch.Tensor]:
    """A step's value, and its gradient in float64."""
    value = step(pair)
    return value.item(), torch.cat(torch.autograd.grad(value, pair)).double()


def check_against_float64(run: Run) -> None:
    """Losses and gradients of the engines against exact ones in float64, at several sizes."""
    quick = (20,) if INTERPRETING else (300,)
    for batch in quick if run.quick else CHECKED:
        for name in OBJECTIVES:
            exact = cache(partial(exact_gradients, name, batch))
            steps = {"chunked float32": (torch.float32, exact_step(name, "chunked"))}
            for label, (dtype, precision) in ARITHMETIC.items():
                steps[f"fused {label}"] = (dtype, fused_step(name, precision))
            for label, (dtype, step) in steps.items():
                item = f"{name}, {label}, B = {batch}"
                run.measure(item, partial(errors, step, batch, dtype, exact))


def exact_gradients(name: str, batch: int, dtype: torch.dtype) -> tuple[float, torch.Tensor]:
    """Loss and gradient in float64, of embeddings rounded to ``dtype``."""
    pair = [view.detach().double().requires_grad_() for view in views(batch, dtype)]
    return gradients(exact_step(name, "dense" if batch < 4096 else "chunked"), pair)


def errors(
    step: Step,
    batch: int,
    dtype: torch.dtype,
    exact: Callable[[torch.dtype], tuple[float, torch.Tensor]],
) -> dict[str, Any]:
    """How far a step is from exact ones: absolute error of loss, relative error of gradient."""
    expected, right = exact(dtype)
    loss, gradient = gradients(step, views(batch, dtype))
    return {
        "batch": batch,
        "loss_error": abs(loss - expected),
        "gradient_error": float((gradient - right).norm() / right.norm()),
    }


def run_gpu_tests(run: Run) -> None:
    """The tests marked ``gpu``, in a process of their own."""

    def outcome() -> dict[str, Any]:
        command = ["-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider", "tests/engines"]
        if find_spec("xdist") is not None:  # most of the time goes into compilation
            command += ["-n", "4"]
        limit = max(20.0, run.left)
        try:
            done = subprocess.run(
                [sys.executable, *command],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=limit,
            )
        except subprocess.TimeoutExpired as stopped:
            so_far = (stopped.stdout or b"").decode(errors="replace")
            return {"error": f"not done after {limit:.0f} s", "tail": so_far[-3000:]}
        last = done.stdout.strip().splitlines()[-1:]
        if done.returncode == 0:
            return {"summary": last}
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        tail = done.stdout[-6000:] + done.stderr[-1000:]
        return {"error": str(last), "failed": failed, "tail": tail}

    run.measure("pytest -m gpu", outcome)


def measure_speed(run: Run) -> None:
    """Time and extra memory of forward and backward, all engines side by side.

    A method is left out where, by its time at another batch, it would not fit into what is left,
    and beyond a batch at which it ran out of memory.
    """
    float32 = torch.float32
    cross_entropy = partial(cross_entropy_of, temperature=TEMPERATURE)
    methods: dict[str, Method] = {"F.cross_entropy InfoNCE": Method(cross_entropy, float32)}
    for name in OBJECTIVES:
        for engine in EXACT_ENGINES:
            about = {"objective": name, "engine": engine}
            methods[f"{engine} {name}"] = Method(exact_step(name, engine), float32, about)
        for label, (dtype, precision) in ARITHMETIC.items():
            about = {"objective": name, "engine": "fused", "arithmetic": label}
            methods[f"fused {name}, {label}"] = Method(fused_step(name, precision), dtype, about)
    quick = (12, 24) if INTERPRETING else (1024, 256)
    known: dict[str, tuple[int, float]] = {}
    too_large: dict[str, int] = {}
    for batch in quick if run.quick else BATCHES:
        for name, method in methods.items():
            if batch > too_large.get(name, batch):
                continue
            before, seconds = known.get(name, (batch, 0.0))
            needs = 4 * seconds * (batch / before) ** 2 + 2
            item = f"{name}, B = {batch}"
            value = run.measure(item, partial(method.measured, name, batch), needs=needs)
            if value is not None:
                known[name] = (batch, value["median_ms"] / 1e3)
            elif run.items[item] == OUT_OF_MEMORY:
                too_large[name] = batch


@dataclass(frozen=True)
class Method:
    """A row of the table of times."""

    step: Step
    dtype: torch.dtype
    about: dict[str, str] = field(default_factory=dict)

    def measured(self, name: str, batch: int) -> dict[str, Any]:
        """Its cost at one batch."""
        cost = measure_step(self.step, batch, self.dtype)
        return {"method": name, "batch": batch, **self.about, **cost}


def cross_entropy_of(pair: list[torch.Tensor], *, temperature: float) -> torch.Tensor:
    return cross_entropy_info_nce(*pair, temperature=temperature)


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


def time_repeats(once: Callable[[], object], limit: float = 1.0) -> dict[str, Any]:
    """Times by CUDA events: 3 to 50 repeats, as many as fit into ``limit`` seconds."""
    times: list[float] = []
    limit = 0.0 if INTERPRETING else limit
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
    return float(start.elapsed_time(end))


def milliseconds(once: Callable[[], object]) -> float:
    """Time of a call by the clock."""
    start = time.perf_counter()
    once()
    return 1e3 * (time.perf_counter() - start)


@dataclass(frozen=True)
class Call:
    """A call of a fused kernel."""

    kernel: Kernel
    bins: int
    problem: launch.Problem
    function: Callable[[launch.Problem], Any]

    def __call__(self, tile: Tile | None = None) -> Any:
        """Its result; with the tile that the engine would take, if none is named."""
        return self.function(replace(self.problem, tile=tile))

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """The tiles that it may use."""
        return self.problem.tiles(self.kernel, self.bins)

    def chosen(self) -> Tile:
        """The tile that was chosen, or else the default."""
        for work, tile in chosen_tiles().items():
            about = (work.kernel, work.bins, work.dtype, work.precision)
            mine = (self.kernel, self.bins, self.problem.anchors.dtype, self.problem.precision)
            if about == mine:
                return tile
        return self.tiles[0]


def measure_tiles(run: Run) -> None:
    """Each kernel with each of its tiles: the time, and how its result differs."""
    batch = kernel_batch(run)
    for label, (dtype, precision) in ARITHMETIC.items():
        calls = run.attempt(label, partial(kernels, batch, dtype, precision))
        for name, call in (calls or {}).items():
            for tile in call.tiles:
                measured = partial(measure_tile, batch, label, name, call, tile)
                run.measure(f"{label}, {name}, {tile_name(tile)}", measured)


def kernel_batch(run: Run) -> int:
    """The batch at which kernels are measured alone."""
    if run.quick:
        return 16 if INTERPRETING else 2048
    return 16_384


def measure_tile(batch: int, label: str, name: str, call: Call, tile: Tile) -> dict[str, Any]:
    """The time of a kernel with a tile, and its result compared with the default tile's."""
    found, expected = (flat(call(one)) for one in (tile, call.tiles[0]))
    return {
        "batch": batch,
        "arithmetic": label,
        "kernel": name,
        "tile": tile_name(tile),
        "difference": float((found - expected).norm() / expected.norm()),
        **time_repeats(partial(call, tile), limit=0.2),
    }


def flat(result: Any) -> torch.Tensor:
    """A kernel's result as one vector."""
    parts = result if isinstance(result, tuple) else (result,)
    return torch.cat([part.double().flatten() for part in parts if part is not None])


def tile_name(tile: Tile) -> str:
    """A tile in a few characters."""
    sizes = "x".join(str(size) for size in (tile.rows, tile.columns, tile.dim, tile.out) if size)
    return f"{sizes}, {tile.warps} warps, {tile.stages} stages"


def measure_kernels(run: Run) -> None:
    """Each fused kernel alone, with the tile that the engine chooses: where the time goes."""
    batch = kernel_batch(run)
    for label, (dtype, precision) in ARITHMETIC.items():
        calls = run.attempt(label, partial(kernels, batch, dtype, precision))
        for name, call in (calls or {}).items():
            measured = partial(measure_kernel, batch, label, name, call)
            run.measure(f"{label}, {name}", measured)


def measure_kernel(batch: int, label: str, name: str, call: Call) -> dict[str, Any]:
    """Times of one kernel, after a call that compiles it and chooses its tile."""
    call()
    about = {"batch": batch, "arithmetic": label, "kernel": name}
    return about | {"tile": tile_name(call.chosen())} | time_repeats(call, limit=0.3)


def kernels(batch: int, dtype: torch.dtype, precision: Precision) -> dict[str, Call]:
    """Calls of every fused kernel on two views, by name."""
    whole = two_views(*(view.detach() for view in views(batch, dtype)))
    problem = launch.Problem(whole.anchors, whole.candidates, whole.rule, precision)
    scale = torch.full((), 1.4427 / TEMPERATURE, device=DEVICE)
    low, top = launch.similarity_ranges(problem)
    inverse = inverse_widths(low, top)
    counts = launch.histograms(problem, BINS, top, inverse)
    bayesian = OBJECTIVES["Bayesian"]
    weights = log2_weights(counts, inverse, bayesian.weights_of_cdf, "mid")
    found = {
        "range": Call("range", 0, problem, launch.similarity_ranges),
        "histogram": Call(
            "histogram", BINS, problem, lambda one: launch.histograms(one, BINS, top, inverse)
        ),
    }
    for kind, table in (
        ("", launch.Binned(0)),
        (", weighted", launch.Binned(BINS, top, inverse, weights)),
    ):
        log_sum, _ = launch.log_sums(problem, scale, table, count=False)
        upstream = torch.ones_like(log_sum)
        functions: dict[Kernel, Callable[[launch.Problem], Any]] = {
            "log_sum": partial(launch.log_sums, scale=scale, binned=table, count=False),
            "anchor_gradient": partial(
                launch.anchor_gradients, scale=scale, binned=table, log_sum=log_sum
            ),
            "candidate_gradient": partial(
                launch.candidate_gradients,
                scale=scale,
                binned=table,
                log_sum=log_sum,
                upstream=upstream,
            ),
        }
        for kernel, function in functions.items():
            name = kernel.replace("_", " ") + kind
            found[name] = Call(kernel, table.bins, problem, function)
    return found
