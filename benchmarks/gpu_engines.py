"""Sections of ``gpu.py`` on the engines: right, and how fast.

In Triton's interpreter they run on the CPU, at sizes that measure nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
from contenders import cross_entropy_info_nce
from gpu_journal import Run, times

from bayescl.engine.fused import fused_loss
from bayescl.engine.fused.tiles import Precision
from bayescl.engine.select import Engine, per_anchor_losses
from bayescl.functional import Bayesian, InfoNCE, LogSumObjective, unit_vectors
from bayescl.losses.layouts import two_views

ROOT = Path(__file__).resolve().parent.parent
BATCHES = (4096, 8192, 16_384, 32_768, 65_536, 256, 1024, 131_072)
"""Two views make twice as many rows: first 2^13 to 2^17 of them, then the others."""
CHECKED = (1500, 4096, 32_768)
"""Batches whose losses and gradients are compared with float64."""
DIM = 128
TEMPERATURE = 0.1
INTERPRETING = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETING else "cuda"
OBJECTIVES: dict[str, LogSumObjective] = {"InfoNCE": InfoNCE(), "Bayesian": Bayesian(0.9, 0.5, 0.1)}
ARITHMETIC: dict[str, tuple[torch.dtype, Precision]] = {
    "bfloat16": (torch.bfloat16, "ieee"),
    "float32 tf32x3": (torch.float32, "tf32x3"),
    "float32 ieee": (torch.float32, "ieee"),
}
if INTERPRETING:  # which multiplies the bits of bfloat16 as integers
    ARITHMETIC = {"float16": (torch.float16, "ieee"), "float32 ieee": (torch.float32, "ieee")}
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
    quick = (12,) if INTERPRETING else (300,)
    for batch, name in product(quick if run.quick else CHECKED, OBJECTIVES):
        exact = cache(partial(exact_gradients, name, batch))
        steps = {"chunked float32": (torch.float32, exact_step(name, "chunked"))}
        for label, (dtype, precision) in ARITHMETIC.items():
            steps[f"fused {label}"] = (dtype, fused_step(name, precision))
        for label, (dtype, step) in steps.items():
            check = partial(errors, step, batch, dtype, exact)
            run.measure(f"{name}, {label}, B = {batch}", check)


def exact_gradients(name: str, batch: int, dtype: torch.dtype) -> tuple[float, torch.Tensor]:
    """Loss and gradient in float64, of embeddings rounded to ``dtype``."""
    pair = [view.detach().double().requires_grad_() for view in views(batch, dtype)]
    return gradients(exact_step(name, "dense" if batch < 4096 else "chunked"), pair)


def errors(
    step: Step,
    batch: int,
    dtype: torch.dtype,
    exact: Callable[[torch.dtype], tuple[float, torch.Tensor]],
) -> dict[str, float]:
    """How far a step is from exact ones: absolute error of loss, relative error of gradient."""
    expected, right = exact(dtype)
    loss, gradient = gradients(step, views(batch, dtype))
    apart = float((gradient - right).norm() / right.norm())
    return {"loss_error": abs(loss - expected), "gradient_error": apart}


def run_gpu_tests(run: Run) -> None:
    """The tests marked ``gpu``, in a process of their own."""

    def outcome() -> dict[str, Any]:
        command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests/engines"]
        pipes = {"capture_output": True, "text": True, "timeout": run.left}
        done = subprocess.run(command, cwd=ROOT, check=False, **pipes)
        output = done.stdout[-6000:] + done.stderr[-1000:]
        summary = {"summary": done.stdout.strip().rpartition("\n")[2]}
        return summary if done.returncode == 0 else {"error": output}

    run.measure("pytest -m gpu", outcome)


def measure_speed(run: Run) -> None:
    """Time and extra memory of forward and backward, all engines side by side.

    A method is left out where, by its time at another batch, it would not fit into what is left.
    """
    cross_entropy = partial(cross_entropy_info_nce, temperature=TEMPERATURE)
    methods: dict[str, tuple[Step, torch.dtype, dict[str, str]]] = {
        "F.cross_entropy InfoNCE": (lambda pair: cross_entropy(*pair), torch.float32, {})
    }
    for name in OBJECTIVES:
        for engine in ("dense", "chunked"):
            about = {"objective": name, "engine": engine}
            methods[f"{engine} {name}"] = (exact_step(name, engine), torch.float32, about)
        for label, (dtype, precision) in ARITHMETIC.items():
            about = {"objective": name, "engine": "fused", "arithmetic": label}
            methods[f"fused {name}, {label}"] = (fused_step(name, precision), dtype, about)
    quick = (12,) if INTERPRETING else (1024, 256)
    known: dict[str, tuple[int, float]] = {}
    for batch, (name, (step, dtype, about)) in product(
        quick if run.quick else BATCHES, methods.items()
    ):
        before, seconds = known.get(name, (batch, 0.0))
        needs = 4 * seconds * (batch / before) ** 2 + 2
        row = {"method": name, "batch": batch, **about}
        measured = partial(measure_step, step, dtype, row)
        if (value := run.measure(f"{name}, B = {batch}", measured, needs=needs)) is not None:
            known[name] = (batch, value["median_ms"] / 1e3)


def measure_step(step: Step, dtype: torch.dtype, about: dict[str, Any]) -> dict[str, Any]:
    """Time of a step, and its peak extra memory."""
    pair, extra = views(about["batch"], dtype), 0.0

    def once() -> None:
        torch.autograd.grad(step(pair), pair)

    once()  # compiles
    if DEVICE == "cuda":
        held = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        once()
        extra = (torch.cuda.max_memory_allocated() - held) / 2**20
    return {**about, "extra_mib": extra, **times(once, 0 if INTERPRETING else 1)}
