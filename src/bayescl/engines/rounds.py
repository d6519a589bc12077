"""The chunked engine on several processes, with one process's candidates at a time.

In each round one process sends its rows to all, and receives the sum of their gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from torch import distributed as dist

from bayescl import distributed
from bayescl.axes import Float, PerAnchor, Tensor
from bayescl.engines.batch import ContrastiveBatch
from bayescl.engines.chunked import Gradients, Run
from bayescl.engines.dense import ObjectiveAt
from bayescl.functional.sigmoid import Sigmoid


@dataclass(frozen=True, kw_only=True)
class SpreadBatch(ContrastiveBatch):
    """A batch whose candidates are spread over all processes; only this process's own are here.

    The rule's places are among its own; its mask has the columns of all processes, by rank.

    Attributes:
        sizes: number of candidates on each process.
    """

    sizes: tuple[int, ...]

    def of(self, source: int) -> ContrastiveBatch:
        """Return the same anchors with the candidates of one process, which sends them to all."""
        size, start, rule = self.sizes[source], sum(self.sizes[:source]), self.rule
        if source != distributed.rank():
            rule = replace(rule, own=None, positive=None)
        if rule.valid is not None:
            rule = replace(rule, valid=rule.valid[:, start : start + size])
        return self.with_candidates(partial(distributed.rows_of, source, size=size), rule)


def losses_in_rounds(
    batch: SpreadBatch,
    temperature: float | Float[Tensor, ""],
    objective_at: ObjectiveAt,
    *,
    chunk_size: int | None = None,
) -> PerAnchor:
    """Compute one loss per anchor from the candidates of all processes, one process's at a time.

    Every process must call it. The backward pass computes the logits once more, so if one process
    takes it, all must. Differentiable once.

    Args:
        batch: this process's anchors and candidates.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature, a
            :class:`~bayescl.functional.Sigmoid` whose candidates may come in parts.
        chunk_size: anchors at a time, at least 1; default: chosen for the device.

    Raises:
        TypeError: if the objective's candidates must come together.
    """
    objective = objective_at(temperature)
    if not (isinstance(objective, Sigmoid) and objective.adds_up):
        raise TypeError(f"candidates of {type(objective).__name__} must come together")
    return _Rounds(batch, temperature, _always(objective), chunk_size).differentiable(False)


class _Rounds(Run):
    """A run over the candidates of each process; as of one process alone."""

    def losses(
        self, wanted: tuple[bool, ...] = (False,) * 4, upstream: Tensor | None = None
    ) -> tuple[Tensor, Gradients]:
        """Losses, and the wanted gradients of their sum over all processes."""
        batch, objective = self.batch, self.objective_at(self.temperature)
        assert isinstance(batch, SpreadBatch)
        assert isinstance(objective, Sigmoid)
        losses = batch.anchors.new_zeros(batch.num_anchors)
        totals: Gradients = [None] * 4
        for source in range(len(batch.sizes)):
            mine = source == distributed.rank()
            objective_at = _always(replace(objective, counts_positive=mine))
            run = Run(batch.of(source), self.temperature, objective_at, self.chunk_size)
            part, gradients = run.losses(wanted, upstream)
            losses += part
            if gradients[2] is not None:  # those of the rows that were sent belong to the sender
                dist.reduce(gradients[2], group_dst=source)
                gradients[2] = gradients[2] if mine else None
            totals = [
                total if gradient is None else gradient if total is None else total + gradient
                for total, gradient in zip(totals, gradients, strict=True)
            ]
        return losses, totals


def _always(objective: Sigmoid) -> ObjectiveAt:
    """The same objective at any temperature."""
    return lambda _: objective
