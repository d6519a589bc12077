"""The blocked engine: a few anchors at a time, with gradients in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter
from typing import Any

import torch
from torch import Tensor

from bayescl._checks import check_count, is_eager_cpu
from bayescl._engine.reference import ObjectiveAt
from bayescl._engine.row_gradients import Chunk, row_losses
from bayescl._ops.similarity import candidate_logits
from bayescl._types import Float
from bayescl.batch import Batch, OfTwoViews

_CPU_LOGITS = 2**18
"""Number of logits per chunk on the CPU. They fit in the cache."""

_DEVICE_LOGITS = 2**25
"""Number of logits per chunk on other devices: enough work to fill a GPU."""

_FEWEST_ANCHORS = 128
"""Smallest number of anchors per chunk, so that matrix products stay efficient."""


def blocked_losses(
    batch: Batch,
    temperature: float | Float[Tensor, ""],
    objective_at: ObjectiveAt,
    *,
    shared_upstream: bool = False,
    chunk_size: int | None = None,
) -> Float[Tensor, " pairs"]:
    """Compute one loss per pair, with the logits of only a few anchors in memory.

    The result is exact: values and gradients equal the reference up to rounding. Logits, ranks and
    sums of an anchor are computed once for all of its pairs. Memory grows with
    ``chunk_size x candidates`` plus the size of the embeddings. Gradients are computed only for
    inputs that need them.

    The result can be differentiated once. A second backward pass and ``torch.func`` transforms
    raise an error: use the reference engine for them.

    With ``shared_upstream``, every loss receives the same upstream gradient, as under a mean or a
    sum. Gradients are then computed in the forward pass. Otherwise the backward pass recomputes the
    logits. ``chunk_size`` is the number of anchors at a time. Default: chosen for the device.
    """
    if chunk_size is not None:
        check_count("chunk_size", chunk_size, 1)
    else:
        numbers = 0  # per anchor
        for block in batch.columns:
            shape = block.embeddings.shape
            numbers += shape[0] if len(shape) == 2 else shape[1] * shape[2]
        most = _CPU_LOGITS if batch.anchors.embeddings.is_cpu else _DEVICE_LOGITS
        chunk_size = max(_FEWEST_ANCHORS, most // max(1, numbers))
    run = _Run(batch, temperature, objective_at, chunk_size)
    losses: Tensor = _BlockedLosses.apply(run, shared_upstream, *run.sources)
    return losses


class _BlockedLosses(torch.autograd.Function):
    """Autograd function of a run over the chunks. Its inputs are the tensors of the batch."""

    @staticmethod
    def forward(
        ctx: Any, run: _Run, shared_upstream: bool, *sources: Tensor | float | None
    ) -> Tensor:
        wanted = ctx.needs_input_grad[2:]
        if not any(wanted):
            return run.losses()[0]
        ctx.run = run
        if shared_upstream:
            losses, ctx.gradients = run.losses(wanted)
            return losses
        ctx.gradients = None
        ctx.save_for_backward(*(source for source in sources if isinstance(source, Tensor)))
        return run.losses()[0]

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            if ctx.gradients is not None:
                share = upstream[0]
                gradients = [None if part is None else part * share for part in ctx.gradients]
            else:
                if "Batched" in str(torch._C._dispatch_keys(upstream)):
                    raise RuntimeError(f"this engine cannot compute batched gradients; {_ADVICE}")
                _ = ctx.saved_tensors  # raises if a tensor was overwritten
                gradients = ctx.run.losses(ctx.needs_input_grad[2:], upstream)[1]
        if torch.is_grad_enabled():
            inputs = [upstream, *(it for it in ctx.run.sources if isinstance(it, Tensor))]
            gradients = [it if it is None else differentiable_once(it, *inputs) for it in gradients]
        return None, None, *gradients

    @staticmethod
    def jvp(_ctx: Any, *_tangents: Any) -> Tensor:
        raise RuntimeError(f"this engine has no forward-mode derivatives; {_ADVICE}")


_ADVICE = 'use engine="reference"'


class _Once(torch.autograd.Function):
    """Return a gradient that depends on all inputs of the loss and cannot be differentiated.

    torch's ``once_differentiable`` does not raise if the upstream gradient is a constant.
    """

    @staticmethod
    def forward(_ctx: Any, gradient: Tensor, *_inputs: Tensor) -> Tensor:
        return gradient.view_as(gradient)

    @staticmethod
    def backward(_ctx: Any, *_upstream: Tensor) -> None:
        raise RuntimeError(f"this engine has no second derivatives; {_ADVICE}")


def differentiable_once(gradient: Tensor, *inputs: Tensor) -> Tensor:
    """Return a gradient that raises an error if differentiated by an input of the loss."""
    result: Tensor = _Once.apply(gradient, *inputs)
    return result


# Gradients by anchors, positives, temperature and each block of columns; None if not needed.
Gradients = list[Tensor | None]


@dataclass(frozen=True)
class _Run:
    """Computation of a batch's losses and gradients, chunk by chunk."""

    batch: Batch
    temperature: float | Tensor
    objective_at: ObjectiveAt
    chunk_size: int

    @property
    def sources(self) -> tuple[Tensor | float | None, ...]:
        """Anchors, positives, temperature and each block of columns, as in :data:`Gradients`.

        Positives are ``None`` if they are rows of the first block.
        """
        batch = self.batch
        positives = None if batch.positive is not None else batch.pair_positives.embeddings
        columns = map(attrgetter("embeddings"), batch.columns)
        return (batch.anchors.embeddings, positives, self.temperature, *columns)

    def losses(
        self, wanted: tuple[bool, ...] = (), upstream: Tensor | None = None
    ) -> tuple[Tensor, Gradients]:
        """Compute losses, and gradients of their sum weighted by ``upstream`` (default: ones).

        With two views, anchors, positives and candidates are the same rows. The candidates
        then receive the sum of all three gradients.
        """
        batch = self.batch
        weight = batch.weight
        if weight is not None:
            upstream = weight if upstream is None else weight * upstream
        # Two views: the anchors are the only columns and have one positive each.
        is_alone = batch.columns[0] is batch.anchors and len(batch.columns) == 1
        is_whole = is_alone and self.chunk_size >= len(batch.anchors.embeddings)
        if is_whole and batch.anchor_of is None and batch.positive is not None:
            losses, gradients = self._in_one_piece(batch.positive, wanted, upstream)
        else:
            losses, gradients = self._in_chunks(wanted, upstream)
        return losses if weight is None else losses * weight, gradients

    def _in_chunks(
        self, wanted: tuple[bool, ...], upstream: Tensor | None
    ) -> tuple[Tensor, Gradients]:
        batch, sources = self.batch, self.sources
        anchors = batch.anchors.embeddings
        total: Gradients = [
            torch.zeros_like(source) if want and isinstance(source, Tensor) else None
            for source, want in zip(sources, wanted or [False] * len(sources), strict=True)
        ]
        scaled, count = anchors / self.temperature, len(anchors)
        starts = range(0, count, self.chunk_size)
        pairs_of = _pairs_of_chunks(batch.anchor_of, count, starts)
        losses = scaled.new_empty(batch.num_pairs)
        for start, pairs_here in zip(starts, pairs_of, strict=True):
            rows = slice(start, min(start + self.chunk_size, count))
            gradients = total if any(wanted) else None
            self._chunk(scaled[rows], rows, pairs_here, losses, gradients, upstream)
        return losses, total

    def _chunk(
        self,
        anchors: Tensor,
        rows: slice,
        pairs: slice | Tensor,
        losses: Tensor,
        total: Gradients | None,
        upstream: Tensor | None,
    ) -> None:
        """Compute losses and gradients of a few ``anchors``, already divided by the temperature.

        With the gradient G of the logits ``[a, n]``, the gradient by anchors is G C / t, and the
        gradient by candidates is G' A / t.
        """
        batch, temperature = self.batch, self.temperature
        tiles = []
        for block in batch.columns:
            columns = block.embeddings[rows] if block.are_own else block.embeddings
            tiles.append(candidate_logits(anchors, columns, 1.0))
        # Batched products may not be contiguous, but the result is written to in place.
        logits = tiles[0].contiguous() if len(tiles) == 1 else torch.cat(tiles, dim=1)
        place = None if batch.anchor_of is None else batch.anchor_of[pairs] - rows.start
        entry: Tensor | None = None  # of each positive in the matrix of logits, if it is a column
        both: tuple[Tensor, Tensor] | None = None  # [p, d] each, if positives are not columns
        if batch.positive is not None:
            owner = torch.arange(len(anchors), device=anchors.device) if place is None else place
            entry = owner * logits.shape[1] + batch.positive[pairs]
            positive = logits.view(-1)[entry]
        else:
            pair_anchors = anchors if place is None else anchors[place]
            both = pair_anchors, batch.pair_positives.embeddings[pairs]
            positive = (both[0] * both[1]).sum(dim=1)
        grad_losses = None if upstream is None else upstream[pairs]
        how = (batch, rows, self.objective_at, temperature, positive, entry is not None, place)
        losses[pairs], gradients = row_losses(Chunk(*how, logits, grad_losses, total is not None))
        if gradients is None or total is None:
            return
        grad_logits, pull = gradients.unlabeled.contiguous(), gradients.pull
        if gradients.factor is not None:
            grad_logits *= gradients.factor[:, None]
        if entry is not None:  # gradients by positives are part of the columns' gradients
            grad_logits.view(-1).index_add_(0, entry, pull, alpha=-1)
        grad_anchors, grad_positives, grad_temperature, *grad_columns = total
        parts = torch.split(grad_logits, [len(block) for block in batch.columns], dim=1)
        if grad_anchors is not None or grad_temperature is not None:
            toward = torch.zeros_like(anchors)  # [a, d]: weighted sum of columns for each anchor
            for part, block in zip(parts, batch.columns, strict=True):
                if block.are_own:
                    toward += torch.einsum("an,and->ad", part, block.embeddings[rows])
                else:
                    toward.addmm_(part, block.embeddings)
            if both is not None and place is None:
                toward.addcmul_(pull[:, None], both[1], value=-1)
            elif both is not None and place is not None:
                toward.index_add_(0, place, pull[:, None] * both[1], alpha=-1)
            toward /= temperature
            if grad_anchors is not None:
                grad_anchors[rows] = toward
            if grad_temperature is not None:
                # Logits are s = a c / t, so the gradient by t is -sum(ds s) / t. Because
                # a ds/da = s, it follows from the gradient by the anchors.
                unscaled = batch.anchors.embeddings[rows]
                _add_within_range(grad_temperature, -(toward * unscaled).sum() / temperature)
                if gradients.temperature is not None:
                    _add_within_range(grad_temperature, gradients.temperature)
        if grad_positives is not None and both is not None:
            grad_positives[pairs] = -pull[:, None] * both[0]
        for part, block, grad_block in zip(parts, batch.columns, grad_columns, strict=True):
            if grad_block is None:
                continue
            if block.are_own:
                torch.mul(part[:, :, None], anchors[:, None], out=grad_block[rows])
            else:
                grad_block.addmm_(part.T, anchors)

    def _in_one_piece(
        self, positive_of: Tensor, wanted: tuple[bool, ...], upstream: Tensor | None
    ) -> tuple[Tensor, Gradients]:
        """Compute two views in one chunk: the gradient by rows R is (G + G') R / t.

        In small batches the number of operations determines the time, so strided slices replace
        indices if only rows and their partners are excluded.
        """
        batch, temperature, rows = self.batch, self.temperature, self.batch.anchors.embeddings
        if isinstance(temperature, Tensor):
            logits = (rows / temperature) @ rows.T  # [n, n]
        else:
            logits = _products(rows, rows.T, temperature)
        whole = slice(0, len(rows))
        excluded: OfTwoViews | None = None
        if batch.needs_mask or batch.layout != "two_views":
            positive = logits.gather(1, positive_of[:, None]).squeeze(1)
        else:
            excluded = OfTwoViews()
            positive = excluded.partners(logits).flatten()
        how = (batch, whole, self.objective_at, temperature, positive, True, None, logits, upstream)
        chunk = Chunk(*how, any(wanted), excluded=excluded)
        reach = None if excluded is None else chunk.reach
        if reach is not None:
            chunk = chunk._replace(bounds=(-reach, reach))
        losses, gradients = row_losses(chunk)
        if gradients is None:
            return losses, [None] * 4
        grad_logits, factor = gradients.unlabeled, gradients.factor
        if factor is not None:
            grad_logits *= factor[:, None]
        if excluded is not None:
            torch.neg(gradients.pull.view(2, -1), out=excluded.partners(grad_logits))
        else:
            grad_logits.scatter_(1, positive_of[:, None], -gradients.pull[:, None])
        if is_eager_cpu(grad_logits):  # reading columns is slow
            grad_logits += grad_logits.T.contiguous()
        else:
            grad_logits = grad_logits + grad_logits.T
        grad_rows = _products(grad_logits, rows, temperature)
        grad_temperature = None
        if wanted[2] and isinstance(temperature, Tensor):
            # Both rows of a product over the temperature receive the same share.
            grad_temperature = torch.zeros_like(temperature)
            _add_within_range(grad_temperature, (grad_rows * rows).sum() / (-2 * temperature))
            if gradients.temperature is not None:
                _add_within_range(grad_temperature, gradients.temperature)
        return losses, [None, None, grad_temperature, grad_rows if wanted[3] else None]


def _products(left: Tensor, right: Tensor, temperature: float | Tensor) -> Tensor:
    """Compute a product of matrices divided by the temperature, in one operation if possible."""
    if isinstance(temperature, Tensor):
        return left @ right / temperature
    unused = left.new_empty(())
    return torch.addmm(unused, left, right, beta=0, alpha=1 / temperature)


def _add_within_range(total: Float[Tensor, ""], added: Float[Tensor, ""]) -> None:
    """Add to a temperature's gradient and clamp it to finite numbers. NaN is kept.

    At tiny temperatures the gradient exceeds float32. With ``temperature=1 / scale``, infinity
    times 0 would give a gradient of NaN.
    """
    largest = torch.finfo(total.dtype).max
    total.add_(added.clamp(-largest, largest)).clamp_(-largest, largest)


def _pairs_of_chunks(anchor_of: Tensor | None, anchors: int, starts: range) -> list[slice | Tensor]:
    """Return the pairs of each chunk of anchors."""
    ends = [*starts[1:], anchors]
    chunks = list(zip(starts, ends, strict=True))
    if anchor_of is None:
        return [slice(start, end) for start, end in chunks]
    if len(chunks) == 1:
        return [slice(0, len(anchor_of))]
    order = anchor_of.argsort(stable=True)
    bounds = torch.tensor([*starts, anchors], device=anchor_of.device)
    places = torch.searchsorted(anchor_of[order], bounds).tolist()
    return [order[start:end] for start, end in pairwise(places)]
