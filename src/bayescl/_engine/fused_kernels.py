"""Triton kernels that never write a matrix of logits. Not yet run on a GPU; blocks are not tuned.

Notation: n anchors a_i, already divided by the temperature, and m columns c_j give the logits
s_ij = a_i c_j. For each anchor and each power p of the objective, the kernels compute

    L_p(i) = log sum_j e^(p s_ij + w_ij),     over the columns j that are candidates of anchor i,

where w_ij is the logarithm of the weight by rank (0 without ranks). With a teacher of
logits y_ij, they also compute its softmax over the candidates, and the mean logit under it:

    Y(i) = log sum_j e^(y_ij),     q_ij = e^(y_ij - Y(i)),     M(i) = sum_j q_ij s_ij.

If the target gives the candidates of anchor i the probability b_i, candidate j has the part
b_i q_ij, and the target's term of the loss is b_i (s_i+ - M(i)). `fused.py` computes losses from
these numbers with plain torch operations, and autograd differentiates them. With the gradients
g_p(i) by L_p(i) and h(i) by M(i), the gradients by the rows are

    G_ij = sum_p g_p(i) p e^(p s_ij + w_ij - L_p(i)) + h(i) q_ij,     dA = G C,     dC = G' A.

Each kernel is one program per block of BM rows, which stay in registers. It loops over the other
side in blocks of BN rows, multiplies the two blocks (`tl.dot`) into a tile [BM, BN] of logits, and
reduces the tile at once. A tile is never written to memory, so memory grows with (n + m) d.

- `histogram` counts the cosines of each row in bins. Ranks, and with them weights, are a cumulative
  sum over the bins of a row (`[n, bins]`, in torch).
- `log_sums` computes L_p, M, Y and the number of candidates: the rows of `SUMS`, [5, n]. As in
  flash attention, each row keeps its largest exponent so far, and the sums are scaled when a larger
  one comes. The teacher's softmax has a maximum of its own.
- `gradient` computes the tile again, then G from it, and accumulates G times the other side. The
  rows are anchors for dA, and columns for dC (`ROWS_ARE_ANCHORS`).

All kernels receive a named tuple, :class:`Given`. Triton compiles a kernel for each set of fields
that are ``None``, so a branch like `if given.domains is not None` costs nothing at run time.

`_is_candidate` compares integers. A column does not count if it has one of the anchor's groups.
Further groups exclude the anchor itself and its positive: column j has the key j, and the anchor
has the key of the column to leave out. -1 means none. All domains must agree, and -1 agrees with
every domain. A matrix of bytes, `valid`, excludes further columns.

Limits: a program loads whole rows, so dimensions are at most 256, and blocks of wide rows have fewer
rows. Products have the precision "ieee" (float32), which does not use tensor cores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

PRECISION = tl.constexpr("ieee")
LOWEST = tl.constexpr(-3e38)  # in place of -inf, because -inf minus -inf is NaN


class Sides(NamedTuple):
    """Contiguous matrices of anchors and candidate columns: embeddings, or integer keys."""

    anchors: Tensor  # [n, width]
    columns: Tensor  # [m, width]
    width: Any  # a constant of the compiler, like ``padded``
    padded: Any = None  # the next power of 2, for embeddings


class Given(NamedTuple):
    """Input of all kernels."""

    n: int
    m: int
    rows: Sides  # anchors are divided by the temperature
    groups: Sides | None  # a common key excludes a column
    domains: Sides | None  # a different key excludes a column
    valid: Tensor | None  # [n, m], bytes; 0 excludes a column
    teacher: Sides | None = None  # None without a target
    scale: float = 1.0  # 1 / temperature of the teacher
    labels: Sides | None = None  # one key; only with a target
    log_weights: Tensor | None = None  # [n, bins]; None without ranks
    bins: int = 0
    reach: float = 1.0  # logit of a cosine of 1


@triton.jit
def _load(X, r, count, sides):
    """Load rows r of a matrix of `count` rows, padded with zeros."""
    k = tl.arange(0, sides.padded)
    inside = (r < count)[:, None] & (k < sides.width)[None, :]
    return tl.load(X + r[:, None] * sides.width + k[None, :], mask=inside, other=0.0)


@triton.jit
def _products(x, y):
    """Multiply all rows of one block with all rows of the other."""
    return tl.dot(x, tl.trans(y), input_precision=PRECISION)


@triton.jit
def _exp_where(ok, x):
    """Return e^x where ok and 0 elsewhere, whatever x is there."""
    return tl.where(ok, tl.exp(tl.where(ok, x, 0.0)), 0.0)


@triton.jit
def _keys(keys, k, i, j, given):
    """Load key k of anchors i and of columns j."""
    mine = tl.load(keys.anchors + i * keys.width + k, mask=i < given.n, other=-1)
    theirs = tl.load(keys.columns + j * keys.width + k, mask=j < given.m, other=-1)
    return mine, theirs


@triton.jit
def _is_candidate(i, j, given):
    """Return whether column j is a candidate of anchor i, for indices that broadcast to a tile."""
    ok = (i < given.n) & (j < given.m)
    if given.domains is not None:
        agree = ok
        for k in tl.static_range(given.domains.width):
            mine, theirs = _keys(given.domains, k, i, j, given)
            agree = agree & ((mine == theirs) | (mine == -1) | (theirs == -1))
        if given.labels is not None:  # a column of the anchor's class shares the target
            mine, theirs = _keys(given.labels, 0, i, j, given)
            agree = agree | ((mine == theirs) & (mine != -1))
        ok = ok & agree
    if given.groups is not None:
        for k in tl.static_range(given.groups.width):
            mine, theirs = _keys(given.groups, k, i, j, given)
            ok = ok & ((mine != theirs) | (mine == -1))
    if given.valid is not None:
        place = i.to(tl.int64) * given.m + j
        ok = ok & (tl.load(given.valid + place, mask=ok, other=0) != 0)
    return ok


@triton.jit
def _bin(s, given):
    """Return the bin of each logit, from 0 to bins - 1."""
    place = (s / given.reach + 1.0) * 0.5 * given.bins
    place = tl.where(place > 0.0, place, 0.0)  # 0 also for NaN
    return tl.minimum(place, given.bins - 1.0).to(tl.int32)


@triton.jit
def _log_weights(s, ok, i, given):
    """Look up the log weight of each logit; 0 without ranks."""
    w = tl.zeros_like(s)
    if given.log_weights is not None:
        w = tl.load(given.log_weights + i * given.bins + _bin(s, given), mask=ok, other=0.0)
    return w


@triton.jit
def _teacher_logits(x, y, i, j, given):
    """Return a tile of the teacher's logits, and where candidates take part in its softmax.

    x and y are the teacher's rows, of length 1, or 0 for items without a teacher. Known labels
    replace the teacher: columns of the anchor's class count as identical, other classes as absent.
    """
    logits = _products(x, y) * given.scale
    shared = ~((tl.sum(x * x, 1) < 0.5)[:, None] | (tl.sum(y * y, 1) < 0.5)[None, :])
    if given.labels is not None:
        mine, theirs = _keys(given.labels, 0, i, j, given)
        known = (mine != -1) & (theirs != -1)
        logits = tl.where(known, given.scale, logits)
        shared = tl.where(known, mine == theirs, shared)
    return logits, shared


@triton.jit
def histogram(given, COUNTS, BM: tl.constexpr, BN: tl.constexpr):
    """Count the cosines of each anchor's candidates in COUNTS [n, bins]."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    x = _load(given.rows.anchors, i, given.n, given.rows)
    for start in range(0, given.m, BN):
        j = start + tl.arange(0, BN)
        s = _products(x, _load(given.rows.columns, j, given.m, given.rows))
        ok = _is_candidate(i[:, None], j[None, :], given)
        one = tl.full([BM, BN], 1, tl.int32)
        tl.atomic_add(COUNTS + i[:, None] * given.bins + _bin(s, given), one, mask=ok)


@triton.jit
def log_sums(given, SUMS, P: tl.constexpr, Q: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    """Write to SUMS: L_P, L_Q (unless Q is 0), M and Y (with a target), number of candidates."""
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    n = given.n
    x = _load(given.rows.anchors, i, n, given.rows)
    number = tl.zeros([BM], tl.float32)
    top = tl.full([BM], LOWEST, tl.float32)  # largest logit so far
    sum_p = tl.zeros([BM], tl.float32)  # sums of e^(p (s - top) + w)
    sum_q = tl.zeros([BM], tl.float32)
    if given.teacher is not None:
        x_teacher = _load(given.teacher.anchors, i, n, given.teacher)
        top_y = tl.full([BM], LOWEST, tl.float32)  # largest of the teacher's logits so far
        sum_y = tl.zeros([BM], tl.float32)  # sum of e^(y - top_y)
        sum_ys = tl.zeros([BM], tl.float32)  # sum of s e^(y - top_y)
    for start in range(0, given.m, BN):
        j = start + tl.arange(0, BN)
        s = _products(x, _load(given.rows.columns, j, given.m, given.rows))
        ok = _is_candidate(i[:, None], j[None, :], given)
        w = _log_weights(s, ok, i[:, None], given)
        number += tl.sum(ok.to(tl.float32), 1)
        new = tl.maximum(top, tl.max(tl.where(ok, s, LOWEST), 1))
        above = s - new[:, None]
        sum_p = sum_p * tl.exp(P * (top - new)) + tl.sum(_exp_where(ok, P * above + w), 1)
        if Q != 0:
            sum_q = sum_q * tl.exp(Q * (top - new)) + tl.sum(_exp_where(ok, Q * above + w), 1)
        top = new
        if given.teacher is not None:
            y_teacher = _load(given.teacher.columns, j, given.m, given.teacher)
            y, shared = _teacher_logits(x_teacher, y_teacher, i[:, None], j[None, :], given)
            shared = shared & ok
            new_y = tl.maximum(top_y, tl.max(tl.where(shared, y, LOWEST), 1))
            e = _exp_where(shared, y - new_y[:, None])
            sum_y = sum_y * tl.exp(top_y - new_y) + tl.sum(e, 1)
            sum_ys = sum_ys * tl.exp(top_y - new_y) + tl.sum(tl.where(shared, e * s, 0.0), 1)
            top_y = new_y
    inside = i < n
    tl.store(SUMS + i, tl.log(sum_p) + P * top, mask=inside)
    if Q != 0:
        tl.store(SUMS + n + i, tl.log(sum_q) + Q * top, mask=inside)
    if given.teacher is not None:
        tl.store(SUMS + 2 * n + i, sum_ys / tl.where(sum_y == 0, 1.0, sum_y), mask=inside)
        tl.store(SUMS + 3 * n + i, tl.log(sum_y) + top_y, mask=inside)
    tl.store(SUMS + 4 * n + i, number, mask=inside)


@triton.jit
def gradient(
    given,
    SUMS,
    SLOPES,
    OUT,
    ROWS_ARE_ANCHORS: tl.constexpr,
    P: tl.constexpr,
    Q: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    """Write dA or dC to OUT, given the gradients by SUMS."""
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    n = given.n
    size, rows, count, others = given.m, given.rows.columns, n, given.rows.anchors
    if ROWS_ARE_ANCHORS:
        size, rows, count, others = n, given.rows.anchors, given.m, given.rows.columns
    x = _load(rows, r, size, given.rows)
    if given.teacher is not None:
        rows_teacher, others_teacher = given.teacher.columns, given.teacher.anchors
        if ROWS_ARE_ANCHORS:
            rows_teacher, others_teacher = given.teacher.anchors, given.teacher.columns
        x_teacher = _load(rows_teacher, r, size, given.teacher)
    total = tl.zeros([BM, given.rows.padded], tl.float32)
    for start in range(0, count, BN):
        o = start + tl.arange(0, BN)
        i, j = o[None, :], r[:, None]
        if ROWS_ARE_ANCHORS:
            i, j = r[:, None], o[None, :]
        other = _load(others, o, count, given.rows)
        s = _products(x, other)
        ok = _is_candidate(i, j, given)
        w = _log_weights(s, ok, i, given)
        log_sum = tl.load(SUMS + i, mask=i < n, other=0.0)
        slope = tl.load(SLOPES + i, mask=i < n, other=0.0)
        g = P * slope * _exp_where(ok, P * s + w - log_sum)
        if Q != 0:
            log_sum = tl.load(SUMS + n + i, mask=i < n, other=0.0)
            slope = tl.load(SLOPES + n + i, mask=i < n, other=0.0)
            g += Q * slope * _exp_where(ok, Q * s + w - log_sum)
        if given.teacher is not None:
            y_teacher = _load(others_teacher, o, count, given.teacher)
            y, shared = _teacher_logits(x_teacher, y_teacher, i, j, given)
            log_sum = tl.load(SUMS + 3 * n + i, mask=i < n, other=0.0)
            slope = tl.load(SLOPES + 2 * n + i, mask=i < n, other=0.0)
            g += slope * _exp_where(shared & ok, y - log_sum)
        total += tl.dot(tl.where(ok, g, 0.0), other, input_precision=PRECISION)
    k = tl.arange(0, given.rows.padded)
    inside = (r < size)[:, None] & (k < given.rows.width)[None, :]
    tl.store(OUT + r[:, None] * given.rows.width + k[None, :], total, mask=inside)
