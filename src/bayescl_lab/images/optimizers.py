"""Optimizers for contrastive training, and the learning-rate schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import torch
from torch import nn

MOMENTUM = 0.9

OptimizerFactory = Callable[..., torch.optim.Optimizer]
"""Makes the optimizer of some parameters, with ``lr`` and ``weight_decay``."""


def adam(
    parameters: Iterable[nn.Parameter], *, lr: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Adam; on a GPU as one kernel."""
    parameters = list(parameters)
    fused = True if all(parameter.is_cuda for parameter in parameters) else None
    return torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=fused)


OPTIMIZERS: Mapping[str, OptimizerFactory] = {
    "adam": adam,
    "sgd": partial(torch.optim.SGD, momentum=MOMENTUM),
}
"""Every optimizer by its name."""


def warm_up_and_cosine(step: int, *, warmup_steps: int, total_steps: int) -> float:
    """Share of the peak learning rate at a step: a linear warm-up, then a cosine down to 0.

    Torch's ``SequentialLR`` multiplies rates step by step, so they differ in their last digits and
    rise again after the last step.

    Example:
        >>> [warm_up_and_cosine(step, warmup_steps=2, total_steps=4) for step in range(5)]
        [0.5, 1.0, 1.0, 0.5, 0.0]
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    share = min((step - warmup_steps) / (total_steps - warmup_steps), 1.0)
    return 0.5 * (1 + math.cos(math.pi * share))
