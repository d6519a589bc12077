"""The blocked engine: a few anchors at a time, with gradients in closed form."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from bayescl._checks import check_count, is_eager_cpu
from bayescl._engine.reference import ObjectiveAt
from bayescl._engine.row_gradients import Chunk, RowGradients, row_losses
from bayescl._ops.similarity import candidate_logits
from bayescl._types import Float
from bayescl.batch import Batch, Rows

_CPU_LOGITS = 2**18
"""Number of logits per chunk on the CPU. They fit in the cache."""

_DEVICE_LOGITS = 2**25
"""Number of logits per chunk on other devices: enough work to fill a GPU."""

_FEWEST_ANCHORS = 128
"""Smallest number of anchors per chunk, so that matrix products stay efficient."""

_WORTH_THREADS = 2**21
"""Number of logits from which chunks are divided among threads."""

_MOST_WORKERS = 8
"""Largest number of threads. Each of them holds a gradient of all candidates."""


def default_chunk_size(batch: Batch) -> int:
    """Return the default number of anchors per chunk."""
    numbers = 0
    for block in batch.columns:
        shape = block.embeddings.shape
        numbers += shape[0] if len(shape) == 2 else shape[1] * shape[2]
    most = _CPU_LOGITS if batch.anchors.embeddings.is_cpu else _DEVICE_LOGITS
    return max(_FEWEST_ANCHORS, most // max(1, numbers))


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

    Args:
        batch: Anchors, positives, candidates and masks.
        temperature: Temperature of the softmax, positive.
        objective_at: Function that returns the objective at a temperature.
        shared_upstream: Whether every loss receives the same upstream gradient, as under a mean or
            a sum. Gradients are then computed in the forward pass. Otherwise the backward pass
            recomputes the logits.
        chunk_size: Number of anchors at a time, at least 1. Default: chosen for the device.

    Returns:
        One loss per pair.
    """
    if chunk_size is None:
        chunk_size = default_chunk_size(batch)
    else:
        check_count("chunk_size", chunk_size, 1)
    run = _Run(batch, temperature, objective_at, chunk_size)
    first, *others = batch.columns
    losses: Tensor = _BlockedLosses.apply(
        run,
        shared_upstream,
        batch.anchors.embeddings,
        batch.positives.embeddings,
        temperature,
        first.embeddings,
        *(block.embeddings for block in others),
    )
    return losses


class _BlockedLosses(torch.autograd.Function):
    """Autograd function of a run over the chunks. Its inputs are the tensors of the batch."""

    @staticmethod
    def forward(ctx: Any, run: _Run, shared_upstream: bool, *sources: Tensor | float) -> Tensor:
        wanted = ctx.needs_input_grad[2:]
        if not any(wanted):
            return run.losses()[0]
        ctx.shared_upstream = shared_upstream
        if shared_upstream:
            losses, gradients = run.losses(wanted)
            ctx.save_for_backward(*gradients)
            return losses
        ctx.run = run
        ctx.save_for_backward(*(source for source in sources if isinstance(source, Tensor)))
        return run.losses()[0]

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            if ctx.shared_upstream:
                share, saved = upstream[0], ctx.saved_tensors
                gradients = [None if part is None else part * share for part in saved]
            else:
                _ = ctx.saved_tensors  # raises if a tensor was overwritten
                gradients = ctx.run.losses(ctx.needs_input_grad[2:], upstream)[1]
        if torch.is_grad_enabled():
            gradients = [None if part is None else _differentiable_once(part) for part in gradients]
        return None, None, *gradients


def _differentiable_once(gradient: Tensor) -> Tensor:
    """Make a second differentiation of a gradient raise an error."""
    # torch's once_differentiable does not raise if the upstream gradient is a constant.
    marked = gradient.detach().requires_grad_()
    marked.register_hook(_refuse)
    return marked


def _refuse(_upstream: Tensor) -> None:
    raise RuntimeError(
        'this engine is differentiable once; use engine="reference" for a second backward'
    )


# Gradients by anchors, positives, temperature and each block of columns; None if not needed.
Gradients = list[Tensor | None]


@dataclass(frozen=True)
class _Run:
    """Computation of a batch's losses and gradients, chunk by chunk."""

    batch: Batch
    temperature: float | Tensor
    objective_at: ObjectiveAt
    chunk_size: int

    def losses(
        self, wanted: tuple[bool, ...] = (), upstream: Tensor | None = None
    ) -> tuple[Tensor, Gradients]:
        """Compute losses, and gradients of their sum weighted by ``upstream`` (default: ones).

        With two views, anchors, positives and candidates are the same rows. The gradients of all
        three are then added to the candidates.
        """
        batch = self.batch
        weight = batch.weight
        if weight is not None:
            upstream = weight if upstream is None else weight * upstream
        one_piece = batch.is_square and self.chunk_size >= len(batch.anchors.embeddings)
        if one_piece and batch.positive is not None:
            losses, gradients = self._in_one_piece(batch.positive, wanted, upstream)
        else:
            losses, gradients = self._in_chunks(wanted, upstream)
        return losses if weight is None else losses * weight, gradients

    def _in_chunks(
        self, wanted: tuple[bool, ...], upstream: Tensor | None
    ) -> tuple[Tensor, Gradients]:
        batch = self.batch
        anchors, pairs = batch.anchors.embeddings, batch.positives.embeddings
        sources = (anchors, pairs, self.temperature, *(x.embeddings for x in batch.columns))
        if batch.anchor_of is not None and batch.positive is not None and wanted:
            wanted = (wanted[0], False, *wanted[2:])
        total: Gradients = [
            torch.zeros_like(source) if want and isinstance(source, Tensor) else None
            for source, want in zip(sources, wanted or [False] * len(sources), strict=True)
        ]
        scaled, count = anchors / self.temperature, len(anchors)
        starts = range(0, count, self.chunk_size)
        pairs_of = _pairs_of_chunks(batch.anchor_of, count, starts)
        losses = scaled.new_empty(len(pairs))
        workers = _workers(batch, len(starts))
        # Each chunk writes its own rows of the first two gradients. All chunks add to the others,
        # so each worker has its own copy of these.
        totals = [total]
        for _ in range(workers - 1):
            zeros = (None if part is None else torch.zeros_like(part) for part in total[2:])
            totals.append([*total[:2], *zeros])

        def work(number: int) -> None:
            for place in range(number, len(starts), workers):
                start = starts[place]
                rows = slice(start, min(start + self.chunk_size, count))
                gradients = totals[number] if any(wanted) else None
                self._chunk(scaled[rows], rows, pairs_of[place], losses, gradients, upstream)

        _in_threads(work, workers)
        for other in totals[1:]:
            if total[2] is not None and other[2] is not None:
                _add_within_range(total[2], other[2])
            for part, added in zip(total[3:], other[3:], strict=True):
                if part is not None and added is not None:
                    part += added
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
        """Compute the losses of a few ``anchors``, which are already divided by the temperature.

        With the gradient G of the logits ``[a, n]``, the gradient by anchors is G C / t, and the
        gradient by candidates is G' A / t.
        """
        batch, temperature = self.batch, self.temperature
        tiles = [_logits(anchors, block, rows) for block in batch.columns]
        logits = tiles[0] if len(tiles) == 1 else torch.cat(tiles, dim=1)
        place = None if batch.anchor_of is None else batch.anchor_of[pairs] - rows.start
        among = None if place is None or batch.positive is None else (place, batch.positive[pairs])
        both: tuple[Tensor, Tensor] | None = None  # [p, d] each, if positives are not columns
        if among is not None:
            positive = logits[among]
        else:
            pair_anchors = anchors if place is None else anchors[place]
            both = pair_anchors, batch.positives.embeddings[pairs]
            positive = (both[0] * both[1]).sum(dim=1)
        grad_losses = None if upstream is None else upstream[pairs]
        how = (batch, rows, self.objective_at, temperature, positive, among is not None, place)
        losses[pairs], gradients = row_losses(Chunk(*how, logits, grad_losses, total is not None))
        if gradients is not None and total is not None:
            if among is not None:  # gradients by positives are part of the columns' gradients
                if gradients.factor is not None:
                    gradients.unlabeled.mul_(gradients.factor[:, None])
                gradients.unlabeled.index_put_(among, gradients.positive, accumulate=True)
                gradients = gradients._replace(factor=None)
            self._add(gradients, total, anchors, both, rows, pairs, place)

    def _add(
        self,
        gradients: RowGradients,
        total: Gradients,
        anchors: Tensor,
        both: tuple[Tensor, Tensor] | None,
        rows: slice,
        pairs: slice | Tensor,
        place: Tensor | None,
    ) -> None:
        """Add the gradients of a few anchors' losses by embeddings and temperature.

        ``both`` holds each pair's anchor and positive. It is ``None`` if positives are columns.
        """
        factor, temperature = gradients.factor, self.temperature
        grad_anchors, grad_positives, grad_temperature, *grad_columns = total
        widths = [len(block) for block in self.batch.columns]
        tiles = torch.split(gradients.unlabeled, widths, dim=1)
        if grad_anchors is not None or grad_temperature is not None:
            pull = torch.zeros_like(anchors)  # [a, d]: weighted sum of columns for each anchor
            for tile, block in zip(tiles, self.batch.columns, strict=True):
                if block.are_own:
                    pull += torch.einsum("an,and->ad", tile, block.embeddings[rows])
                else:
                    pull.addmm_(tile, block.embeddings)
            if factor is not None:
                pull *= factor[:, None]
            if both is not None and place is None:
                pull.addcmul_(gradients.positive[:, None], both[1])
            elif both is not None and place is not None:
                pull.index_add_(0, place, gradients.positive[:, None] * both[1])
            pull /= temperature
            if grad_anchors is not None:
                grad_anchors[rows] = pull
            if grad_temperature is not None:
                # Logits are s = a c / t, so the gradient by t is -sum(ds s) / t. Because
                # a ds/da = s, it follows from the gradient by the anchors.
                anchors_alone = self.batch.anchors.embeddings[rows]
                _add_within_range(grad_temperature, -(pull * anchors_alone).sum() / temperature)
                if gradients.temperature is not None:
                    _add_within_range(grad_temperature, gradients.temperature)
        if grad_positives is not None and both is not None:
            grad_positives[pairs] = gradients.positive[:, None] * both[0]
        if factor is not None:
            anchors = anchors * factor[:, None]
        for tile, block, grad_block in zip(tiles, self.batch.columns, grad_columns, strict=True):
            if grad_block is None:
                continue
            if block.are_own:
                torch.mul(tile[:, :, None], anchors[:, None], out=grad_block[rows])
            else:
                grad_block.addmm_(tile.T, anchors)

    def _in_one_piece(
        self, positive_of: Tensor, wanted: tuple[bool, ...], upstream: Tensor | None
    ) -> tuple[Tensor, Gradients]:
        """Compute two views in one chunk: the gradient by rows R is (G + G') R / t."""
        temperature, rows = self.temperature, self.batch.anchors.embeddings
        place = positive_of[:, None]
        logits = (rows / temperature) @ rows.T  # [n, n]
        positive = logits.gather(1, place).squeeze(1)
        whole = slice(0, len(rows))
        how = (self.batch, whole, self.objective_at, temperature, positive, True, None)
        losses, gradients = row_losses(Chunk(*how, logits, upstream, any(wanted)))
        if gradients is None:
            return losses, [None] * 4
        grad_logits, factor = gradients.unlabeled, gradients.factor
        if factor is not None:
            grad_logits *= factor[:, None]
        grad_logits.scatter_(1, place, gradients.positive[:, None])
        grad_logits += grad_logits.T.contiguous()
        grad_rows = grad_logits @ rows / temperature
        grad_temperature = None
        if wanted[2] and isinstance(temperature, Tensor):
            # Both rows of a product over the temperature receive the same share.
            grad_temperature = torch.zeros_like(temperature)
            _add_within_range(grad_temperature, (grad_rows * rows).sum() / (-2 * temperature))
            if gradients.temperature is not None:
                _add_within_range(grad_temperature, gradients.temperature)
        return losses, [None, None, grad_temperature, grad_rows if wanted[3] else None]


def _add_within_range(total: Float[Tensor, ""], added: Float[Tensor, ""]) -> None:
    """Add to a temperature's gradient and clamp it to finite numbers. NaN is kept.

    At tiny temperatures the gradient exceeds float32. With ``temperature=1 / scale``, infinity
    times 0 would give a gradient of NaN.
    """
    largest = torch.finfo(total.dtype).max
    total.add_(added.clamp(-largest, largest)).clamp_(-largest, largest)


def _logits(anchors: Tensor, block: Rows, rows: slice) -> Float[Tensor, "rows candidates"]:
    """Compute the logits of some anchors, already divided by the temperature, and a block."""
    columns = block.embeddings
    if not block.are_own:
        return anchors @ columns.T
    # Batched products may not be contiguous, but the result is written to in place.
    return candidate_logits(anchors, columns[rows], 1.0).contiguous()


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


def _workers(batch: Batch, chunks: int) -> int:
    """Return the number of threads for the chunks; 1 if torch's own threads are as fast."""
    if chunks == 1 or batch.num_anchors * batch.num_candidates < _WORTH_THREADS:
        return 1
    if not is_eager_cpu(batch.anchors.embeddings):
        return 1
    return max(1, min(torch.get_num_threads(), chunks, _MOST_WORKERS))


def _in_threads(work: Callable[[int], None], workers: int) -> None:
    """Call ``work(number)`` for each worker in its own thread, with a share of torch's threads.

    Unlike torch's threads inside an operation, workers do not synchronize. ``work`` must not use
    autograd.
    """
    if workers == 1:
        work(0)
        return
    threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()

    def in_thread(number: int) -> None:
        # Grad and inference modes are local to a thread, so they are set again.
        with torch.inference_mode() if inference else torch.no_grad():
            torch.set_num_threads(max(1, threads // workers))
            work(number)

    try:
        with ThreadPoolExecutor(workers) as pool:
            for done in [pool.submit(in_thread, number) for number in range(workers)]:
                done.result()
    finally:
        # Restore the default for threads that start later.
        torch.set_num_threads(threads)
