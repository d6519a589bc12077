"""What each of two processes computes for the test of open_clip's losses on several devices."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from ranks.launch import Findings

pytest.importorskip("open_clip", reason="needs open_clip")

OPTIONS = {"local_loss": True, "gather_with_grad": True, "world_size": 2}


def rows(seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(6, 5, generator=generator), dim=1)


def step(
    criterion: Any, own: slice, bias: float | None = None, dtype: Any = torch.float32, **call: Any
) -> list[Any]:
    inputs = [rows(seed)[own].to(dtype).requires_grad_() for seed in (0, 1)]
    learnt = [torch.tensor(12.0, dtype=dtype, requires_grad=True)]
    if bias is not None:
        learnt.append(torch.tensor(bias, dtype=dtype, requires_grad=True))
    value = criterion(*inputs, *learnt, **call)
    value.backward()
    return [value.item(), learnt[0].grad.item(), *(leaf.grad.tolist() for leaf in inputs)] + [
        each.grad.item() for each in learnt[1:]
    ]


def on_a_rank(rank: int, world_size: int) -> Findings:
    warnings.simplefilter("default")
    from open_clip import ClipLoss as Theirs
    from open_clip.loss import SigLipLoss as TheirSigLipLoss

    from bayescl.integrations.open_clip import BayesianClipLoss, ClipLoss, SigLipLoss

    del world_size
    equal, unequal = slice(3 * rank, 3 * rank + 3), [slice(0, 2), slice(2, 6)][rank]
    groups = torch.tensor([0, 1, 2, 0, 3, 1])
    pair = {"rank": rank, "world_size": 2}
    return {
        "our sigmoid": step(SigLipLoss(**pair), equal, bias=-10.0),
        "their sigmoid": step(TheirSigLipLoss(**pair), equal, bias=-10.0),
        "ours": step(ClipLoss(rank=rank, **OPTIONS), equal),
        "theirs": step(Theirs(rank=rank, **OPTIONS), equal),
        "unequal": step(BayesianClipLoss(rank=rank, **OPTIONS), unequal, groups=groups[unequal]),
    }
