"""The empirical CDF against counting, one logit at a time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescl.functional import empirical_cdf
from bayescl.functional.excluded import Excluded
from bayescl.functional.ranks import RANKS, Ranks
from bayescl.functional.sorting import columns_in_order


def counted(row: list[float], ranks: str) -> list[float]:
    shift = 0.5 if ranks == "mid" else 1.0
    return [
        (sum(other < value for other in row) + shift * sum(other == value for other in row))
        / len(row)
        for value in row
    ]


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 4).flatmap(
        lambda width: st.lists(
            st.lists(st.sampled_from([-2.0, -0.0, 0.0, 0.5, 3.0]), min_size=width, max_size=width),
            min_size=1,
            max_size=5,
        )
    ),
    ranks=st.sampled_from(RANKS),
)
def test_ties_share_one_value_and_it_is_the_counted_one(
    rows: list[list[float]], ranks: Ranks
) -> None:
    expected = torch.tensor([counted(row, ranks) for row in rows])
    torch.testing.assert_close(empirical_cdf(torch.tensor(rows), ranks=ranks), expected)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), ranks=st.sampled_from(RANKS))
def test_masked_logits_do_not_count(data: st.DataObject, ranks: Ranks) -> None:
    width = data.draw(st.integers(1, 6))
    values = st.sampled_from([-1.0, 0.0, 0.25, 7.0, float("inf")])
    row = data.draw(st.lists(values, min_size=width, max_size=width))
    keep = data.draw(st.lists(st.booleans(), min_size=width, max_size=width))
    result = empirical_cdf(torch.tensor([row]), valid=torch.tensor([keep]), ranks=ranks)[0]
    kept = [value for value, flag in zip(row, keep, strict=True) if flag]
    torch.testing.assert_close(result[torch.tensor(keep)], torch.tensor(counted(kept, ranks)))
    assert (result[~torch.tensor(keep)] == 1).all()


@each("ranks", RANKS)
@each("dtype", [torch.float32, torch.float64])
def test_the_route_without_a_look_at_the_data_agrees(ranks: Ranks, dtype: torch.dtype) -> None:
    # Under vmap no code may branch on values.
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 30, 5000, dtype=dtype, generator=generator)  # cut into several blocks
    logits[:, ::7] = logits[:, ::7].round(decimals=1)  # some rows with ties, some without
    valid = torch.rand(logits.shape, generator=generator) < 0.9
    plain = torch.func.vmap(lambda x, v: empirical_cdf(x, valid=v, ranks=ranks))(logits, valid)
    assert torch.equal(plain, empirical_cdf(logits, valid=valid, ranks=ranks))


def test_rows_of_any_batch_shape_are_ranked_alone_and_half_precision_in_float32() -> None:
    logits = torch.randn(2, 3, 4, 9, generator=torch.Generator().manual_seed(1))
    stacked = empirical_cdf(logits)
    assert stacked.shape == logits.shape
    torch.testing.assert_close(stacked[1, 2, 3], empirical_cdf(logits[1, 2, 3]))
    assert empirical_cdf(logits.bfloat16()).dtype == torch.float32


def assert_in_order(values: torch.Tensor) -> None:
    columns = columns_in_order(values).columns
    assert torch.equal(values.gather(1, columns), values.sort(dim=1).values)
    every = torch.arange(values.shape[1]).expand_as(values)
    assert torch.equal(columns.sort(dim=1).values, every)


def test_every_kind_of_float_is_sorted() -> None:
    special = [0.0, -0.0, 1e-45, -1e-45, 1e-38, -1e-38, float("inf"), -float("inf"), 3e38, -3e38]
    noise = torch.randn(7, 90, generator=torch.Generator().manual_seed(2))
    assert_in_order(torch.cat([noise, torch.tensor([special] * 7)], dim=1))
    assert_in_order(1e-40 * noise)  # a range too small to divide by
    largest = columns_in_order(torch.tensor([[float("nan"), 1.0, float("inf")]])).columns
    assert largest.tolist() == [[1, 2, 0]]


@each("columns", [2, 3, 64, 1000, 1024, 1025, 8192, 40_000])
def test_sorting_is_exact_where_values_are_too_close_to_be_told_apart_by_rounding(
    columns: int,
) -> None:
    generator = torch.Generator().manual_seed(columns)
    near = torch.linspace(0.5, 0.5 + 1e-5, columns).expand(5, columns).clone()
    near[:, 0], near[:, -1] = -1.0, 1.0  # the range makes the rest share a few levels
    near[3] = 0.25  # nothing but ties
    near[4] = torch.randn(columns, generator=generator)  # a few neighbours to swap, if long
    order = torch.rand(5, columns, generator=generator).argsort(dim=1)
    assert_in_order(near.gather(1, order))


def test_a_rank_convention_of_another_name_is_refused() -> None:
    with pytest.raises(ValueError, match="ranks must be one of mid, upper, got 'lower'"):
        empirical_cdf(torch.zeros(1, 2), ranks="lower")  # type: ignore[arg-type]


@each("dtype", [torch.float32, torch.float64])
def test_rows_need_not_be_contiguous(dtype: torch.dtype) -> None:
    values = torch.randn(30, 7, generator=torch.Generator().manual_seed(0), dtype=dtype).T
    places = np.arange(7) * 30 + 4
    expected = columns_in_order(values.contiguous(), places, np.array([29]))
    found = columns_in_order(values, places, np.array([29]))
    assert torch.equal(found.columns, expected.columns)
    assert (found.columns[:, -1] == 4).all()


@each("dtype", [torch.float32, torch.float64])
@each("form", ["columns", "mask"])
@each("width", [50, 1100])
def test_what_is_excluded_is_sorted_behind_whatever_it_holds(
    width: int, form: str, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(4)
    values = torch.randn(7, width, generator=generator, dtype=dtype)
    values[1] = values[1].round(decimals=1)  # ties
    values[2, 7] = torch.inf
    last = torch.tensor([[0, width - 1], [3, 1], [5, 6], [2, 9], [8, 4], [10, 20], [7, 6]])
    values[3, 2] = torch.nan
    mask = torch.zeros_like(values, dtype=torch.bool).scatter_(1, last, True)
    values[4] = 2.0 + 1e-6 * values[4]  # near neighbours
    values[4, 8], values[4, 4], values[5, 10] = -1e30, torch.nan, torch.inf
    if form == "mask":
        mask[0] = False
        mask[5, : width - 10] = True
        mask[6] = True
    excluded = Excluded(last) if form == "columns" else Excluded(mask=mask)
    counts = width - mask.sum(dim=1)
    work = values.clone()
    columns, ties = columns_in_order(work, excluded.places(width), counts.numpy())
    assert torch.equal(work[~mask].nan_to_num(), values[~mask].nan_to_num())
    ordered = work.gather(1, columns)
    expected = []
    for row, count in enumerate(counts.tolist()):
        kept = values[row][~mask[row]].sort().values
        assert torch.equal(ordered[row, :count], kept)
        assert torch.equal(values[row, columns[row, :count]], kept)
        assert sorted(columns[row].tolist()) == list(range(width))
        if row not in (2, 3):  # whose own values are not finite
            assert (ordered[row, count:] < torch.inf).all()
        expected += [
            row * width + place for place in range(count - 1) if kept[place] == kept[place + 1]
        ]
    assert ties.tolist() == expected
