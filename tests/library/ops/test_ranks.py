"""The empirical CDF against counting, one logit at a time."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bayescl._ops.ranks import RANKS
from bayescl.functional import empirical_cdf


def counted(row: list[float], ranks: str) -> list[float]:
    shift = 0.5 if ranks == "mid" else 1.0
    return [
        (sum(other < value for other in row) + shift * sum(other == value for other in row))
        / len(row)
        for value in row
    ]


@settings(max_examples=100, deadline=None)
@given(data=st.data(), ranks=st.sampled_from(RANKS))
def test_ties_share_the_counted_value_and_masked_logits_do_not_count(data, ranks):
    shape = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    values = st.sampled_from([-2.0, -0.0, 0.0, 0.5, 3.0, float("inf")])

    def drawn(entries: st.SearchStrategy) -> torch.Tensor:
        size = shape[0] * shape[1]
        return torch.tensor(data.draw(st.lists(entries, min_size=size, max_size=size))).view(shape)

    logits = drawn(values)
    valid = drawn(st.booleans()) if data.draw(st.booleans()) else None
    result = empirical_cdf(logits, valid=valid, ranks=ranks)
    for row, out, kept in zip(
        logits, result, torch.ones(shape) > 0 if valid is None else valid, strict=True
    ):
        torch.testing.assert_close(out[kept], torch.tensor(counted(row[kept].tolist(), ranks)))
        assert (out[~kept] == 1).all()


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_route_without_a_look_at_the_data_agrees(ranks, dtype):
    # Under vmap no code may branch on values.
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 30, 5000, dtype=dtype, generator=generator)  # cut into several blocks
    logits[:, ::7] = logits[:, ::7].round(decimals=1)  # some rows with ties, some without
    valid = torch.rand(logits.shape, generator=generator) < 0.9
    plain = torch.func.vmap(lambda x, v: empirical_cdf(x, valid=v, ranks=ranks))(logits, valid)
    assert torch.equal(plain, empirical_cdf(logits, valid=valid, ranks=ranks))


def test_rows_of_any_batch_shape_are_ranked_alone_and_half_precision_in_float32():
    logits = torch.randn(2, 3, 4, 9, generator=torch.Generator().manual_seed(1))
    stacked = empirical_cdf(logits)
    assert stacked.shape == logits.shape
    torch.testing.assert_close(stacked[1, 2, 3], empirical_cdf(logits[1, 2, 3]))
    assert empirical_cdf(logits.bfloat16()).dtype == torch.float32


def test_a_rank_convention_of_another_name_is_refused():
    with pytest.raises(ValueError, match="ranks must be one of mid, upper, got 'lower'"):
        empirical_cdf(torch.zeros(1, 2), ranks="lower")  # type: ignore[arg-type]


def test_every_kind_of_float_is_ranked_and_rows_need_not_be_contiguous():
    special = [float("-inf"), -3e38, -1e-38, -1e-45, 0.0, -0.0, 1e-45, 1e-38, 3e38, float("inf")]
    order = torch.randperm(10, generator=torch.Generator().manual_seed(2))
    logits = torch.tensor(special)[order].repeat(2, 1).T.contiguous().T
    expected = torch.tensor([0.05, 0.15, 0.25, 0.35, 0.5, 0.5, 0.65, 0.75, 0.85, 0.95])[order]
    torch.testing.assert_close(empirical_cdf(logits), expected.repeat(2, 1))
