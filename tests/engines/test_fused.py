"""The fused engine: what it supports, and its kernels in a process that interprets them."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

from bayescl.engines import CandidateRule, ContrastiveBatch, fused
from bayescl.engines._fused_tiles import KERNELS, PRECISIONS, shares, tiles_for
from bayescl.engines.fused import fused_loss, fused_unavailable_reason, fused_unsupported_reason
from bayescl.functional import Bayesian, InfoNCE
from bayescl.functional.info_nce import info_nce_loss

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
WITHOUT_TRITON = pytest.mark.skipif(
    (fused_unavailable_reason() or "").startswith("Triton"), reason="needs Triton"
)


def batch_of(anchors: torch.Tensor, candidates: torch.Tensor) -> ContrastiveBatch:
    return ContrastiveBatch(anchors, anchors, candidates, CandidateRule())


def python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def interpreter_runs() -> bool:
    """Older interpreters turn arrays of one element into loop bounds, which NumPy 2.4 refuses."""
    return release("triton") >= (3, 8) or release("numpy") < (2, 4)


def release(package: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version(package).split(".")[:2])


@WITHOUT_TRITON
def test_the_kernels_hold_in_triton_s_interpreter() -> None:
    if not interpreter_runs():
        pytest.skip("Triton's interpreter is too old for this NumPy")
    tests = HERE / "test_fused_interpreted.py"
    done = python(
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tests)),
        TRITON_INTERPRET="1",
        OMP_NUM_THREADS="1",
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "skipped" not in done.stdout


def test_importing_the_engine_does_not_import_triton() -> None:
    program = "import sys; from bayescl.engines import fused; assert 'triton' not in sys.modules"
    done = python("-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("anchors", "candidates", "words"),
    [
        (torch.ones(2, 3), torch.ones(2, 4, 3), "not each anchor's own"),
        (torch.ones(2, 3).double(), torch.ones(4, 3).double(), "float64"),
        (torch.ones(2, 3), torch.ones(4, 3).half(), "differ in dtype"),
        (torch.ones(2, 3), torch.ones(4, 3), "CUDA device, got cpu"),
    ],
)
def test_what_is_not_supported_is_said_in_one_sentence(
    anchors: torch.Tensor, candidates: torch.Tensor, words: str
) -> None:
    reason = fused_unsupported_reason(batch_of(anchors, candidates), InfoNCE())
    assert reason is not None
    assert words in reason
    assert "\n" not in reason


def test_dimension_objective_and_size_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    batch = batch_of(torch.ones(2, 3), torch.ones(4, 3))
    assert fused_unsupported_reason(batch, InfoNCE()) is None
    assert fused_unsupported_reason(batch, Bayesian(0.9, 0.5, 0.1)) is None
    assert "support the objective function" in str(fused_unsupported_reason(batch, info_nce_loss))
    wide = batch_of(torch.ones(2, 1025), torch.ones(4, 1025))
    assert "at most 1024 coordinates, got 1025" in str(fused_unsupported_reason(wide, InfoNCE()))
    for keys, words in ((8, "None"), (9, "up to 8 groups per row, got 9")):
        groups = torch.zeros(2, keys, dtype=torch.int64)
        rule = CandidateRule(anchor_groups=groups, candidate_groups=groups)
        grouped = ContrastiveBatch(*3 * (torch.ones(2, 3),), rule)
        assert words in str(fused_unsupported_reason(grouped, InfoNCE()))
    empty = batch_of(torch.ones(2, 3), torch.ones(0, 3))
    assert "must not be empty" in str(fused_unsupported_reason(empty, InfoNCE()))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    reason = fused_unavailable_reason()
    assert reason is not None
    batch = batch_of(torch.ones(2, 3), torch.ones(4, 3))
    with pytest.raises(RuntimeError, match='engine="fused" cannot run: '):
        fused_loss(batch, 0.5, lambda _: InfoNCE())


@pytest.mark.parametrize(
    ("installed", "words"), [(None, "not installed"), ("3.2.0", "at least 3.4, got 3.2.0")]
)
def test_a_missing_or_old_triton_is_named(
    installed: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(_: str) -> str:
        if installed is None:
            raise fused.PackageNotFoundError
        return installed

    monkeypatch.setattr(fused, "version", find)
    assert words in str(fused_unavailable_reason())


def test_options_are_checked() -> None:
    batch = batch_of(torch.ones(2, 3), torch.ones(4, 3))
    with pytest.raises(ValueError, match="bins must be one of 64, 128"):
        fused_loss(batch, 0.5, lambda _: InfoNCE(), bins=100)
    with pytest.raises(ValueError, match="precision must be one of ieee"):
        fused_loss(batch, 0.5, lambda _: InfoNCE(), precision="exact")  # type: ignore[arg-type]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_tiles_are_ones_that_triton_takes(kernel, precision, dtype) -> None:
    for dim in (1, 16, 100, 128, 1000, 1024):
        for bins in (64, 1024):
            tiles = tiles_for(kernel, dtype, dim, bins, precision)
            assert len(set(tiles)) == len(tiles)
            for tile in tiles:
                sizes = (tile.rows, tile.columns, tile.dim)
                assert min(sizes) >= 16
                assert all(size & (size - 1) == 0 for size in (*sizes, tile.out))
                if kernel == "histogram":
                    assert tile.rows * bins <= 16384


def test_loops_are_cut_only_where_the_device_would_idle() -> None:
    assert shares(blocks=1, steps=3, programs=264) == 3
    assert shares(blocks=100, steps=1000, programs=264) == 3
    assert shares(blocks=264, steps=1000, programs=264) == 1
