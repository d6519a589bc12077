"""The fused engine: Triton kernels that never hold the matrix of logits.

``launch`` makes them differentiable and gives them buffers and grids; ``tiles`` lists block sizes.
"""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version

import torch

from bayescl.axes import Float, PerAnchor, Tensor
from bayescl.checks import check_choice
from bayescl.engines.batch import ContrastiveBatch
from bayescl.engines.chunked import default_chunk_size
from bayescl.engines.dense import ObjectiveAt
from bayescl.engines.fused.tiles import MAXIMUM_DIM, MAXIMUM_KEYS, PRECISIONS, Precision
from bayescl.functional.histogram import check_bins
from bayescl.functional.objective import Objective, as_data
from bayescl.functional.similarity import pair_logits

__all__ = ["fused_loss", "fused_unavailable_reason", "fused_unsupported_reason"]

_OLDEST_TRITON = (3, 4)
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def fused_loss(
    batch: ContrastiveBatch,
    temperature: float | Float[Tensor, ""],
    objective_at: ObjectiveAt,
    *,
    bins: int | None = None,
    precision: Precision = "ieee",
) -> PerAnchor:
    r"""Compute one float32 loss per anchor on the GPU, in memory independent of the pairs.

    Logits are computed tile by tile and never stored. Losses built on unweighted sums, such as
    InfoNCE, are exact. The Bayesian weights take ranks from a histogram: the loss is within 1e-4 of
    :func:`dense_loss` and its gradient within 2e-3, or 1e-2 in tight clusters at temperature 0.1;
    more bins bring it closer. Beyond the embeddings, it needs ``8 * bins`` bytes per anchor while
    weights are computed, half of that until the backward pass, and one float32 gradient.

    Differentiable once with respect to anchors, positives, candidates and temperature; a second
    time raises a ``RuntimeError``. ``torch.func`` transforms are not supported.

    Nothing waits for the device, and calls repeat bit for bit.

    Args:
        batch: anchors, positives, candidates shared by all anchors, and which of them count, with
            up to 8 groups per row. Embeddings in float32, bfloat16 or float16; logits and sums are
            float32. In half precision, the softmax shares in the gradients are rounded to the
            embeddings' dtype.
        temperature: softmax scale, positive.
        objective_at: gives the objective at that temperature, a
            :class:`~bayescl.functional.LogSumObjective`.
        bins: histogram bins per row: 64, 128, 256, 512 or 1024; default: the objective's.
        precision: how float32 embeddings are multiplied. ``"ieee"`` is exact and runs on the scalar
            units; ``"tf32x3"`` runs on the matrix units in three parts and is nearly as exact;
            ``"tf32"`` uses 10-bit mantissas there and loses the ranks of close candidates.

    Raises:
        ValueError: if the batch or the objective is not supported; see
            :func:`fused_unsupported_reason`.
        RuntimeError: if Triton or a CUDA device is missing; see :func:`fused_unavailable_reason`.
    """
    check_choice("precision", precision, PRECISIONS)
    if bins is not None:
        check_bins(bins)
    objective = objective_at(temperature)
    if (reason := fused_unavailable_reason()) is not None:
        raise RuntimeError(f'engine="fused" cannot run: {reason}')
    data, reason = as_data(objective), fused_unsupported_reason(batch, objective)
    if data is None or reason is not None:
        raise ValueError(f'engine="fused" cannot compute this loss: {reason}')
    from bayescl.engines.fused.launch import FusedLogSumExp  # imports Triton

    if not isinstance(temperature, Tensor):
        temperature = torch.full((), temperature, device=batch.anchors.device)
    positive = pair_logits(batch.anchors.float(), batch.positives.float(), temperature)
    log_sums: list[Tensor] = []
    for power in data.powers:
        if power == 0:
            log_sums.append(_log_counts(batch))
            continue
        # e^(p s) at one temperature is e^s at another.
        scaled = temperature if power == 1 else temperature / power
        how = (batch.rule, precision, data, bins or data.bins)
        log_sums.append(FusedLogSumExp.apply(batch.anchors, batch.candidates, scaled, *how))
    losses = data.from_log_sums(positive, tuple(log_sums))
    bad = ~positive.detach().isfinite()
    for log_sum in log_sums:
        bad = bad | log_sum.detach().isnan() | log_sum.detach().isposinf()
    return losses * torch.where(bad, torch.nan, 1.0)


def _log_counts(batch: ContrastiveBatch) -> Float[Tensor, "#anchors"]:
    """Logs of the numbers of candidates, with the mask of a few anchors at a time if at all."""
    if batch.rule.valid is None and batch.rule.num_keys == 0:
        return batch.log_counts(slice(0, batch.num_anchors), torch.float32)
    step = default_chunk_size(batch)
    starts = range(0, batch.num_anchors, step)
    return torch.cat([batch.log_counts(slice(i, i + step), torch.float32) for i in starts])


def fused_unsupported_reason(batch: ContrastiveBatch, objective: Objective) -> str | None:
    """Reason why the fused engine cannot compute this where it runs, in one sentence; or None.

    Example:
        >>> from bayescl.engines import CandidateRule, ContrastiveBatch
        >>> from bayescl.functional import InfoNCE
        >>> rows = torch.eye(2, dtype=torch.float64)
        >>> fused_unsupported_reason(ContrastiveBatch(rows, rows, rows, CandidateRule()), InfoNCE())
        'embeddings must be float32, bfloat16 or float16, got torch.float64'
    """
    anchors, candidates = batch.anchors, batch.candidates
    if as_data(objective) is None:
        return f"it does not support the objective {type(objective).__name__}"
    if batch.knows_pairs:
        return "it does not support a posterior of pairs"
    if candidates.ndim != 2:
        return "candidates must be shared by all anchors, not each anchor's own"
    if anchors.dtype not in _DTYPES:
        return f"embeddings must be float32, bfloat16 or float16, got {anchors.dtype}"
    if candidates.dtype != anchors.dtype:
        return f"anchors and candidates differ in dtype: {anchors.dtype}, {candidates.dtype}"
    if candidates.device != anchors.device:
        return f"anchors and candidates differ in device: {anchors.device}, {candidates.device}"
    if anchors.device.type != ("cpu" if _interpreting() else "cuda"):
        return f"embeddings must be on a CUDA device, got {anchors.device}"
    if anchors.shape[1] > MAXIMUM_DIM:
        return f"embeddings must have at most {MAXIMUM_DIM} coordinates, got {anchors.shape[1]}"
    if batch.rule.num_keys > MAXIMUM_KEYS:
        return f"it supports up to {MAXIMUM_KEYS} groups per row, got {batch.rule.num_keys}"
    if 0 in anchors.shape or 0 in candidates.shape:
        return "anchors and candidates must not be empty"
    return None


def fused_unavailable_reason() -> str | None:
    """Reason why the fused engine cannot run here, in one sentence; or None.

    It needs Triton and a CUDA device of compute capability 8.0 or newer, or Triton's interpreter
    (``TRITON_INTERPRET=1`` in the environment before Triton is imported), which is slow and meant
    for tests.
    """
    try:
        installed = version("triton")
    except PackageNotFoundError:
        return "Triton is not installed (it comes with PyTorch's CUDA builds on Linux)"
    if tuple(int(part) for part in installed.split(".")[:2]) < _OLDEST_TRITON:
        return f"Triton must be at least {'.'.join(map(str, _OLDEST_TRITON))}, got {installed}"
    if _interpreting():
        return None
    if not torch.cuda.is_available():
        return "there is no CUDA device"
    capability = torch.cuda.get_device_capability()
    if capability < (8, 0):
        return f"the CUDA device must have compute capability 8.0 or newer, got {capability}"
    return None


def _interpreting() -> bool:
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")
