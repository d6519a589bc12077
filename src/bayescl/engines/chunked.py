"""The exact engine for large batches: a few anchors at a time, gradients in the forward pass."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from bayescl.axes import Float, PerAnchor
from bayescl.checks import check_count
from bayescl.engines._exponentials import LOG2_E, Sums, add_log_weights
from bayescl.engines._rows import Chunk, Result, losses_from_sums, row_losses
from bayescl.engines.batch import ContrastiveBatch
from bayescl.engines.dense import ObjectiveAt
from bayescl.functional.objective import as_data
from bayescl.functional.similarity import candidate_logits
from bayescl.functional.sorting import is_eager_cpu

_CPU_LOGITS = 2**18  # per chunk, unless that leaves too few anchors for a matrix product
_DEVICE_LOGITS = 2**25  # per chunk elsewhere: enough work to fill a GPU
_WORTH_THREADS = 2**21  # logits from which chunks are divided among threads
_MOST_WORKERS = 8  # each holds a gradient of all candidates
_LARGEST_POWER = 60.0  # powers of 2 up to it need no scaling: float32 ends far from their sums


def default_chunk_size(batch: ContrastiveBatch) -> int:
    """Default number of anchors per chunk."""
    numbers = batch.num_candidates
    if batch.candidates.ndim == 3:
        numbers *= batch.candidates.shape[-1]
    most = _CPU_LOGITS if batch.anchors.is_cpu else _DEVICE_LOGITS
    return max(128, most // max(1, numbers))


def chunked_loss(
    batch: ContrastiveBatch,
    temperature: float | Float[Tensor, ""],
    objective_at: ObjectiveAt,
    *,
    uniform: bool = False,
    chunk_size: int | None = None,
) -> PerAnchor:
    """Compute one loss per anchor without ever holding the full matrix of logits.

    Exact: value and gradient equal those of :func:`~bayescl.engines.dense_loss` up to rounding.
    Memory grows with ``chunk_size x candidates`` plus the size of the embeddings. Nothing is
    computed for inputs that need no gradient, and nothing waits for the device.

    Differentiable once: a second backward pass and ``torch.func`` transforms raise. Use the dense
    engine for both; ``engine="auto"`` chooses it under transforms.

    Args:
        batch: anchors, positives, candidates and which of them count.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature.
        uniform: a promise that every loss will receive the same upstream gradient, as under a mean
            or a sum. Gradients are then computed in the forward pass, while the logits are at hand;
            otherwise the backward pass recomputes the logits.
        chunk_size: anchors at a time, at least 1; default: chosen for the device.
    """
    return Run(batch, temperature, objective_at, chunk_size).differentiable(uniform)


class _ChunkedLoss(torch.autograd.Function):
    """A run over the chunks as a node of autograd, which sees the tensors of its batch."""

    @staticmethod
    def forward(
        ctx: Any,
        anchors: Tensor,
        positives: Tensor,
        candidates: Tensor,
        temperature: float | Tensor,
        run: Run,
        uniform: bool,
    ) -> Tensor:
        wanted = ctx.needs_input_grad[:4]
        if not any(wanted):
            return run.losses()[0]
        ctx.uniform = uniform
        if uniform:
            losses, gradients = run.losses(wanted)
            ctx.save_for_backward(*gradients)
            return losses
        ctx.run = run
        kept = (temperature,) if isinstance(temperature, Tensor) else ()
        ctx.save_for_backward(anchors, positives, candidates, *kept)
        return run.losses()[0]

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor | None, ...]:
        with torch.no_grad():
            if ctx.uniform:
                share, saved = upstream[0], ctx.saved_tensors
                gradients = [None if part is None else part * share for part in saved]
            else:
                _ = ctx.saved_tensors  # raises if one was overwritten since
                gradients = ctx.run.losses(ctx.needs_input_grad[:4], upstream)[1]
        if torch.is_grad_enabled():
            gradients = [None if part is None else _differentiable_once(part) for part in gradients]
        return *gradients, None, None


def _differentiable_once(gradient: Tensor) -> Tensor:
    """Mark the result of a backward pass so that differentiating it raises an error."""
    # torch's once_differentiable does not raise if the upstream gradient is a constant.
    marked = gradient.detach().requires_grad_()
    marked.register_hook(_refuse)
    return marked


def _refuse(_upstream: Tensor) -> None:
    raise RuntimeError(
        'this engine is differentiable once; use engine="dense" for a second backward'
    )


# Of anchors, positives, candidates and temperature; None for what is not wanted.
Gradients = list[Tensor | None]


class Run:
    """A run over the chunks of a batch, whenever its losses or gradients are needed."""

    def __init__(
        self,
        batch: ContrastiveBatch,
        temperature: float | Tensor,
        objective_at: ObjectiveAt,
        chunk_size: int | None,
    ) -> None:
        self.batch, self.temperature, self.objective_at = batch, temperature, objective_at
        size = default_chunk_size(batch) if chunk_size is None else chunk_size
        self.chunk_size = check_count("chunk_size", size, 1)

    def differentiable(self, uniform: bool) -> PerAnchor:
        """The losses as a node of autograd; see :func:`chunked_loss` for ``uniform``."""
        batch = self.batch
        tensors = (batch.anchors, batch.positives, batch.candidates)
        losses: Tensor = _ChunkedLoss.apply(*tensors, self.temperature, self, uniform)
        return losses

    def losses(
        self, wanted: tuple[bool, ...] = (False,) * 4, upstream: Tensor | None = None
    ) -> tuple[Tensor, Gradients]:
        """Losses, and the wanted gradients of their sum weighted by ``upstream`` (default: ones).

        Two views in one chunk are the same rows three times: the candidates receive the gradients
        of all three.
        """
        batch, place = self.batch, self.batch.rule.positive
        whole = batch.candidates is batch.anchors and self.chunk_size >= batch.num_anchors
        if whole and place is not None:
            return _in_one_piece(self, place[:, None], wanted, upstream)
        sources = (batch.anchors, batch.positives, batch.candidates, self.temperature)
        total: Gradients = [
            torch.zeros_like(source) if want and isinstance(source, Tensor) else None
            for source, want in zip(sources, wanted, strict=True)
        ]
        scaled = batch.anchors / self.temperature
        starts = range(0, batch.num_anchors, self.chunk_size)
        workers = _workers(batch, len(starts))
        # A chunk fills its own rows of the first two gradients, but adds to the last two: each
        # worker has its own copy of these.
        totals = [total]
        for _ in range(workers - 1):
            zeros = (None if part is None else torch.zeros_like(part) for part in total[2:])
            totals.append([*total[:2], *zeros])
        losses: list[Tensor] = [scaled] * len(starts)

        def work(number: int) -> None:
            for place in range(number, len(starts), workers):
                start = starts[place]
                rows = slice(start, min(start + self.chunk_size, batch.num_anchors))
                gradients = totals[number] if any(wanted) else None
                of_losses = None if upstream is None else upstream[rows]
                losses[place] = _chunk(self, scaled[rows], rows, gradients, of_losses)

        _in_threads(work, workers)
        for other in totals[1:]:
            for part, added in zip(total[2:], other[2:], strict=True):
                if part is not None and added is not None:
                    part += added
        together = losses[0] if len(losses) == 1 else torch.cat([scaled[:0, 0], *losses])
        return together, total


def _chunk(
    run: Run, anchors: Tensor, rows: slice, total: Gradients | None, upstream: Tensor | None
) -> Tensor:
    """Losses of a few ``anchors``, already divided by the temperature; adds to the gradients.

    With G the gradient of the logits ``[a, n]``, anchors receive G C / t, candidates G' A / t.
    """
    batch, temperature = run.batch, run.temperature
    positives, columns = batch.positives[rows], batch.columns(rows)  # [a, d]; [n, d] or [a, n, d]
    if columns.ndim == 2:
        logits = anchors @ columns.T
    else:
        # A product for each anchor may lie otherwise, and places in it are written to.
        logits = candidate_logits(anchors, columns, 1.0).contiguous()
    positive = (anchors * positives).sum(dim=1)
    how = (batch, rows, run.objective_at, temperature)
    losses, gradients = row_losses(Chunk(*how, positive, logits, upstream, total is not None))
    if gradients is None or total is None:
        return losses
    of_logits, factor = gradients.unlabeled, gradients.factor
    of_anchors, of_positives, of_candidates, of_temperature = total
    if of_anchors is not None or of_temperature is not None:
        # [a, d]: sum of columns, weighted for each anchor
        if columns.ndim == 2:
            pull = of_logits @ columns
        else:
            pull = torch.einsum("an,and->ad", of_logits, columns)
        if factor is not None:
            pull *= factor[:, None]
        pull.addcmul_(gradients.positive[:, None], positives)
        pull /= temperature
        if of_anchors is not None:
            of_anchors[rows] = pull
        if of_temperature is not None:
            # Logits are s = a c / t, so t receives -sum(ds s) / t, and a ds/da = s: the
            # temperature's gradient is read off the anchor's.
            of_temperature -= (pull * anchors).sum()
            if gradients.temperature is not None:
                of_temperature += gradients.temperature
    if of_positives is not None:
        torch.mul(gradients.positive[:, None], anchors, out=of_positives[rows])
    if of_candidates is not None:
        if factor is not None:
            anchors = anchors * factor[:, None]
        if columns.ndim == 2:
            of_candidates.addmm_(of_logits.T, anchors)
        else:
            torch.mul(of_logits[:, :, None], anchors[:, None], out=of_candidates[rows])
    return losses


def _in_one_piece(
    run: Run, place: Tensor, wanted: tuple[bool, ...], upstream: Tensor | None
) -> tuple[Tensor, Gradients]:
    """The result of a run over two views in one chunk: rows R receive (G + G') R / t.

    ``place`` holds the column of each anchor's positive, ``[n, 1]``.
    """
    batch, temperature, rows = run.batch, run.temperature, run.batch.candidates
    quick = result = _quick_row_losses(run, upstream, differentiate=any(wanted))
    if result is None:
        logits = (rows / temperature) @ rows.T  # [n, n]
        positive = logits.gather(1, place).squeeze(1)
        how = (batch, slice(0, batch.num_anchors), run.objective_at, temperature)
        result = row_losses(Chunk(*how, positive, logits, upstream, any(wanted)))
    losses, gradients = result
    if gradients is None:
        return losses, [None] * 4
    of_logits, factor = gradients.unlabeled, gradients.factor
    if factor is not None:
        of_logits *= factor[:, None]
    if quick is not None:  # NumPy starts sooner
        places = batch.rule.positive_places(batch.num_anchors)
        of_logits.numpy().reshape(-1)[places] = gradients.positive.numpy()
    else:
        of_logits.scatter_(1, place, gradients.positive[:, None])
    of_logits += of_logits.T.contiguous()
    of_rows = _product_over(temperature, of_logits, rows)
    of_temperature = None
    if wanted[3]:
        # Logits are products of rows over the temperature, and either row received its share.
        of_temperature = (of_rows * rows).sum() / (-2 * temperature)
        if gradients.temperature is not None:
            of_temperature += gradients.temperature
    return losses, [None, None, of_rows if wanted[2] else None, of_temperature]


def _quick_row_losses(run: Run, upstream: Tensor | None, *, differentiate: bool) -> Result | None:
    """:func:`row_losses` of two views in fewer passes; None if that is not possible.

    No pass looks for each row's largest logit, so no logit may be large.
    """
    batch, temperature, rows = run.batch, run.temperature, run.batch.candidates
    data = as_data(run.objective_at(temperature))
    if data is None or batch.knows_pairs or not is_eager_cpu(rows):
        return None
    powers = [power for power in data.powers if power != 0]
    if data.ranks == "histogram" or (data.ranks is not None and powers != [1]) or not powers:
        return None
    scale = temperature.item() if isinstance(temperature, Tensor) else temperature
    logits = _product_over(scale / LOG2_E, rows, rows.T)  # [n, n], as powers of 2
    low, high = (bound.item() * max(powers) for bound in logits.aminmax())
    if not (low >= -_LARGEST_POWER and high <= _LARGEST_POWER):  # never with NaN
        return None
    whole, flat = slice(0, batch.num_anchors), logits.numpy().reshape(-1)
    excluded, places = batch.excluded(whole), batch.rule.positive_places(whole.stop)
    positive = torch.from_numpy(flat[places]).mul_(1 / LOG2_E)
    if data.ranks is None:
        flat[excluded.places(whole.stop)] = -np.inf
    else:
        add_log_weights(data, logits, excluded, unit=LOG2_E, bounds=(low, high))
    others = [(logits * power).exp2_() for power in powers[1:]]
    first = (logits if powers[0] == 1 else logits.mul_(powers[0])).exp2_()
    sums = [Sums(terms, total := terms.sum(dim=1), total.log()) for terms in [first, *others]]
    how = (batch, whole, run.objective_at, temperature, positive, logits, upstream, differentiate)
    return losses_from_sums(data, Chunk(*how), sums)


def _product_over(divisor: float | Tensor, left: Tensor, right: Tensor) -> Tensor:
    """``left @ right / divisor``, in one operation if the divisor is a number."""
    if isinstance(divisor, Tensor):
        return (left @ right).div_(divisor)
    return torch.addmm(left.new_empty(1), left, right, beta=0, alpha=1 / divisor)


def _workers(batch: ContrastiveBatch, chunks: int) -> int:
    """Number of threads to divide chunks among; 1 if torch's own threads do as well."""
    if not is_eager_cpu(batch.anchors) or batch.num_anchors * batch.num_candidates < _WORTH_THREADS:
        return 1
    return max(1, min(torch.get_num_threads(), chunks, _MOST_WORKERS))


def _in_threads(work: Callable[[int], None], workers: int) -> None:
    """Call ``work`` with 0, 1, ... ``workers - 1``, each in a thread with its share of torch's.

    Within an operation, torch's threads wait for one another; these never do. No autograd inside.
    """
    if workers == 1:
        work(0)
        return
    threads, inference = torch.get_num_threads(), torch.is_inference_mode_enabled()

    def in_thread(number: int) -> None:
        # Modes belong to threads: a new one has neither of the caller's.
        with torch.inference_mode() if inference else torch.no_grad():
            torch.set_num_threads(max(1, threads // workers))
            work(number)

    try:
        with ThreadPoolExecutor(workers) as pool:
            for done in [pool.submit(in_thread, number) for number in range(workers)]:
                done.result()
    finally:
        # The workers changed the number that later threads start with.
        torch.set_num_threads(threads)
