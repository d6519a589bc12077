"""What the fused engine supports, its tiles, and its kernels in a process that interprets them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
import torch

from bayescl.engines import CandidateRule, ContrastiveBatch, fused
from bayescl.engines.fused import fused_loss, fused_unavailable_reason
from bayescl.engines.fused import fused_unsupported_reason as unsupported_reason
from bayescl.engines.fused.tiles import PRECISIONS, Kernel, tile_for
from bayescl.functional import Bayesian, InfoNCE, Objective
from bayescl.functional.info_nce import info_nce_loss

HERE = Path(__file__).parent
ones = torch.ones
NEEDS_TRITON = pytest.mark.skipif(
    (fused_unavailable_reason() or "").startswith("Triton"), reason="needs Triton"
)


def batch_of(anchors: torch.Tensor, candidates: torch.Tensor, keys: int = 0) -> ContrastiveBatch:
    groups = [torch.zeros(len(side), keys, dtype=torch.int64) for side in (anchors, candidates)]
    rule = CandidateRule(anchor_groups=groups[0], candidate_groups=groups[1])
    return ContrastiveBatch(anchors, anchors, candidates, rule if keys else CandidateRule())


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command, environment = [sys.executable, *arguments], {**os.environ, **environment}
    return subprocess.run(
        command, cwd=HERE.parent.parent, env=environment, capture_output=True, text=True
    )


def interpreter_runs() -> bool:
    """Older interpreters turn arrays of one element into loop bounds, which NumPy 2.4 refuses."""
    triton, numpy = (
        tuple(int(part) for part in version(package).split(".")[:2])
        for package in ("triton", "numpy")
    )
    return triton >= (3, 8) or numpy < (2, 4)


@NEEDS_TRITON
def test_the_kernels_hold_in_triton_s_interpreter() -> None:
    if not interpreter_runs():
        pytest.skip("Triton's interpreter is too old for this NumPy")
    tests = str(HERE / "test_fused_kernels.py")
    options = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
    done = python(*options, tests, TRITON_INTERPRET="1", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_importing_the_engine_does_not_import_triton() -> None:
    program = "import sys; from bayescl.engines import fused; assert 'triton' not in sys.modules"
    done = python("-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("batch", "objective", "words"),
    [
        (batch_of(ones(2, 3), ones(2, 4, 3)), InfoNCE(), "not each anchor's own"),
        (batch_of(ones(2, 3).double(), ones(4, 3).double()), InfoNCE(), "float64"),
        (batch_of(ones(2, 3), ones(4, 3).half()), InfoNCE(), "differ in dtype"),
        (batch_of(ones(2, 3), ones(4, 3)), info_nce_loss, "support the objective function"),
        (batch_of(ones(2, 1025), ones(4, 1025)), InfoNCE(), "1024 coordinates, got 1025"),
        (batch_of(ones(2, 3), ones(4, 3), keys=9), InfoNCE(), "up to 8 groups per row, got 9"),
        (batch_of(ones(2, 3), ones(0, 3)), InfoNCE(), "must not be empty"),
        (batch_of(ones(2, 3), ones(4, 3), keys=8), Bayesian(0.9, 0.5, 0.1), "None"),
    ],
)
def test_what_is_not_supported_is_said_in_one_sentence(
    batch: ContrastiveBatch, objective: Objective, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    reason = str(unsupported_reason(batch, objective))
    assert words in reason
    assert "\n" not in reason
    monkeypatch.delenv("TRITON_INTERPRET")
    if words == "None":
        assert "CUDA device, got cpu" in str(unsupported_reason(batch, objective))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_or_a_new_triton_the_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert fused_unavailable_reason() is not None
    with pytest.raises(RuntimeError, match='engine="fused" cannot run: '):
        fused_loss(batch_of(ones(2, 3), ones(4, 3)), 0.5, lambda _: InfoNCE())
    monkeypatch.setattr(fused, "version", lambda _: "3.2.0")
    assert "at least 3.4, got 3.2.0" in str(fused_unavailable_reason())

    def missing(_: str) -> str:
        raise fused.PackageNotFoundError

    monkeypatch.setattr(fused, "version", missing)
    assert "not installed" in str(fused_unavailable_reason())


def test_options_are_checked() -> None:
    batch = batch_of(ones(2, 3), ones(4, 3))
    with pytest.raises(ValueError, match="bins must be one of 64, 128"):
        fused_loss(batch, 0.5, lambda _: InfoNCE(), bins=100)
    with pytest.raises(ValueError, match="precision must be one of ieee"):
        fused_loss(batch, 0.5, lambda _: InfoNCE(), precision="exact")  # type: ignore[arg-type]


def test_tiles_are_ones_that_triton_takes() -> None:
    kinds = [(torch.float32, precision) for precision in PRECISIONS] + [(torch.bfloat16, "ieee")]
    for kernel, (dtype, precision) in product(get_args(Kernel), kinds):
        for dim, bins, masked in product((1, 100, 128, 1024), (64, 1024), (False, True)):
            tile = tile_for(kernel, dtype, dim, bins, precision, masked=masked)
            sizes = (tile.rows, tile.columns, tile.dim)
            assert min(sizes) >= 16
            assert all(size & (size - 1) == 0 for size in (*sizes, tile.out))
            assert kernel != "histogram" or tile.rows * bins <= 16384
