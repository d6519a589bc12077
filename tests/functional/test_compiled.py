"""Weights by exact rank in machine code against NumPy's way, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from cases import each
from torch import Tensor

from bayescl.engine import sums
from bayescl.engine.sums import add_log_weights
from bayescl.functional.bayesian import Bayesian
from bayescl.functional.excluded import Excluded
from bayescl.functional.ranks import Ranks

numba = pytest.importorskip("numba", reason="needs Numba")


def hard_rows(width: int, generator: torch.Generator) -> Tensor:
    """Rows with ties, near neighbours and extreme ranges."""
    rows = torch.randn(10, width, generator=generator)
    rows[1] = rows[1].round(decimals=1)
    rows[2] = 0.25
    rows[3] = 2 + 1e-6 * rows[3]
    rows[4] *= 1e-40
    rows[5] *= 1e37
    rows[6] = rows[6].sign()
    rows[7, : width // 2] = rows[7, 0]
    rows[8, 0] = -1e6  # leaves the rest on few levels
    rows[9] = torch.tensor([-3e38, 3e38, 0.0])[torch.arange(width) % 3]
    return rows


def exclusions(width: int, generator: torch.Generator) -> Iterator[Excluded]:
    yield Excluded()
    drawn = torch.rand(10, width, generator=generator)
    yield Excluded(drawn.argsort(dim=1)[:, :2])
    mask = drawn < 0.2
    mask[0], mask[4] = True, False
    yield Excluded(mask=mask)
    yield Excluded(mask=mask.T.contiguous().T)  # as of a second direction


def both_ways(
    objective: Bayesian, logits: Tensor, excluded: Excluded, monkeypatch: pytest.MonkeyPatch
) -> list[Tensor]:
    found = [logits.clone(), logits.clone()]
    add_log_weights(objective, found[0], excluded)
    with monkeypatch.context() as patch:
        patch.setattr(sums, "compiled_ranks", lambda: None)
        add_log_weights(objective, found[1], excluded)
    return found


@each("ranks", ["mid", "upper"])
@each("width", [2, 3, 64, 512, 513, 1682, 2049, 5000])
def test_machine_code_and_numpy_give_the_same_bits(
    width: int, ranks: Ranks, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(width)
    logits = hard_rows(width, generator)
    objective = Bayesian(0.9, 0.7, 0.1, ranks)
    for excluded in exclusions(width, generator):
        compiled, other = both_ways(objective, logits, excluded, monkeypatch)
        assert torch.equal(compiled, other)
        assert not torch.equal(compiled, logits)


def test_what_is_excluded_may_hold_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(10, 700, generator=generator)
    _, by_column, by_mask, _ = exclusions(700, generator)
    for excluded in (by_column, by_mask):
        mask = excluded.mask
        if mask is None:
            mask = torch.zeros(10, 700, dtype=torch.bool).scatter_(1, by_column.columns, True)
        for poison in (torch.nan, torch.inf, -torch.inf):
            work = logits.masked_fill(mask, poison)
            compiled, _ = both_ways(Bayesian(0.9, 0.7, 0.1), work, excluded, monkeypatch)
            clean, _ = both_ways(Bayesian(0.9, 0.7, 0.1), logits, excluded, monkeypatch)
            assert torch.equal(compiled, clean)


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sums.compiled_ranks() is not None
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    sums.compiled_ranks.cache_clear()
    try:
        assert sums.compiled_ranks() is None
    finally:
        sums.compiled_ranks.cache_clear()
