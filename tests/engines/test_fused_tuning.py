"""The choice of a tile by measuring."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bayescl.engines import _fused_tuning as tuning
from bayescl.engines._fused_tiles import Tile
from bayescl.engines._fused_tuning import Work, chosen_tiles, fastest_tile, may_measure

TILES = (Tile(64, 64, 64, 0), Tile(32, 64, 64, 0), Tile(128, 64, 64, 0))
WORK = Work("range", torch.device("cuda", 0), torch.bfloat16, "ieee", 128, 0, size=0)


@pytest.fixture(autouse=True)
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "_chosen", {})


def times(*milliseconds: float | None):
    """A function that gives each tile its time, and fails where there is none."""
    asked: list[Tile] = []

    def measured(tile: Tile) -> float:
        asked.append(tile)
        found = milliseconds[TILES.index(tile)]
        if found is None:
            raise RuntimeError("out of resource: shared memory")
        return found

    return measured, asked


@pytest.mark.parametrize(
    ("milliseconds", "best"),
    [((3.0, 2.0, 1.0), 2), ((3.0, 2.0, 2.5), 1), ((3.0, 4.0, 5.0), 0), ((3.0, 2.99, 2.98), 0)],
)
def test_the_fastest_tile_is_chosen_and_a_tie_keeps_the_default(milliseconds, best) -> None:
    measured, _ = times(*milliseconds)
    assert fastest_tile(WORK, TILES, measured) == TILES[best]


def test_a_tile_is_measured_once_for_the_same_work() -> None:
    measured, asked = times(3.0, 2.0, 1.0)
    other = replace(WORK, size=1)
    for work in (WORK, WORK, other):
        fastest_tile(work, TILES, measured)
    assert asked == [*TILES, *TILES]
    assert chosen_tiles() == {WORK: TILES[2], other: TILES[2]}


def test_a_tile_that_the_device_refuses_is_passed_over_but_not_the_default() -> None:
    assert fastest_tile(WORK, TILES, times(3.0, None, 2.0)[0]) == TILES[2]
    with pytest.raises(RuntimeError, match="out of resource"):
        fastest_tile(replace(WORK, dim=64), TILES, times(None, 2.0, 2.0)[0])
    assert chosen_tiles() == {WORK: TILES[2]}


def test_nothing_is_measured_on_a_cpu_or_where_algorithms_must_be_deterministic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert not may_measure(torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    assert may_measure(torch.device("cuda"))
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert not may_measure(torch.device("cuda"))
