"""The fused kernels compiled ahead of time for two generations of GPUs, without any at hand."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from bayescl.engines.fused.tiles import WARPS, Kernel, Precision, tile_for

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") == "1", reason="compiles, does not interpret"
)
TARGETS = {80: "sm_80", 90: "sm_90a"}
SHARED_MEMORY = {80: 99 * 1024, 90: 227 * 1024}
"""Bytes that a block may have: those of consumer parts where code for 8.0 runs on them."""
TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
PLAIN, GROUPS_AND_MASK = (False, 0), (True, 3)
EXCLUSIONS = (PLAIN, (True, 0), (False, 1), (True, 1), GROUPS_AND_MASK)
"""Whether single pairs are masked, and the number of groups per row."""


def compiled(
    kernel: Kernel,
    dtype: torch.dtype,
    precision: Precision,
    bins: int,
    dim: int,
    capability: int,
    exclusion: tuple[bool, int] = PLAIN,
) -> Any:
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from bayescl.engines.fused import kernels
    from bayescl.engines.fused.launch import counts_in_shared_memory

    masked, keys = exclusion
    tile = tile_for(kernel, dtype, dim, bins, precision, masked=exclusion != PLAIN)
    name = "gradient" if kernel.endswith("gradient") else kernel
    function = getattr(kernels, f"{name}_kernel")
    constants = {
        "num_keys": keys,
        "dim": dim,
        "bins": bins,
        "block_rows": tile.rows,
        "block_columns": tile.columns,
        "block_dim": tile.dim,
        "block_out": tile.out,
        "precision": precision,
        "shared_counts": counts_in_shared_memory(),
        "of_candidates": kernel == "candidate_gradient",
    }
    absent = [] if masked else ["valid"]
    absent += [] if keys else ["anchor_groups", "candidate_groups"]
    absent += ["tops", "inverse_widths", "log_weights"] if bins == 0 and kernel != "range" else []
    absent += ["upstream"] if kernel == "anchor_gradient" else []
    constants |= dict.fromkeys(absent)
    pointers = dict.fromkeys(("anchors", "candidates"), TYPES[dtype])
    pointers |= {"own": "i64", "positive": "i64", "valid": "u8", "counts": "i32"}
    pointers |= dict.fromkeys(("anchor_groups", "candidate_groups"), "i64" if keys == 1 else "i32")
    signature, used, aligned = {}, {}, {}
    for place, argument in enumerate(function.arg_names):
        if argument in constants:
            signature[argument], used[argument] = "constexpr", constants[argument]
        elif argument in ("num_anchors", "num_candidates", "share"):
            signature[argument] = "i32"
        else:
            signature[argument] = "*" + pointers.get(argument, "fp32")
            aligned[(place,)] = [["tt.divisibility", 16]]
    return triton.compile(
        ASTSource(function, signature, used, aligned),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": WARPS, "num_stages": tile.stages, "enable_fp_fusion": True},
    )


def spilled_bytes(ptx: str, capability: int, folder: Path) -> int:
    """Bytes of registers spilled, as the assembler reports them."""
    from triton.backends.nvidia.compiler import get_ptxas

    source = folder / "kernel.ptx"
    source.write_text(ptx)
    command = [get_ptxas(capability).path, "-v", f"--gpu-name={TARGETS[capability]}"]
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 9):
        command.append("--regAllocOptLevel=2")  # as Triton calls it
    command += [str(source), "-o", str(folder / "kernel.cubin")]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return sum(map(int, re.findall(r"(\d+) bytes spill", report)))


SETTINGS = [
    (torch.bfloat16, "ieee", 128, 0),
    (torch.bfloat16, "ieee", 1024, 256),
    (torch.float32, "ieee", 128, 256),
    (torch.float32, "tf32x3", 128, 256),
    # the others only in slow tests
    (torch.bfloat16, "ieee", 128, 256),
    (torch.float16, "ieee", 128, 256),
    (torch.bfloat16, "ieee", 256, 0),
    (torch.bfloat16, "ieee", 1024, 0),
    (torch.bfloat16, "ieee", 32, 256),
    (torch.bfloat16, "ieee", 128, 1024),
    (torch.float32, "ieee", 1024, 0),
    (torch.float32, "ieee", 1024, 256),
    (torch.float32, "ieee", 128, 1024),
    (torch.float32, "tf32x3", 1024, 0),
    (torch.float32, "tf32x3", 1024, 256),
    (torch.float32, "tf32", 128, 256),
]


@pytest.mark.parametrize("capability", TARGETS)
@pytest.mark.parametrize(
    ("setting", "everything"),
    [(setting, False) for setting in SETTINGS[:4]]
    + [pytest.param(setting, True, marks=pytest.mark.slow) for setting in SETTINGS],
)
def test_kernels_compile_without_spilling_registers(
    setting: tuple[torch.dtype, Precision, int, int],
    everything: bool,
    capability: int,
    tmp_path: Path,
) -> None:
    dtype, precision, dim, bins = setting
    wrong = {}
    for kernel in get_args(Kernel):
        if (kernel == "range" and bins > 0) or (kernel == "histogram" and bins == 0):
            continue  # the range has no weights, a histogram has bins
        for exclusion in EXCLUSIONS if everything else (PLAIN, GROUPS_AND_MASK):
            code = compiled(kernel, dtype, precision, bins, dim, capability, exclusion)
            shared = code.metadata.shared
            spilled = spilled_bytes(code.asm["ptx"], capability, tmp_path)
            if spilled or shared > SHARED_MEMORY[capability]:
                wrong[kernel, exclusion] = {"spilled": spilled, "shared": shared}
    assert not wrong


def test_float32_is_multiplied_exactly_and_half_precision_on_the_matrix_units() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        code = compiled("log_sum", dtype, "ieee", 0, 128, 90).asm["ptx"]
        assert ("wgmma" in code) == (dtype != torch.float32)
        assert "tf32" not in code
