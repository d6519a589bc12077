"""The fused kernels compiled ahead of time for two generations of GPUs, without any at hand."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from bayescl.engines._fused_tiles import KERNELS, Kernel, Precision, Tile, tiles_for

triton = pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(
    os.environ.get("TRITON_INTERPRET") == "1", reason="compiles, does not interpret"
)
CAPABILITIES = {80: "sm_80", 90: "sm_90a"}
TYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def kernel_function(kernel: Kernel):
    from bayescl.engines import _fused_backward_kernels, _fused_forward_kernels

    module = _fused_backward_kernels if "gradient" in kernel else _fused_forward_kernels
    return getattr(module, f"{kernel}_kernel")


def compile_kernel(
    kernel: Kernel,
    dtype: torch.dtype,
    dim: int,
    bins: int,
    precision: Precision,
    capability: int,
    *,
    tile: Tile | None = None,
    masked: bool = False,
    keys: int = 0,
):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from bayescl.engines._fused_launch import counts_in_shared_memory

    function = kernel_function(kernel)
    excluding = masked or keys > 0
    tile = tile or tiles_for(kernel, dtype, dim, bins, precision, masked=excluding)[0]
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
    }
    if not masked:
        constants["valid"] = None
    if keys == 0:
        constants |= dict.fromkeys(("anchor_groups", "candidate_groups"))
    if kernel == "log_sum" and not masked:
        constants["counts"] = None
    if bins == 0 and kernel != "range":
        constants |= dict.fromkeys(("tops", "inverse_widths", "log_weights"))
    pointers = {
        "anchors": TYPES[dtype],
        "candidates": TYPES[dtype],
        **dict.fromkeys(("own", "positive"), "i64"),
        **dict.fromkeys(("anchor_groups", "candidate_groups"), "i64" if keys == 1 else "i32"),
        "valid": "u8",
        "counts": "i32",
    }
    signature, used, aligned = {}, {}, {}
    for place, name in enumerate(function.arg_names):
        if name in constants:
            signature[name], used[name] = "constexpr", constants[name]
        elif name in ("num_anchors", "num_candidates", "share"):
            signature[name] = "i32"
        else:
            signature[name] = "*" + pointers.get(name, "fp32")
            aligned[(place,)] = [["tt.divisibility", 16]]
    return triton.compile(
        ASTSource(function, signature, used, aligned),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": tile.warps, "num_stages": tile.stages, "enable_fp_fusion": True},
    )


def resources(compiled, capability: int, folder: Path) -> dict[str, int]:
    """Registers per thread and bytes spilled, as the assembler reports them."""
    from triton.backends.nvidia.compiler import get_ptxas

    source = folder / "kernel.ptx"
    source.write_text(compiled.asm["ptx"])
    command = [get_ptxas(capability).path, "-v", f"--gpu-name={CAPABILITIES[capability]}"]
    if tuple(int(part) for part in triton.__version__.split(".")[:2]) >= (3, 9):
        command.append("--regAllocOptLevel=2")  # as Triton calls it
    report = subprocess.run(
        [*command, str(source), "-o", str(folder / "kernel.cubin")],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    stored, loaded = re.search(
        r"(\d+) bytes spill stores, (\d+) bytes spill loads", report
    ).groups()
    return {
        "spilled": int(stored) + int(loaded),
        "registers": int(re.search(r"Used (\d+) registers", report)[1]),
        "shared": compiled.metadata.shared,
    }


SHIPPED = [
    (torch.bfloat16, "ieee", 128, 0),
    (torch.bfloat16, "ieee", 128, 256),
    (torch.bfloat16, "ieee", 1024, 256),
    (torch.float32, "ieee", 128, 256),
    (torch.float32, "ieee", 1024, 256),
    (torch.float32, "tf32x3", 128, 256),
]
FURTHER = [
    (torch.float16, "ieee", 128, 256),
    (torch.bfloat16, "ieee", 256, 0),
    (torch.bfloat16, "ieee", 1024, 0),
    (torch.bfloat16, "ieee", 32, 256),
    (torch.bfloat16, "ieee", 128, 1024),
    (torch.float32, "ieee", 128, 0),
    (torch.float32, "ieee", 1024, 0),
    (torch.float32, "ieee", 128, 1024),
    (torch.float32, "tf32x3", 128, 0),
    (torch.float32, "tf32x3", 1024, 0),
    (torch.float32, "tf32x3", 1024, 256),
    (torch.float32, "tf32", 128, 256),
]
SHARED_MEMORY = {80: 99 * 1024, 90: 227 * 1024}
"""Bytes that a block may have: those of consumer parts where code for 8.0 runs on them."""


def cases() -> list:
    """Every tile of every kernel; by default those that are used where nothing is measured."""
    found = []
    for shipped, parts in ((True, SHIPPED), (False, FURTHER)):
        for dtype, precision, dim, bins in parts:
            for kernel in KERNELS:
                if (kernel == "range" and bins > 0) or (kernel == "histogram" and bins == 0):
                    continue  # the range has no weights, a histogram has bins
                for number, tile in enumerate(tiles_for(kernel, dtype, dim, bins, precision)):
                    name = f"{kernel}-{TYPES[dtype]}-{precision}-{dim}-{bins}-tile{number}"
                    marks = () if shipped and number == 0 else (pytest.mark.slow,)
                    case = (kernel, dtype, precision, dim, bins, tile)
                    found.append(pytest.param(*case, id=name, marks=marks))
    return found


@pytest.mark.parametrize("capability", list(CAPABILITIES), ids=list(CAPABILITIES.values()))
@pytest.mark.parametrize(("kernel", "dtype", "precision", "dim", "bins", "tile"), cases())
def test_kernels_compile_without_spilling_registers(
    kernel: Kernel,
    dtype: torch.dtype,
    precision: Precision,
    dim: int,
    bins: int,
    tile: Tile,
    capability: int,
    tmp_path: Path,
) -> None:
    compiled = compile_kernel(kernel, dtype, dim, bins, precision, capability, tile=tile)
    used = resources(compiled, capability, tmp_path)
    assert used["spilled"] == 0, used
    assert used["shared"] <= SHARED_MEMORY[capability], used


def excluding_cases() -> list:
    """Groups and masks with every arithmetic; by default with bfloat16 on the newer device."""
    found = []
    for capability in CAPABILITIES:
        for dtype, precision, dim, bins in dict.fromkeys([*SHIPPED, *FURTHER]):
            for kernel in KERNELS:
                if (kernel == "range" and bins > 0) or (kernel == "histogram" and bins == 0):
                    continue
                for masked, keys in ((True, 0), (False, 1), (True, 1), (True, 3)):
                    usual = (dtype, dim, keys) == (torch.bfloat16, 128, 3) and bins in (0, 256)
                    marks = () if usual and capability == 90 else (pytest.mark.slow,)
                    case = (kernel, dtype, precision, dim, bins, masked, keys, capability)
                    name = "-".join(map(str, (kernel, TYPES[dtype], *case[2:])))
                    found.append(pytest.param(*case, id=name, marks=marks))
    return found


@pytest.mark.parametrize(
    ("kernel", "dtype", "precision", "dim", "bins", "masked", "keys", "capability"),
    excluding_cases(),
)
def test_groups_and_masks_spill_no_registers_either(
    kernel: Kernel,
    dtype: torch.dtype,
    precision: Precision,
    dim: int,
    bins: int,
    masked: bool,
    keys: int,
    capability: int,
    tmp_path: Path,
) -> None:
    compiled = compile_kernel(
        kernel, dtype, dim, bins, precision, capability, masked=masked, keys=keys
    )
    used = resources(compiled, capability, tmp_path)
    assert used["spilled"] == 0, used
    assert used["shared"] <= SHARED_MEMORY[capability], used


@pytest.mark.parametrize(
    ("dtype", "precision"), [(torch.float32, "ieee"), (torch.bfloat16, "ieee")]
)
def test_float32_is_multiplied_exactly_and_half_precision_on_the_matrix_units(
    dtype: torch.dtype, precision: Precision
) -> None:
    code = compile_kernel("log_sum", dtype, 128, 0, precision, 90).asm["ptx"]
    assert ("wgmma" in code) == (dtype != torch.float32)
    assert "tf32" not in code
