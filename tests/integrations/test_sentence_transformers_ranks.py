"""Ranking losses on two processes: unequal batches equal one process, equal ones equal theirs."""

from __future__ import annotations

import os

import pytest
import torch

pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")

from ranks import launch

from integrations import text_ranks

pytestmark = [pytest.mark.distributed, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[launch.Findings]:
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers of this run
    return launch.run_once(text_ranks.on_a_rank, 2, seconds=300, folder=folder / "text-ranks")


@pytest.mark.parametrize("name", list(text_ranks.SETTINGS))
def test_two_processes_with_unequal_batches_are_one_with_the_whole_batch(
    name: str, found: list[launch.Findings]
) -> None:
    value, gradient = text_ranks.whole(name)
    assert sum(rank[name][0] for rank in found) / 2 == pytest.approx(value, rel=1e-6)
    for rank in found:
        torch.testing.assert_close(torch.tensor(rank[name][1]), gradient, rtol=0, atol=1e-5)


def test_two_processes_with_equal_batches_are_multiple_negatives_ranking_loss(
    found: list[launch.Findings],
) -> None:
    for rank in found:
        assert rank["ours"][0] == pytest.approx(rank["theirs"][0], rel=1e-6)
        torch.testing.assert_close(
            torch.tensor(rank["ours"][1]), torch.tensor(rank["theirs"][1]), rtol=0, atol=1e-5
        )
