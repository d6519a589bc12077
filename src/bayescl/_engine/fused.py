"""The fused engine: Triton kernels that never write a matrix of logits. Not yet run on a GPU.

Notation: n anchors a_i, m columns c_j, both of length 1 and dimension d; logits s_ij = a_i c_j / t.
The kernels compute, for each anchor and each power p of the objective,

    L_p(i) = log sum_j e^(p s_ij + w_ij),     over the columns j that are candidates of anchor i,

where w_ij is the logarithm of the weight by rank (0 without ranks). The objective maps these n
numbers per power to losses with plain torch operations, and autograd differentiates them. With
g_p(i), the gradient by L_p(i), the gradients by the embeddings are

    G_ij = sum_p g_p(i) p e^(p s_ij + w_ij - L_p(i)),    dA = G C / t,    dC = G' A / t.

Each kernel is one program per block of BM rows, held in registers. It loops over the other side in
blocks of BN rows, multiplies the two blocks (`tl.dot`) into a tile [BM, BN] of cosines, and reduces
the tile at once. A tile is never written to memory, so memory grows with (n + m) d.

- `_histogram`: counts the cosines of each row in BINS bins. Ranks, and with them weights, are a
  cumulative sum over the bins of a row (`[n, BINS]`, in torch).
- `_log_sums`: L_p and the number of candidates. As in flash attention, each row keeps its largest
  exponent so far, and the sum is scaled when a larger one comes.
- `_gradient`: recomputes the tile, makes G of it, and adds its product with the other side. The
  rows are anchors for dA, and columns for dC (`ROWS_ARE_ANCHORS`).

`_is_candidate` is shared: a column is a candidate unless it is the anchor itself or its positive
(`OWN`, `POSITIVE`: column of each anchor, -1 for none), has the anchor's group, or another domain.
Groups and domains are one integer per row; -1 is in no group, and in every domain.

Limits: rows are read whole, so the dimension is at most 256; block sizes are not tuned. Precision
of the products is "ieee" (float32) everywhere, which does not use tensor cores.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import Tensor

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError(
        f'engine="fused" needs Triton ({error}), which comes with PyTorch for CUDA on Linux; '
        'elsewhere, use engine="auto"'
    ) from error

from bayescl._engine.blocked import differentiable_once
from bayescl._engine.reference import ObjectiveAt
from bayescl._ops.objective import LogSumObjective
from bayescl._ops.ranks import BINS
from bayescl.batch import Batch

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_BLOCK = 16 if IS_INTERPRETED else 64
_WIDEST = 256


@triton.jit
def _is_candidate(
    i,
    j,
    n,
    m,
    OWN,
    POSITIVE,
    GROUPS,
    COLUMN_GROUPS,
    DOMAINS,
    COLUMN_DOMAINS,
    HAS_GROUPS: tl.constexpr,
    HAS_DOMAINS: tl.constexpr,
):
    """Return whether column j is a candidate of anchor i, for indices that broadcast to a tile."""
    inside = (i < n) & (j < m)
    own = tl.load(OWN + i, mask=i < n, other=-1)
    positive = tl.load(POSITIVE + i, mask=i < n, other=-1)
    ok = inside & (j != own) & (j != positive)
    if HAS_GROUPS:
        mine = tl.load(GROUPS + i, mask=i < n, other=-1)
        theirs = tl.load(COLUMN_GROUPS + j, mask=j < m, other=-1)
        ok = ok & ((mine != theirs) | (mine == -1))
    if HAS_DOMAINS:
        mine = tl.load(DOMAINS + i, mask=i < n, other=-1)
        theirs = tl.load(COLUMN_DOMAINS + j, mask=j < m, other=-1)
        ok = ok & ((mine == theirs) | (mine == -1) | (theirs == -1))
    return ok


@triton.jit
def _rows(X, r, count, d, D: tl.constexpr):
    """Load rows r of X [count, d], padded with zeros to D coordinates."""
    k = tl.arange(0, D)
    inside = (r < count)[:, None] & (k < d)[None, :]
    return tl.load(X + r[:, None] * d + k[None, :], mask=inside, other=0.0)


@triton.jit
def _bin(cosines, K):
    """Return the bin of each cosine, from 0 to K - 1."""
    return tl.minimum(tl.maximum((cosines + 1.0) * 0.5 * K, 0.0), K - 1.0).to(tl.int32)


@triton.jit
def _histogram(
    A,
    C,
    COUNTS,
    KEYS,
    n,
    m,
    d,
    K,
    HAS_GROUPS: tl.constexpr,
    HAS_DOMAINS: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    a = _rows(A, i, n, d, D)
    for start in range(0, m, BN):
        j = start + tl.arange(0, BN)
        s = tl.dot(a, tl.trans(_rows(C, j, m, d, D)), input_precision="ieee")
        ok = _is_candidate(
            i[:, None],
            j[None, :],
            n,
            m,
            KEYS[0],
            KEYS[1],
            KEYS[2],
            KEYS[3],
            KEYS[4],
            KEYS[5],
            HAS_GROUPS,
            HAS_DOMAINS,
        )
        one = tl.full([BM, BN], 1, tl.int32)
        tl.atomic_add(COUNTS + i[:, None] * K + _bin(s, K), one, mask=ok)


@triton.jit
def _log_sums(
    A,
    C,
    W,
    L,
    NUMBER,
    KEYS,
    n,
    m,
    d,
    K,
    scale,
    P0: tl.constexpr,
    P1: tl.constexpr,
    HAS_RANKS: tl.constexpr,
    HAS_GROUPS: tl.constexpr,
    HAS_DOMAINS: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    a = _rows(A, i, n, d, D)
    number = tl.zeros([BM], tl.float32)
    top = tl.full([BM], -1e30, tl.float32)  # largest logit so far
    sum_0 = tl.zeros([BM], tl.float32)  # sums of e^(p (s - top) + w)
    sum_1 = tl.zeros([BM], tl.float32)
    for start in range(0, m, BN):
        j = start + tl.arange(0, BN)
        cosines = tl.dot(a, tl.trans(_rows(C, j, m, d, D)), input_precision="ieee")
        ok = _is_candidate(
            i[:, None],
            j[None, :],
            n,
            m,
            KEYS[0],
            KEYS[1],
            KEYS[2],
            KEYS[3],
            KEYS[4],
            KEYS[5],
            HAS_GROUPS,
            HAS_DOMAINS,
        )
        number += tl.sum(ok.to(tl.float32), 1)
        w = tl.zeros([BM, BN], tl.float32)
        if HAS_RANKS:
            w = tl.load(W + i[:, None] * K + _bin(cosines, K), mask=ok, other=0.0)
        s = cosines * scale
        new = tl.maximum(top, tl.max(tl.where(ok, s, -1e30), 1))
        above = s - new[:, None]
        sum_0 = sum_0 * tl.exp(P0 * (top - new))
        sum_0 += tl.sum(tl.where(ok, tl.exp(tl.where(ok, P0 * above + w, 0.0)), 0.0), 1)
        if P1 != 0:
            sum_1 = sum_1 * tl.exp(P1 * (top - new))
            sum_1 += tl.sum(tl.where(ok, tl.exp(tl.where(ok, P1 * above + w, 0.0)), 0.0), 1)
        top = new
    tl.store(NUMBER + i, number, mask=i < n)
    empty = number == 0
    tl.store(L + i, tl.where(empty, float("-inf"), tl.log(sum_0) + P0 * top), mask=i < n)
    if P1 != 0:
        tl.store(L + n + i, tl.where(empty, float("-inf"), tl.log(sum_1) + P1 * top), mask=i < n)


@triton.jit
def _gradient(
    A,
    C,
    W,
    L,
    G,
    OUT,
    KEYS,
    n,
    m,
    d,
    K,
    scale,
    P0: tl.constexpr,
    P1: tl.constexpr,
    ROWS_ARE_ANCHORS: tl.constexpr,
    HAS_RANKS: tl.constexpr,
    HAS_GROUPS: tl.constexpr,
    HAS_DOMAINS: tl.constexpr,
    D: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    rows, others, count = C, A, n
    if ROWS_ARE_ANCHORS:
        rows, others, count = A, C, m
    size = n + m - count
    x = _rows(rows, r, size, d, D)
    total = tl.zeros([BM, D], tl.float32)
    for start in range(0, count, BN):
        o = start + tl.arange(0, BN)
        y = _rows(others, o, count, d, D)
        cosines = tl.dot(x, tl.trans(y), input_precision="ieee")
        i, j = o[None, :], r[:, None]
        if ROWS_ARE_ANCHORS:
            i, j = r[:, None], o[None, :]
        ok = _is_candidate(
            i,
            j,
            n,
            m,
            KEYS[0],
            KEYS[1],
            KEYS[2],
            KEYS[3],
            KEYS[4],
            KEYS[5],
            HAS_GROUPS,
            HAS_DOMAINS,
        )
        w = tl.zeros([BM, BN], tl.float32)
        if HAS_RANKS:
            w = tl.load(W + i * K + _bin(cosines, K), mask=ok, other=0.0)
        s = cosines * scale
        log_sum = tl.load(L + i, mask=i < n, other=0.0)
        slope = tl.load(G + i, mask=i < n, other=0.0)
        g = P0 * slope * tl.exp(tl.where(ok, P0 * s + w - log_sum, -1e30))
        if P1 != 0:
            log_sum = tl.load(L + n + i, mask=i < n, other=0.0)
            slope = tl.load(G + n + i, mask=i < n, other=0.0)
            g += P1 * slope * tl.exp(tl.where(ok, P1 * s + w - log_sum, -1e30))
        total += tl.dot(tl.where(ok, g, 0.0), y, input_precision="ieee")
    k = tl.arange(0, D)
    inside = (r < size)[:, None] & (k < d)[None, :]
    tl.store(OUT + r[:, None] * d + k[None, :], total * scale, mask=inside)


def is_covered(batch: Batch, temperature: float | Tensor, objective: Any) -> bool:
    """Return whether the kernels can compute a batch; the blocked engine computes all others."""
    rows = batch.anchors.embeddings
    keys = [batch.anchors.groups, batch.anchors.domains]
    return (
        (rows.is_cuda or IS_INTERPRETED)
        and rows.dtype == torch.float32
        and rows.shape[1] <= _WIDEST
        and isinstance(temperature, float)
        and batch.are_units
        and batch.anchor_of is None
        and batch.target is None
        and batch.valid is None
        and len(batch.columns) == 1
        and not batch.columns[0].are_own
        and all(key is None or key.shape[-1] == 1 for key in keys)
        and isinstance(objective, LogSumObjective)
        and 1 <= len(objective.sum_powers) <= 2
    )


def losses_if_covered(
    batch: Batch, temperature: float | Tensor, objective_at: ObjectiveAt
) -> Tensor | None:
    """Compute one loss per pair, or return ``None`` if the kernels do not cover the batch."""
    objective = objective_at(temperature)
    if not is_covered(batch, temperature, objective) or not isinstance(objective, LogSumObjective):
        return None
    anchors, columns = batch.anchors.embeddings, batch.columns[0].embeddings
    positive = (anchors * batch.positives.embeddings).sum(dim=1) / temperature
    logs, number = _LogSums.apply(anchors, columns, batch, temperature, objective)
    log_sums = list(logs.unbind())
    if len(objective.sum_powers) < len(objective.powers):
        log_sums.insert(objective.powers.index(0), number.log())
    losses = objective.from_log_sums(positive, tuple(log_sums))
    return losses if batch.weight is None else losses * batch.weight


class _LogSums(torch.autograd.Function):
    """Logs of the sums of each power, ``[powers, anchors]``, and the number of candidates."""

    @staticmethod
    def forward(
        ctx: Any, anchors: Tensor, columns: Tensor, batch: Batch, t: float, objective: Any
    ) -> tuple[Tensor, Tensor]:
        anchors, columns = anchors.contiguous(), columns.contiguous()
        (n, d), m = anchors.shape, len(columns)
        none = torch.full((n,), -1, device=anchors.device)
        block = batch.columns[0]
        keys = [none if index is None else index for index in (batch.own, batch.positive)]
        for name in ("groups", "domains"):
            for rows in (batch.anchors, block):
                key = getattr(rows, name)
                keys.append(none if key is None else key.flatten().contiguous())
        has_keys = batch.anchors.groups is not None, batch.anchors.domains is not None
        sizes = {"D": max(16, triton.next_power_of_2(d)), "BM": _BLOCK, "BN": _BLOCK}
        grid = (triton.cdiv(n, _BLOCK),)
        weights = anchors
        if objective.ranks is not None:
            counts = torch.zeros(n, BINS, dtype=torch.int32, device=anchors.device)
            _histogram[grid](
                anchors, columns, counts, tuple(keys), n, m, d, BINS, *has_keys, **sizes
            )
            through = counts.cumsum(dim=1)
            doubled = 2 * through - (counts if objective.ranks == "mid" else 0)
            cdf = doubled / (2 * through[:, -1:].clamp(min=1))
            weights = objective.weights_of_cdf(cdf.float()).log().contiguous()
        p0, p1 = (*objective.sum_powers, 0.0)[:2]
        log_sums = anchors.new_empty(1 + (p1 != 0), n)
        number = anchors.new_empty(n)
        given = n, m, d, BINS, 1 / t, float(p0), float(p1)
        kinds = objective.ranks is not None, *has_keys
        _log_sums[grid](
            anchors, columns, weights, log_sums, number, tuple(keys), *given, *kinds, **sizes
        )
        ctx.save_for_backward(anchors, columns, weights, log_sums, *keys)
        ctx.how = given, kinds, sizes
        ctx.mark_non_differentiable(number)
        return log_sums, number

    @staticmethod
    def backward(ctx: Any, slopes: Tensor, _number: Tensor) -> tuple[Tensor | None, ...]:
        anchors, columns, weights, log_sums, *keys = ctx.saved_tensors
        given, kinds, sizes = ctx.how
        slopes = slopes.detach().masked_fill(log_sums == -torch.inf, 0.0).contiguous()
        logs = log_sums.detach().masked_fill(log_sums == -torch.inf, 0.0)
        gradients = []
        for rows, are_anchors in ((anchors, True), (columns, False)):
            out = torch.empty_like(rows)
            grid = (triton.cdiv(len(rows), _BLOCK),)
            _gradient[grid](
                anchors.detach(),
                columns.detach(),
                weights,
                logs,
                slopes,
                out,
                tuple(keys),
                *given,
                are_anchors,
                *kinds,
                **sizes,
            )
            gradients.append(out)
        if torch.is_grad_enabled():
            gradients = [differentiable_once(out, slopes, anchors, columns) for out in gradients]
        return (*gradients, None, None, None)
