"""The fused engine on the cases of all engines, in Triton's interpreter, as a program.

    TRITON_INTERPRET=1 python tests/library/engine/fused_cases.py

Compares values and gradients in float32 with the reference in float64.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1]))

from reference.calls import leaves_of, with_leaves
from reference.cases import CASES, LOSSES

import bayescl
from bayescl._engine import fused
from bayescl._ops import ranks

TOLERANCE = 2e-5
RANKED = 5e-3
"""Tolerance for ranks of embeddings that are not on a grid: some cosines are next to a boundary of
two bins, and rounding moves them by a bin."""


def results(
    case: str, name: str, given: dict[str, Any], dtype: torch.dtype, engine: Any
) -> list[Tensor]:
    loss = LOSSES[name][0](temperature=0.25, engine=engine, **CASES[case].settings_of(name))
    leaves = {}
    for key, part in leaves_of(given).items():
        leaves[key] = part.to(dtype, copy=True).requires_grad_()
    value = CASES[case].run(loss, with_leaves(given, leaves))
    return [value.detach(), *torch.autograd.grad(value, list(leaves.values()), allow_unused=True)]


def main() -> None:
    """Raise an error if a case is off; print the number of cases that the kernels computed."""
    warnings.simplefilter("ignore")
    ranks.BINS = fused.BINS = 2**17 + 1  # no two candidates on a grid are in one bin
    known = {"groups": torch.arange(12) % 5 - 1, "domains": torch.arange(12) % 3 - 1}
    views = torch.randn(2, 12, 24, generator=torch.Generator().manual_seed(0)).double()
    pairs = {"anchors": views[0], "positives": views[1], "both_directions": True}
    CASES["larger views"] = type(CASES["logits"])(
        "two_views", {"view_1": views[0], "view_2": views[1]}
    )
    CASES["larger views, keys"] = type(CASES["logits"])(
        "two_views", {"view_1": views[0], "view_2": views[1], **known}
    )
    CASES["larger pairs"] = type(CASES["logits"])("in_batch", {**pairs, **known})
    used, real = [], fused.is_covered

    def is_covered(*given: Any) -> bool:
        used.append(real(*given))
        return used[-1]

    fused.is_covered = is_covered
    for case, name in ((case, name) for case in CASES for name in LOSSES):
        if not CASES[case].suits(name) or CASES[case].layout == "from_logits":
            continue
        if case.startswith("larger") and "by rank" in name:  # weights of three powers, too steep
            continue
        given = CASES[case].given
        found = results(case, name, given, torch.float32, "fused")
        right = results(case, name, given, torch.float64, "reference")
        for one, other in zip(found, right, strict=True):
            error = (
                0.0 if one is None else float((one - other).norm() / other.norm().clamp(min=1e-3))
            )
            is_ranked = case.startswith("larger") and "bayesian" in name
            if not error <= (RANKED if is_ranked else TOLERANCE):
                raise AssertionError(f"{case}, {name}: off by {error:.1e}")
    row = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0)).requires_grad_()
    gradient = torch.autograd.grad(
        bayescl.InfoNCELoss(engine="fused")(*row), row, create_graph=True
    )[0]
    with pytest.raises(RuntimeError, match="differentiable once"):
        torch.autograd.grad(gradient.sum(), row)
    sys.stdout.write(f"{sum(used)} of {len(used)} calls by the kernels\n")


if __name__ == "__main__":
    main()
