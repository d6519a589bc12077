"""Optimizers for contrastive training, and the learning-rate schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

MOMENTUM = 0.9
TRUST = 1e-3
"""Relative change of a weight in one step of LARS, at learning rate 1."""

OptimizerFactory = Callable[..., torch.optim.Optimizer]
"""Makes the optimizer of some parameters, with ``lr`` and ``weight_decay``."""


def adam(
    parameters: Iterable[nn.Parameter], *, lr: float, weight_decay: float
) -> torch.optim.Optimizer:
    """Adam; on a GPU as one kernel."""
    parameters = list(parameters)
    fused = True if all(parameter.is_cuda for parameter in parameters) else None
    return torch.optim.Adam(parameters, lr=lr, weight_decay=weight_decay, fused=fused)


class Lars(torch.optim.SGD):
    r"""Momentum SGD in which every weight moves in proportion to its own norm.

    For the gradient :math:`g` of a weight :math:`w`, decay :math:`\lambda` and trust
    :math:`\eta = 10^{-3}`, SGD is given the gradient

    .. math::
        \eta \frac{\lVert w \rVert}{\lVert g + \lambda w \rVert} (g + \lambda w),

    so the size of a layer's gradients does not matter, and batches of thousands of images with
    large learning rates train all layers evenly. If either norm is 0, the factor is 1. Biases and
    the scales of normalisation are left to plain SGD without decay.

    Reference:
        You et al., "Large Batch Training of Convolutional Networks", 2017.
    """

    def __init__(
        self, parameters: Iterable[nn.Parameter], *, lr: float, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, lr=lr, momentum=MOMENTUM)
        for group in self.param_groups:
            group["decay"] = weight_decay

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take one step."""
        value = None
        if closure is not None:
            with torch.enable_grad():
                value = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.ndim > 1:
                    gradient = parameter.grad.add_(parameter, alpha=group["decay"])
                    own, slope = parameter.norm(), gradient.norm()
                    ratio = TRUST * own / slope
                    usable = (own > 0) & (slope > 0)
                    gradient.mul_(torch.where(usable, ratio, torch.ones_like(ratio)))
        super().step()
        return value


OPTIMIZERS: Mapping[str, OptimizerFactory] = {
    "adam": adam,
    "sgd": partial(torch.optim.SGD, momentum=MOMENTUM),
    "lars": Lars,
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
