"""The plain engine: the whole matrix of logits at once, gradients by autograd."""

from __future__ import annotations

from collections.abc import Callable

from bayescl._axes import Float, PerAnchor, Tensor
from bayescl.engines.batch import ContrastiveBatch
from bayescl.functional.objective import Objective
from bayescl.functional.similarity import candidate_logits, pair_logits

ObjectiveAt = Callable[[float | Tensor], Objective]
"""The objective at a given temperature: two of the five need to know it for their floor."""


def dense_loss(
    batch: ContrastiveBatch,
    temperature: float | Float[Tensor, ""],
    objective_at: ObjectiveAt,
) -> PerAnchor:
    """Compute one loss per anchor from the full matrix of logits.

    Memory grows with anchors x candidates. Differentiable any number of times; works under
    ``torch.func.grad`` and ``torch.compile``.

    Args:
        batch: anchors, positives, candidates and which of them count.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature.

    Returns:
        One loss per anchor.
    """
    positive = pair_logits(batch.anchors, batch.positives, temperature)
    unlabeled = candidate_logits(batch.anchors, batch.candidates, temperature)
    return objective_at(temperature)(positive, unlabeled, valid=batch.mask())
