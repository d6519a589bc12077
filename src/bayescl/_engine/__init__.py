"""Engines that compute one loss per pair of a batch.

The blocked engine computes the logits of a few anchors at a time, with gradients in closed form.
The reference engine computes the whole matrix of logits and uses autograd. It defines the result,
and can be traced, compiled and differentiated any number of times.
"""

from typing import Literal

from bayescl._engine.blocked import blocked_losses
from bayescl._engine.reference import ObjectiveAt, losses_of_logits, reference_losses

Engine = Literal["auto", "blocked", "reference"]
ENGINES: tuple[Engine, ...] = ("auto", "blocked", "reference")

__all__ = [
    "ENGINES",
    "Engine",
    "ObjectiveAt",
    "blocked_losses",
    "losses_of_logits",
    "reference_losses",
]
