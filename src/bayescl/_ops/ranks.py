"""Ranks of logits among the unlabeled logits of their anchor."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Literal

import numpy as np
import torch
from torch.nn import functional as F

from bayescl._checks import check_choice, is_eager_cpu
from bayescl._ops.kept import kept
from bayescl._ops.log_space import at_least_float32
from bayescl._types import Bool, Float, Int, Tensor

Ranks = Literal["mid", "upper"]
Transform = Callable[[Tensor, Tensor, Tensor], Tensor]
RANKS: tuple[Ranks, ...] = ("mid", "upper")
BINS = 1025
"""Number of bins of the histogram for ranks on a GPU: cosines are rounded to 1/512. The number is
odd, so that 0, the cosine of orthogonal rows, is not the boundary of two bins."""

ROUNDING = 4.0
"""Number of units of the last place by which products of identical rows may differ."""

_BLOCK = 2**17
"""Number of logits sorted at a time on the CPU. Temporaries then stay in the cache."""


def empirical_cdf(
    unlabeled: Float[Tensor, "*anchors candidates"],
    *,
    valid: Bool[Tensor, "*anchors candidates"] | None = None,
    ranks: Ranks = "mid",
) -> Float[Tensor, "*anchors candidates"]:
    r"""Compute the empirical CDF of each anchor's unlabeled logits at these logits.

    With :math:`N` valid candidates in the row, :math:`n_<` of them below a logit and
    :math:`n_=` equal to it (itself included):

    .. math::
        \hat\Phi_{UN} = \frac{n_< + n_=}{N} \;\text{(upper)}, \qquad
        \hat\Phi_{UN} = \frac{n_< + n_= / 2}{N} \;\text{(mid)}.

    The paper uses upper ranks. In small rows they are biased: the mean importance weight is below
    1. Mid-ranks are symmetric and do not have this bias.

    Args:
        unlabeled: Logits, or an increasing function of them. Not differentiated, because the result
            is piecewise constant.
        valid: True where a candidate counts. Rows may have different numbers of candidates.
            Default: all count.
        ranks: Kind of rank, ``"mid"`` or ``"upper"``. Default: ``"mid"``.

    Returns:
        Values in (0, 1], float32 or float64. Where ``valid`` is False the value is 1.

    Raises:
        ValueError: if ``ranks`` is invalid.

    Example:
        >>> logits = torch.tensor([[6.0, 4.0, 3.0, 7.0, 5.0]])
        >>> empirical_cdf(logits, ranks="upper")
        tensor([[0.8000, 0.4000, 0.2000, 1.0000, 0.6000]])
        >>> empirical_cdf(logits)
        tensor([[0.7000, 0.3000, 0.1000, 0.9000, 0.5000]])

    Reference:
        Liu et al., ICML 2024, Eq. "puedf", and the example below it.
    """
    cdf = map_cdf(unlabeled, lambda values: values, valid=valid, ranks=ranks)
    return cdf if valid is None else cdf.masked_fill(~valid, 1.0)


def map_cdf(
    unlabeled: Float[Tensor, "*anchors candidates"],
    function: Callable[[Tensor], Tensor],
    *,
    valid: Bool[Tensor, "*anchors candidates"] | None,
    ranks: Ranks,
    ties_up_to: float = 0.0,
) -> Float[Tensor, "*anchors candidates"]:
    """Apply an elementwise ``function`` to the empirical CDF of each logit.

    The function is applied to the CDF in sorted order. Rows without ties and with the same number
    of candidates have the same sorted CDF, so the function is usually computed for one row only.
    The result is undefined where ``valid`` is False.

    Neighbors in sorted order tie if they differ by at most ``ties_up_to`` times the magnitude of
    the logits. Default: only equal values tie.
    """
    check_choice("ranks", ranks, RANKS)
    values = at_least_float32(unlabeled.detach())
    values = values.flatten(0, -2) if values.ndim > 1 else values[None]
    valid = None if valid is None else valid.reshape(values.shape)
    if values.shape[1] == 0:  # amax needs at least one candidate
        return function(values).view(unlabeled.shape)
    slack = None
    if ties_up_to > 0 and len(values) > 0:
        counted = values if valid is None else torch.where(valid, values, 0.0)
        # A row of small cosines has the rounding errors of the other rows: its vectors are as
        # long. The bound keeps a row that is much longer from tying all others. Rows that are not
        # finite have no ranks and do not affect other rows.
        magnitude = counted.abs().amax(dim=1, keepdim=True).nan_to_num(0.0, posinf=0.0)
        usual = magnitude.sort(dim=0).values[len(magnitude) // 2]
        slack = ties_up_to * torch.maximum(magnitude, torch.fmin(magnitude.amax(), 8 * usual))
    if valid is None:
        count = torch.full((1, 1), values.shape[1], device=values.device)
    else:
        # Infinity sorts after all valid values.
        largest = torch.finfo(values.dtype).max
        values = torch.where(valid, values.clamp(max=largest), torch.inf)
        count = valid.sum(dim=1, keepdim=True)
    count = count.expand(len(values), 1)

    def transform(below: Tensor, through: Tensor, count: Tensor) -> Tensor:
        # Masked columns do not count.
        below, through = below.minimum(count), through.minimum(count)
        doubled = below + through if ranks == "mid" else 2 * through
        return function(doubled.to(values.dtype) / (2 * count.clamp(min=1)))

    if not is_eager_cpu(values):
        # Without branches on the data: each value's number below it, and up to its ties.
        ordered, columns = values.sort(dim=1)
        tied = _ties(ordered, slack)
        position = torch.arange(values.shape[1], device=values.device)
        edge = tied.new_ones(len(tied), 1)
        starts, ends = torch.cat([edge, ~tied], dim=1), torch.cat([~tied, edge], dim=1)
        below = torch.where(starts, position, 0).cummax(dim=1).values
        last = torch.where(ends, position, len(position) - 1).flip(1).cummin(dim=1).values.flip(1)
        result = ordered.scatter(1, columns, transform(below, last + 1, count))
    else:
        # Rows with equally many candidates and without ties have the same values.
        position = torch.arange(values.shape[1])
        counts, which = torch.unique(count, return_inverse=True)
        tables = transform(position, position + 1, counts[:, None])  # [numbers, columns]
        mapped = tables.expand_as(values) if len(counts) == 1 else tables[which.squeeze(1)]
        result = torch.empty_like(values)
        for rows in _blocks(values):
            columns = torch.from_numpy(np.argsort(values[rows].numpy(), axis=1))
            tied = _ties(values[rows].gather(1, columns), None if slack is None else slack[rows])
            tied &= position[1:] < count[rows]  # masked values, at the end, may be equal
            result[rows].scatter_(
                1, columns, _with_ties(mapped[rows], tied, count[rows, 0], transform)
            )
    return result.view(unlabeled.shape)


def map_counted_cdf(
    logits: Float[Tensor, "rows columns"],
    function: Callable[[Tensor], Tensor],
    *,
    reach: float,
    excluded: int | None,
    ranks: Ranks,
    key: Hashable,
) -> Float[Tensor, "rows columns"]:
    """Apply ``function`` to the CDF of each logit on the CPU, in little time for small batches.

    The arguments are those of :func:`map_binned_cdf`, but ranks are exact, and ``excluded`` must be
    known. Logits tie if they differ by no more than the rounding of products.
    """
    assert excluded is not None
    table = _table(function, logits.shape[1] - excluded, logits, key)
    untied = table[1::2] if ranks == "mid" else table[2::2]
    untied = F.pad(untied, (excluded, 0), value=-torch.inf)
    slack = ROUNDING * torch.finfo(logits.dtype).eps * reach

    def transform(below: Tensor, through: Tensor, excluded: Tensor) -> Tensor:
        doubled = below + through if ranks == "mid" else 2 * through
        return table[doubled - 2 * excluded]

    of_rows = torch.tensor(excluded).expand(len(logits))
    result = torch.empty_like(logits)
    for rows in _blocks(logits):
        values = logits[rows]
        columns = _order_of_bounded(values, reach)
        tied = _ties(values.gather(1, columns), slack)
        tied[:, :excluded] = False  # the difference of the first is infinite, or NaN
        result[rows].scatter_(
            1, columns, _with_ties(untied.expand_as(values), tied, of_rows[rows], transform)
        )
    return result


def _blocks(values: Float[Tensor, "rows columns"]) -> list[slice]:
    """Return slices of rows that are sorted at a time."""
    rows = max(1, _BLOCK // values.shape[1])
    return [slice(start, start + rows) for start in range(0, len(values), rows)]


def _order_of_bounded(
    values: Float[Tensor, "rows columns"], reach: float
) -> Int[Tensor, "rows columns"]:
    """Return the columns of each row in increasing order.

    NumPy sorts integers with vector instructions, in a fifth of the time of an ``argsort``. A key
    contains the logit, rounded to less than the difference at which logits tie, and the column.
    """
    width = values.shape[1]
    if values.dtype != torch.float32 or width > 256:
        return torch.from_numpy(np.argsort(values.numpy(), axis=1))
    keys = (values * (2**22 / reach)).clamp_(min=-(2**22) - 1).to(torch.int32)
    keys = keys.mul_(256).add_(torch.arange(width, dtype=torch.int32))
    return torch.from_numpy(np.sort(keys.numpy(), axis=1)).bitwise_and_(255).long()


def map_binned_cdf(
    logits: Float[Tensor, "rows columns"],
    function: Callable[[Tensor], Tensor],
    *,
    reach: float,
    excluded: int | None,
    ranks: Ranks,
    key: Hashable,
) -> Float[Tensor, "rows columns"]:
    """Apply ``function`` to the CDF of each logit, from a histogram of each row.

    Logits in one of the ``BINS`` bins between ``-reach`` and ``reach`` tie. This replaces the sort
    of each row, most of the time of large batches on a GPU.

    Args:
        logits: Logits between ``-reach`` and ``reach``; ``-inf`` where a candidate does not count.
        function: Elementwise function of the CDF.
        reach: Largest possible magnitude of a logit.
        excluded: Number of entries of each row that are ``-inf``, if it is the same for all.
        ranks: Kind of rank.
        key: Key of the function among the tensors that are kept.
    """
    device, dtype = logits.device, logits.dtype
    (edges,) = kept(
        ("edges", BINS, reach, device, dtype),
        lambda: (torch.linspace(-reach, reach, BINS + 1, dtype=dtype, device=device),),
    )
    bins = torch.bucketize(logits, edges)  # 0 for -inf
    counts = torch.zeros(len(logits), BINS + 3, dtype=torch.int64, device=device)
    counts[:, 1:].scatter_(1, bins, 1, reduce="add")
    number = logits.shape[1] - counts[:, 1:2] if excluded is None else None
    counts[:, 1].zero_()
    through = counts.cumsum(dim=1)
    # Twice the rank of each bin: of its middle, or of its upper end.
    doubled = through[:, 1:] + (through[:, :-1] if ranks == "mid" else through[:, 1:])
    if number is not None:
        values = function(doubled.to(dtype) / (2 * number.clamp(min=1)))
    else:
        values = _table(function, logits.shape[1] - (excluded or 0), logits, key)[doubled]
    return values.gather(1, bins)


def _table(
    function: Callable[[Tensor], Tensor], count: int, like: Tensor, key: Hashable
) -> Float[Tensor, " doubled_ranks"]:
    """Return a function at all halves of ranks, from 0 to ``count``, and keep it."""

    def make() -> tuple[Tensor]:
        ranks = torch.arange(2 * count + 1, dtype=like.dtype, device=like.device)
        return (function(ranks / (2 * max(1, count))),)

    return kept(("table", key, count, like.dtype, like.device), make)[0]


def _with_ties(
    mapped: Float[Tensor, "rows columns"],
    tied: Bool[Tensor, "rows columns_minus_1"],
    number: Int[Tensor, " rows"],
    transform: Transform,
) -> Float[Tensor, "rows columns"]:
    """Return the values of sorted rows, given the values without ties.

    The last argument of ``transform`` is the ``number`` of each value's row.
    """
    row, place = tied.nonzero(as_tuple=True)  # place and place + 1 tie
    if len(row) == 0:
        return mapped
    mapped = mapped.contiguous()
    width = mapped.shape[1]
    pair = row * width + place
    starts = torch.ones_like(pair, dtype=torch.bool)  # of runs of tied values
    starts[1:] = pair[1:] != pair[:-1] + 1
    run = starts.cumsum(0) - 1  # of each pair
    first = pair[starts]
    below = first % width
    through = below + run.bincount() + 1
    of_runs = transform(below, through, number[first // width])
    for places in (pair, pair + 1):
        mapped.view(-1)[places] = of_runs[run]
    return mapped


def _ties(
    ordered: Float[Tensor, "rows columns"], slack: float | Float[Tensor, "rows 1"] | None
) -> Bool[Tensor, "rows columns_minus_1"]:
    """Return whether each value of sorted rows, but the first, ties with the value before it."""
    if slack is None:
        return ordered[:, 1:] == ordered[:, :-1]
    return ordered.diff(dim=1) <= slack  # False for the infinity of masked values
