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
    excluded = torch.zeros((1, 1), dtype=torch.int64, device=values.device)
    if valid is not None:
        # -inf sorts before all valid values.
        lowest = torch.finfo(values.dtype).min
        values = torch.where(valid, values.clamp(min=lowest), -torch.inf)
        excluded = (~valid).sum(dim=1, keepdim=True)
    excluded = excluded.expand(len(values), 1)
    position = torch.arange(values.shape[1], device=values.device)

    def transform(doubled: Tensor, excluded: Tensor) -> Tensor:
        number = values.shape[1] - excluded
        doubled = (doubled - 2 * excluded).clamp(min=0)  # excluded values have no rank
        return function(doubled.to(values.dtype) / (2 * number.clamp(min=1)))

    if not is_eager_cpu(values):
        # Without branches on the data: each value's number below it, and up to its ties.
        ordered, columns = values.sort(dim=1)
        tied = _ties(ordered, slack)
        edge = tied.new_ones(len(tied), 1)
        starts, ends = torch.cat([edge, ~tied], dim=1), torch.cat([~tied, edge], dim=1)
        below = torch.where(starts, position, 0).cummax(dim=1).values
        last = torch.where(ends, position, len(position) - 1).flip(1).cummin(dim=1).values.flip(1)
        result = ordered.scatter(1, columns, transform(_doubled(below, last + 1, ranks), excluded))
    else:
        # Rows with equally many candidates and without ties have the same values.
        numbers, which = torch.unique(excluded, return_inverse=True)
        untied = transform(_doubled(position, position + 1, ranks), numbers[:, None])
        untied = untied.expand_as(values) if len(numbers) == 1 else untied[which.squeeze(1)]
        result = _map_sorted(values, untied, transform, excluded, slack, ranks)
    return result.view(unlabeled.shape)


def map_bounded_cdf(
    logits: Float[Tensor, "rows columns"],
    function: Callable[[Tensor], Tensor],
    *,
    reach: float,
    excluded: int | None,
    ranks: Ranks,
    key: Hashable,
) -> Float[Tensor, "rows columns"]:
    """Apply ``function`` to the CDF of each logit, given a bound of the logits.

    On the CPU, ranks are exact if ``excluded`` is given: logits tie if they differ by no more than
    the rounding of products. Otherwise, ranks come from a histogram of each row: logits in one of
    the ``BINS`` bins between ``-reach`` and ``reach`` tie. This avoids sorting each row, which
    takes most of the time of large batches on a GPU.

    Args:
        logits: Logits between ``-reach`` and ``reach``; ``-inf`` where a candidate does not count.
        function: Elementwise function of the CDF.
        reach: Largest possible magnitude of a logit.
        excluded: Number of entries of each row that are ``-inf``, if it is the same for all.
        ranks: Kind of rank.
        key: Key of the function among the tensors that are kept.
    """
    device, dtype = logits.device, logits.dtype
    table: Tensor | None = None  # of the function at all halves of ranks
    if excluded is not None:
        count = logits.shape[1] - excluded
        (table,) = kept(
            ("table", key, count, dtype, device),
            lambda: (
                function(
                    torch.arange(2 * count + 1, dtype=dtype, device=device) / (2 * max(1, count))
                ),
            ),
        )
    if excluded is not None and table is not None and is_eager_cpu(logits):
        at_halves = table
        untied = F.pad(table[1::2] if ranks == "mid" else table[2::2], (excluded, 0))
        return _map_sorted(
            logits,
            untied.expand_as(logits),
            lambda doubled, excluded: at_halves[doubled - 2 * excluded],
            torch.full((1, 1), excluded, device=device).expand(len(logits), 1),
            ROUNDING * torch.finfo(dtype).eps * reach,
            ranks,
            reach,
        )
    (edges,) = kept(
        ("edges", BINS, reach, device, dtype),
        lambda: (torch.linspace(-reach, reach, BINS + 1, dtype=dtype, device=device),),
    )
    bins = torch.bucketize(logits, edges)  # 0 for -inf
    counts = torch.zeros(len(logits), BINS + 3, dtype=torch.int64, device=device)
    counts[:, 1:].scatter_(1, bins, 1, reduce="add")
    if table is None:
        number = (logits.shape[1] - counts[:, 1:2]).clamp(min=1)
    counts[:, 1].zero_()
    through = counts.cumsum(dim=1)
    doubled = _doubled(through[:, :-1], through[:, 1:], ranks)
    mapped = function(doubled.to(dtype) / (2 * number)) if table is None else table[doubled]
    return mapped.gather(1, bins)


def _doubled(below: Tensor, through: Tensor, ranks: Ranks) -> Tensor:
    """Return twice the rank of values, given the counts below them and up to their ties."""
    return below + through if ranks == "mid" else 2 * through


def _map_sorted(
    values: Float[Tensor, "rows columns"],
    untied: Float[Tensor, "rows columns"],
    transform: Callable[[Tensor, Tensor], Tensor],
    excluded: Int[Tensor, "rows 1"],
    slack: float | Float[Tensor, "rows 1"] | None,
    ranks: Ranks,
    reach: float | None = None,
) -> Float[Tensor, "rows columns"]:
    """Map values by their ranks on the CPU, given the result of sorted rows without ties.

    The arguments of ``transform`` are twice the ranks, and the number of ``excluded`` values, which
    are -inf, in each value's row.
    """
    result = torch.empty_like(values)
    position = torch.arange(values.shape[1] - 1, device=values.device)
    count = max(1, _BLOCK // values.shape[1])
    for rows in (slice(start, start + count) for start in range(0, len(values), count)):
        columns = _order(values[rows], reach)
        ordered = values[rows].gather(1, columns)
        tied = _ties(ordered, slack[rows] if isinstance(slack, Tensor) else slack)
        tied &= position >= excluded[rows]
        mapped, (row, place) = untied[rows], tied.nonzero(as_tuple=True)  # place and place + 1 tie
        if len(row) > 0:
            mapped = mapped.contiguous()
            width = mapped.shape[1]
            pair = row * width + place
            starts = torch.ones_like(pair, dtype=torch.bool)  # of runs of tied values
            starts[1:] = pair[1:] != pair[:-1] + 1
            run = starts.cumsum(0) - 1  # of each pair
            first = pair[starts]
            below = first % width
            doubled = _doubled(below, below + run.bincount() + 1, ranks)
            of_runs = transform(doubled, excluded[rows][first // width, 0])
            for places in (pair, pair + 1):
                mapped.view(-1)[places] = of_runs[run]
        result[rows].scatter_(1, columns, mapped)
    return result


def _order(
    values: Float[Tensor, "rows columns"], reach: float | None
) -> Int[Tensor, "rows columns"]:
    """Return the columns of each row in increasing order.

    NumPy sorts integers with vector instructions, in a fifth of the time of an ``argsort``. If the
    values are bounded, each integer contains a value, rounded to less than the difference at which
    values tie, and its column.
    """
    width = values.shape[1]
    if reach is None or values.dtype != torch.float32 or width > 256:
        return torch.from_numpy(np.argsort(values.numpy(), axis=1))
    keys = (values * (2**22 / reach)).clamp_(min=-(2**22) - 1).to(torch.int32)
    keys = keys.mul_(256).add_(torch.arange(width, dtype=torch.int32))
    return torch.from_numpy(np.sort(keys.numpy(), axis=1)).bitwise_and_(255).long()


def _ties(
    ordered: Float[Tensor, "rows columns"], slack: float | Float[Tensor, "rows 1"] | None
) -> Bool[Tensor, "rows columns_minus_1"]:
    """Return whether each value of sorted rows, but the first, ties with the value before it."""
    if slack is None:
        return ordered[:, 1:] == ordered[:, :-1]
    return ordered.diff(dim=1) <= slack  # False for infinite differences
