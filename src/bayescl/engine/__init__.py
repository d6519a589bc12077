"""One loss for each pair of a batch: a blocked engine, and the reference that defines it.

The blocked engine holds a few anchors' logits at a time and computes gradients in closed form. The
reference holds the whole matrix and leaves gradients to autograd: it can be traced, compiled and
differentiated any number of times.
"""

from typing import Literal

from bayescl.engine.blocked import blocked_losses
from bayescl.engine.reference import ObjectiveAt, losses_of_logits, reference_losses

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
