"""The fused engine in Triton's interpreter, in a process of its own, and its fallback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import bayescl


def test_kernels_agree_with_float64_on_the_cases_of_all_engines() -> None:
    pytest.importorskip("triton")
    program = Path(__file__).with_name("fused_cases.py")
    run = subprocess.run(
        [sys.executable, str(program)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    number, total, *errors = map(float, re.findall(r"[\d.]+(?:e-\d+)?", run.stdout))
    assert number > 0.55 * total
    largest, loss_change, gradient_change = errors
    assert largest < 2e-5
    assert loss_change < 1e-4
    assert gradient_change < 3e-3


def test_without_a_gpu_the_fused_engine_is_the_blocked_one() -> None:
    views = torch.randn(2, 9, 4, generator=torch.Generator().manual_seed(0))
    fused, blocked = (bayescl.InfoNCELoss(engine=engine)(*views) for engine in ("fused", "blocked"))
    assert torch.equal(fused, blocked)
