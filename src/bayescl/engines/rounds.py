"""The chunked engine on several processes, with one process's candidates at a time.

In each round one process sends its rows to all and receives what all found for their gradient. So
no process ever holds the embeddings of more than one other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from torch import distributed as dist

from bayescl import distributed
from bayescl.axes import Float, PerAnchor, Tensor
from bayescl.checks import check_count
from bayescl.engines.batch import ContrastiveBatch
from bayescl.engines.chunked import Gradients, _ChunkedLoss, _Run, default_chunk_size
from bayescl.engines.dense import ObjectiveAt
from bayescl.functional.sigmoid import Sigmoid


@dataclass(frozen=True, kw_only=True)
class SpreadBatch(ContrastiveBatch):
    """A batch whose candidates are those of all processes, of which this process's own are here.

    The rule's places are among its own; its mask has the columns of all, by rank.

    Attributes:
        sizes: number of candidates on each process.
    """

    sizes: tuple[int, ...]

    def of(self, source: int) -> ContrastiveBatch:
        """Return the same anchors with the candidates of one process, which sends them to all."""
        size, start, rule = self.sizes[source], sum(self.sizes[:source]), self.rule

        def sent(rows: Tensor) -> Tensor:
            return distributed.rows_of(source, rows, size)

        if source != distributed.rank():
            rule = replace(rule, own=None, positive=None)
        if rule.valid is not None:
            rule = replace(rule, valid=rule.valid[:, start : start + size])
        return self.with_candidates(sent, rule)


def losses_in_rounds(
    batch: SpreadBatch,
    temperature: float | Float[Tensor, ""],
    objective_at: ObjectiveAt,
    *,
    chunk_size: int | None = None,
) -> PerAnchor:
    """Compute one loss per anchor from the candidates of all processes, one after the other.

    Every process must call it, and take the backward pass if one does: it computes the logits once
    more. Differentiable once.

    Args:
        batch: this process's anchors and candidates.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature, a
            :class:`~bayescl.functional.Sigmoid` whose candidates may come in parts.
        chunk_size: anchors at a time; default: chosen for the device.

    Returns:
        One loss per anchor of this process.

    Raises:
        TypeError: if the objective's candidates must come together.
        ValueError: if ``chunk_size`` is below 1.
    """
    objective = objective_at(temperature)
    if not (isinstance(objective, Sigmoid) and objective.adds_up):
        raise TypeError(f"candidates of {type(objective).__name__} must come together")
    if chunk_size is None:
        chunk_size = default_chunk_size(batch)
    run = _Rounds(batch, temperature, objective, check_count("chunk_size", chunk_size, 1))
    tensors = (batch.anchors, batch.positives, batch.candidates)
    losses: Tensor = _ChunkedLoss.apply(*tensors, temperature, run, False)
    return losses


@dataclass(frozen=True)
class _Rounds:
    """A run over the candidates of each process; as of one process alone."""

    batch: SpreadBatch
    temperature: float | Tensor
    objective: Sigmoid
    chunk_size: int

    def losses(
        self, wanted: tuple[bool, ...] = (False,) * 4, upstream: Tensor | None = None
    ) -> tuple[Tensor, Gradients]:
        """Losses, and the wanted gradients of their sum over all processes."""
        losses = self.batch.anchors.new_zeros(self.batch.num_anchors)
        totals: Gradients = [None] * 4
        for source in range(len(self.batch.sizes)):
            mine = source == distributed.rank()
            objective = replace(self.objective, counts_positive=mine)
            at = partial(_given, objective)
            run = _Run(self.batch.of(source), self.temperature, at, self.chunk_size)
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


def _given(objective: Sigmoid, _temperature: float | Tensor) -> Sigmoid:
    return objective
