"""The fused engine: Triton kernels that never write a matrix of logits. Not yet run on a GPU.

Notation: n anchors a_i, already divided by the temperature, and m columns c_j, of dimension d, give
the logits s_ij = a_i c_j. The kernels compute, for each anchor and each power p of the objective,

    L_p(i) = log sum_j e^(p s_ij + w_ij),     over the columns j that are candidates of anchor i,

where w_ij is the logarithm of the weight by rank (0 without ranks). With a teacher, whose logits
are y_ij, they also compute the mean logit under the teacher's softmax over the candidates,

    M(i) = sum_j q_ij s_ij,     q_ij = e^(y_ij - Y(i)),     Y(i) = log sum_j e^(y_ij).

A soft target gives the candidates of an anchor the probability b_i q_ij, and adds b_i (s_i+ - M(i))
to the loss. These n numbers of each kind are the rows of `SUMS`; plain torch operations compute the
losses from them, and autograd differentiates those. With the gradients g_p(i) by L_p(i) and h(i) by
M(i), the gradients by the embeddings are

    G_ij = sum_p g_p(i) p e^(p s_ij + w_ij - L_p(i)) + h(i) q_ij,     dA = G C,     dC = G' A.

Each kernel is one program per block of BM rows, held in registers. It loops over the other side in
blocks of BN rows, multiplies the two blocks (`tl.dot`) into a tile [BM, BN] of logits, and reduces
the tile at once. A tile is never written to memory, so memory grows with (n + m) d.

- `_histogram`: counts the cosines of each row in BINS bins. Ranks, and with them weights, are a
  cumulative sum over the bins of a row (`[n, BINS]`, in torch).
- `_log_sums`: the rows of `SUMS`. As in flash attention, each row keeps its largest exponent so
  far, and a sum is scaled when a larger one comes. The teacher's softmax has a maximum of its own.
- `_gradient`: recomputes the tile, makes G of it, and adds its product with the other side. The
  rows are anchors for dA, and columns for dC (`ROWS_ARE_ANCHORS`).

All kernels read one named tuple, `Given`. Triton compiles a kernel anew for each set of fields that
are `None`, so a branch such as `if given.domains is not None` costs nothing at run time.

`_is_candidate` compares integers. A column does not count if it shares a group with the anchor. The
anchor itself and its positives are groups too: the group of column j is j, and the anchor's is the
column to leave out. -1 is in no group. Then all domains must agree (-1 agrees with all), and
`valid`, a matrix of bytes that the caller already holds, must be true.

Limits: rows are read whole, so dimensions are at most 256. Block sizes are not tuned. Precision of
the products is "ieee" (float32) everywhere, which does not use tensor cores.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any, NamedTuple

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
from bayescl.batch import Batch, TargetRule
from bayescl.rows import UNKNOWN, Rows

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_BLOCK = 16 if IS_INTERPRETED else 64
_WIDEST = 256
_PRECISION = tl.constexpr("ieee")
_LOWEST = tl.constexpr(-3e38)
"""In place of -inf, whose difference from itself is NaN."""


class Given(NamedTuple):
    """Input of all kernels: contiguous tensors, which are pointers there, or ``None``.

    Fields of type ``Any`` are constants of the compiler.
    """

    anchors: Tensor  # [n, d], divided by the temperature
    columns: Tensor  # [m, d]
    n: int
    m: int
    d: int
    D: Any  # next power of 2
    groups: Tensor | None  # [n, num_groups]
    column_groups: Tensor | None
    num_groups: Any
    domains: Tensor | None  # [n, num_domains]
    column_domains: Tensor | None
    num_domains: Any
    valid: Tensor | None  # [n, m], bytes
    teacher: Tensor | None = None  # [n, d_teacher]; None without a target
    column_teacher: Tensor | None = None
    d_teacher: int = 0
    D_teacher: Any = None
    scale: float = 1.0  # 1 / temperature of the teacher
    labels: Tensor | None = None  # [n]
    column_labels: Tensor | None = None
    log_weights: Tensor | None = None  # [n, bins]; None without ranks
    bins: int = 0
    reach: float = 1.0  # logit of a cosine of 1


@triton.jit
def _rows(X, r, count, d, D: tl.constexpr):
    """Load rows r of X [count, d], padded with zeros to D coordinates."""
    k = tl.arange(0, D)
    inside = (r < count)[:, None] & (k < d)[None, :]
    return tl.load(X + r[:, None] * d + k[None, :], mask=inside, other=0.0)


@triton.jit
def _products(x, y):
    """Multiply all rows of one block with all rows of the other."""
    return tl.dot(x, tl.trans(y), input_precision=_PRECISION)


@triton.jit
def _exp_where(ok, x):
    """Return e^x where ok and 0 elsewhere, for any x there."""
    return tl.where(ok, tl.exp(tl.where(ok, x, 0.0)), 0.0)


@triton.jit
def _both(MINE, THEIRS, i, j, k, number, given):
    """Load key k of anchors i and of columns j."""
    mine = tl.load(MINE + i * number + k, mask=i < given.n, other=-1)
    theirs = tl.load(THEIRS + j * number + k, mask=j < given.m, other=-1)
    return mine, theirs


@triton.jit
def _is_candidate(i, j, given):
    """Return whether column j is a candidate of anchor i, for indices that broadcast to a tile."""
    ok = (i < given.n) & (j < given.m)
    if given.domains is not None:
        agree = ok
        for k in tl.static_range(given.num_domains):
            mine, theirs = _both(
                given.domains, given.column_domains, i, j, k, given.num_domains, given
            )
            agree = agree & ((mine == theirs) | (mine == -1) | (theirs == -1))
        if given.labels is not None:  # a candidate of the anchor's class shares the target
            mine, theirs = _both(given.labels, given.column_labels, i, j, 0, 1, given)
            agree = agree | ((mine == theirs) & (mine != -1))
        ok = ok & agree
    if given.groups is not None:
        for k in tl.static_range(given.num_groups):
            mine, theirs = _both(
                given.groups, given.column_groups, i, j, k, given.num_groups, given
            )
            ok = ok & ((mine != theirs) | (mine == -1))
    if given.valid is not None:
        place = i.to(tl.int64) * given.m + j
        ok = ok & (tl.load(given.valid + place, mask=ok, other=0) != 0)
    return ok


@triton.jit
def _bin(s, given):
    """Return the bin of each logit, from 0 to bins - 1."""
    place = (s / given.reach + 1.0) * 0.5 * given.bins
    return tl.minimum(tl.maximum(place, 0.0), given.bins - 1.0).to(tl.int32)


@triton.jit
def _log_weights(s, ok, i, given):
    """Look up the log weight of each logit; 0 without ranks."""
    w = tl.zeros_like(s)
    if given.log_weights is not None:
        w = tl.load(given.log_weights + i * given.bins + _bin(s, given), mask=ok, other=0.0)
    return w


@triton.jit
def _teacher_logits(x, y, i, j, given):
    """Return a tile of the teacher's logits, and where candidates get a share of the target.

    x and y are the teacher's rows. They have length 1, or 0 for an item without a teacher. Known
    labels come first: a candidate of the anchor's class counts as identical, another has no share.
    """
    logits = _products(x, y) * given.scale
    shared = ~((tl.sum(x * x, 1) < 0.5)[:, None] | (tl.sum(y * y, 1) < 0.5)[None, :])
    if given.labels is not None:
        mine, theirs = _both(given.labels, given.column_labels, i, j, 0, 1, given)
        known = (mine != -1) & (theirs != -1)
        logits = tl.where(known, given.scale, logits)
        shared = tl.where(known, mine == theirs, shared)
    return logits, shared


@triton.jit
def _histogram(given, COUNTS, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    x = _rows(given.anchors, i, given.n, given.d, given.D)
    for start in range(0, given.m, BN):
        j = start + tl.arange(0, BN)
        s = _products(x, _rows(given.columns, j, given.m, given.d, given.D))
        ok = _is_candidate(i[:, None], j[None, :], given)
        one = tl.full([BM, BN], 1, tl.int32)
        tl.atomic_add(COUNTS + i[:, None] * given.bins + _bin(s, given), one, mask=ok)


@triton.jit
def _log_sums(
    given,
    SUMS,
    P: tl.constexpr,
    Q: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    n = given.n
    x = _rows(given.anchors, i, n, given.d, given.D)
    number = tl.zeros([BM], tl.float32)
    top = tl.full([BM], _LOWEST, tl.float32)  # largest logit so far
    sum_p = tl.zeros([BM], tl.float32)  # sums of e^(P (s - top) + w)
    sum_q = tl.zeros([BM], tl.float32)
    if given.teacher is not None:
        x_teacher = _rows(given.teacher, i, n, given.d_teacher, given.D_teacher)
        top_y = tl.full([BM], _LOWEST, tl.float32)  # largest of the teacher's logits so far
        sum_y = tl.zeros([BM], tl.float32)  # sum of e^(y - top_y)
        drawn = tl.zeros([BM], tl.float32)  # sum of s e^(y - top_y)
    for start in range(0, given.m, BN):
        j = start + tl.arange(0, BN)
        s = _products(x, _rows(given.columns, j, given.m, given.d, given.D))
        ok = _is_candidate(i[:, None], j[None, :], given)
        w = _log_weights(s, ok, i[:, None], given)
        number += tl.sum(ok.to(tl.float32), 1)
        new = tl.maximum(top, tl.max(tl.where(ok, s, _LOWEST), 1))
        above = s - new[:, None]
        sum_p = sum_p * tl.exp(P * (top - new)) + tl.sum(_exp_where(ok, P * above + w), 1)
        if Q != 0:
            sum_q = sum_q * tl.exp(Q * (top - new)) + tl.sum(_exp_where(ok, Q * above + w), 1)
        top = new
        if given.teacher is not None:
            y_teacher = _rows(given.column_teacher, j, given.m, given.d_teacher, given.D_teacher)
            y, shared = _teacher_logits(x_teacher, y_teacher, i[:, None], j[None, :], given)
            shared = shared & ok
            new_y = tl.maximum(top_y, tl.max(tl.where(shared, y, _LOWEST), 1))
            e = _exp_where(shared, y - new_y[:, None])
            sum_y = sum_y * tl.exp(top_y - new_y) + tl.sum(e, 1)
            drawn = drawn * tl.exp(top_y - new_y) + tl.sum(tl.where(shared, e * s, 0.0), 1)
            top_y = new_y
    inside = i < n
    tl.store(SUMS + i, tl.log(sum_p) + P * top, mask=inside)
    if Q != 0:
        tl.store(SUMS + n + i, tl.log(sum_q) + Q * top, mask=inside)
    if given.teacher is not None:
        tl.store(SUMS + 2 * n + i, drawn / tl.where(sum_y == 0, 1.0, sum_y), mask=inside)
        tl.store(SUMS + 3 * n + i, tl.log(sum_y) + top_y, mask=inside)
    tl.store(SUMS + 4 * n + i, number, mask=inside)


@triton.jit
def _gradient(
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
    r = tl.program_id(0) * BM + tl.arange(0, BM)
    n = given.n
    size, rows, rows_teacher = given.m, given.columns, given.column_teacher
    count, others, others_teacher = n, given.anchors, given.teacher
    if ROWS_ARE_ANCHORS:
        size, rows, rows_teacher = n, given.anchors, given.teacher
        count, others, others_teacher = given.m, given.columns, given.column_teacher
    x = _rows(rows, r, size, given.d, given.D)
    if given.teacher is not None:
        x_teacher = _rows(rows_teacher, r, size, given.d_teacher, given.D_teacher)
    total = tl.zeros([BM, given.D], tl.float32)
    for start in range(0, count, BN):
        o = start + tl.arange(0, BN)
        i, j = o[None, :], r[:, None]
        if ROWS_ARE_ANCHORS:
            i, j = r[:, None], o[None, :]
        other = _rows(others, o, count, given.d, given.D)
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
            y_teacher = _rows(others_teacher, o, count, given.d_teacher, given.D_teacher)
            y, shared = _teacher_logits(x_teacher, y_teacher, i, j, given)
            log_sum = tl.load(SUMS + 3 * n + i, mask=i < n, other=0.0)
            slope = tl.load(SLOPES + 2 * n + i, mask=i < n, other=0.0)
            g += slope * _exp_where(shared & ok, y - log_sum)
        total += _products(tl.where(ok, g, 0.0), tl.trans(other))
    k = tl.arange(0, given.D)
    inside = (r < size)[:, None] & (k < given.d)[None, :]
    tl.store(OUT + r[:, None] * given.d + k[None, :], total, mask=inside)


def is_covered(batch: Batch, temperature: float | Tensor, objective: Any) -> bool:
    """Return whether the kernels can compute a batch; the blocked engine computes all others."""
    anchors, every = batch.anchors, [batch.anchors, batch.positives, *batch.columns]
    return (
        (anchors.embeddings.is_cuda or IS_INTERPRETED)
        and all(rows.embeddings.dtype == torch.float32 for rows in every)
        and not any(block.are_own for block in batch.columns)
        and anchors.embeddings.shape[1] <= _WIDEST
        and isinstance(objective, LogSumObjective)
        and 1 <= len(objective.sum_powers) <= 2
        and (objective.ranks is None or (batch.are_units and isinstance(temperature, float)))
        and (batch.target is None or _is_target_covered(batch))
    )


def _is_target_covered(batch: Batch) -> bool:
    labels, teacher = batch.anchors.labels, batch.anchors.teacher
    return (
        isinstance(batch.target, TargetRule)
        and isinstance(batch.target.temperature, float)
        and (labels is None or not labels.is_floating_point())
        and (teacher is None or teacher.shape[1] <= _WIDEST)
    )


def losses_if_covered(
    batch: Batch, temperature: float | Tensor, objective_at: ObjectiveAt
) -> Tensor | None:
    """Compute one loss per pair, or return ``None`` if the kernels do not cover the batch."""
    objective = objective_at(temperature)
    if not is_covered(batch, temperature, objective) or not isinstance(objective, LogSumObjective):
        return None
    if not batch.are_units:
        batch = batch.map_rows(_without_infinity)
    anchors = batch.anchors.embeddings / temperature
    columns = _joined([block.embeddings for block in batch.columns])
    given = _given(batch, anchors.detach(), columns.detach())
    if objective.ranks is not None:
        given = given._replace(bins=BINS, reach=1 / float(temperature))
        given = given._replace(log_weights=_weights_of_bins(given, objective))
    powers = [float(power) for power in objective.sum_powers]
    sums = _Sums.apply(anchors, columns, given, (*powers, 0.0)[:2])
    if batch.anchor_of is not None:
        anchors, sums = anchors[batch.anchor_of], sums[:, batch.anchor_of]
    positive = (anchors * batch.positives.embeddings).sum(dim=1)
    first, second, mean, log_share, number = sums.unbind()
    log_sums = [first, second][: len(powers)]
    if len(log_sums) < len(objective.powers):
        log_sums.insert(objective.powers.index(0), number.log())
    losses = objective.from_log_sums(positive, tuple(log_sums))
    if isinstance(batch.target, TargetRule):
        positive_share = batch.target.positive_share
        if positive_share is None:  # the positive is one more candidate, of similarity 1
            target = (log_share - given.scale).sigmoid()
        else:
            target = (1 - positive_share) * (log_share > -torch.inf)
        losses = losses + target * (positive - mean)
    return losses if batch.weight is None else losses * batch.weight


def _without_infinity(rows: Rows) -> Rows:
    """Replace infinite coordinates by NaN, so that no exponential of -inf hides them."""
    embeddings = rows.embeddings
    return replace(rows, embeddings=torch.where(embeddings.isfinite(), embeddings, torch.nan))


def _given(batch: Batch, anchors: Tensor, columns: Tensor) -> Given:
    """Collect the input of the kernels, without weights by rank."""
    groups, domains = _exclusive_keys(batch, len(columns)), _metadata(batch, "domains")
    valid = batch.valid
    if batch.anchor_of is not None and batch.positive is not None and batch.layout != "in_batch":
        valid = batch.mask()  # a column may be the positive of several anchors
    given = Given(
        anchors=anchors.contiguous(),
        columns=columns.contiguous(),
        n=len(anchors),
        m=len(columns),
        d=anchors.shape[1],
        D=_padded(anchors),
        groups=groups[0],
        column_groups=groups[1],
        num_groups=_width(groups[0]),
        domains=domains[0],
        column_domains=domains[1],
        num_domains=_width(domains[0]),
        valid=None if valid is None else valid.contiguous().view(torch.uint8),
    )
    if not isinstance(batch.target, TargetRule):
        return given
    labels, teacher = _metadata(batch, "labels"), _metadata(batch, "teacher")
    mine, theirs = teacher
    if mine is None or theirs is None:  # labels alone
        mine, theirs = anchors.new_zeros(given.n, 1), anchors.new_zeros(given.m, 1)
    return given._replace(
        teacher=mine,
        column_teacher=theirs,
        d_teacher=mine.shape[1],
        D_teacher=_padded(mine),
        scale=1 / float(batch.target.temperature),
        labels=labels[0],
        column_labels=labels[1],
    )


def _padded(rows: Tensor) -> Any:
    return tl.constexpr(max(16, triton.next_power_of_2(rows.shape[1])))


def _width(keys: Tensor | None) -> Any:
    return tl.constexpr(0 if keys is None else keys.shape[1])


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _metadata(batch: Batch, name: str) -> tuple[Tensor | None, Tensor | None]:
    """Return a field of the anchors and of all columns, unknown in blocks that lack it."""
    mine = getattr(batch.anchors, name)
    if mine is None:
        return None, None
    unknown, parts = 0 if name == "teacher" else UNKNOWN, []
    for block in batch.columns:
        part = getattr(block, name)
        if part is None:
            part = mine.new_full((len(block), *mine.shape[1:]), unknown)
        parts.append(part)
    return mine.contiguous(), _joined(parts).contiguous()


def _exclusive_keys(batch: Batch, columns: int) -> tuple[Tensor | None, Tensor | None]:
    """Return keys of anchors and columns that exclude each other if one is equal."""
    place = torch.arange(columns, device=batch.anchors.embeddings.device)
    keys = []
    if batch.own is not None:
        keys.append((batch.own, place))
    positive, anchor_of = batch.positive, batch.anchor_of
    if positive is not None and anchor_of is None:
        keys.append((positive, place))
    elif positive is not None and anchor_of is not None and batch.layout == "in_batch":
        anchor = torch.arange(batch.num_anchors, device=place.device)
        owner = torch.full_like(place, UNKNOWN).index_copy_(0, positive, anchor_of)
        keys.append((anchor, owner))
    groups, column_groups = _metadata(batch, "groups")
    if groups is not None and column_groups is not None:
        keys += zip(groups.unbind(-1), column_groups.unbind(-1), strict=True)
    if not keys:
        return None, None
    mine, theirs = zip(*keys, strict=True)
    return torch.stack(mine, dim=1), torch.stack(theirs, dim=1)


def _weights_of_bins(given: Given, objective: LogSumObjective) -> Tensor:
    """Return the log weight of each bin, [n, bins], by the ranks of its candidates."""
    counts = torch.zeros(given.n, given.bins, dtype=torch.int32, device=given.anchors.device)
    _launch(_histogram, given.n, given, counts)
    through = counts.cumsum(dim=1)
    doubled = 2 * through - (counts if objective.ranks == "mid" else 0)
    cdf = doubled.clamp(min=1) / (2 * through[:, -1:].clamp(min=1))
    return objective.weights_of_cdf(cdf.float()).log().contiguous()


def _launch(kernel: Any, rows: int, given: Given, *more: Any) -> None:
    """Run one program per block of rows, on the device of the embeddings."""
    with torch.cuda.device_of(given.anchors):
        kernel[(triton.cdiv(rows, _BLOCK),)](given, *more, BM=_BLOCK, BN=_BLOCK)


class _Sums(torch.autograd.Function):
    """Rows of ``SUMS``, [5, n]: two log-sums, M, Y, and the number of candidates.

    Y and the number are not differentiated.
    """

    @staticmethod
    def forward(
        ctx: Any, anchors: Tensor, columns: Tensor, given: Given, powers: tuple[float, float]
    ) -> Tensor:
        sums = anchors.new_zeros(5, given.n)
        _launch(_log_sums, given.n, given, sums, *powers)
        ctx.save_for_backward(anchors, columns, sums)
        ctx.how = given, powers
        return sums

    @staticmethod
    def backward(ctx: Any, slopes: Tensor) -> tuple[Tensor | None, ...]:
        anchors, columns, sums = ctx.saved_tensors
        given, powers = ctx.how
        # A row without candidates, or without weights above 0, has no gradient.
        empty = sums.detach() == -torch.inf
        logs, slopes = sums.detach().masked_fill(empty, 0.0), slopes.masked_fill(empty, 0.0)
        gradients: list[Tensor | None] = []
        for rows, are_anchors in ((anchors, True), (columns, False)):
            gradient = None
            if ctx.needs_input_grad[0 if are_anchors else 1]:
                gradient = torch.empty(rows.shape, device=rows.device)
                how = given, logs, slopes.detach(), gradient, are_anchors, *powers
                _launch(_gradient, len(rows), *how)
                if torch.is_grad_enabled():
                    gradient = differentiable_once(gradient, slopes, anchors, columns)
            gradients.append(gradient)
        return (*gradients, None, None)
