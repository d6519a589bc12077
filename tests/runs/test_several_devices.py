"""Two gloo ranks, each with half of every batch, train what one process trains."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from runs.launched import run_on_ranks
from runs.train_on_ranks import CASES, train_all

from bayescl_lab.runs.ranking.settings import RankingSettings
from bayescl_lab.runs.settings import process_rank

SCRIPT = Path(__file__).with_name("train_on_ranks.py")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What one process came to, and each of two, by case."""
    folder = tmp_path_factory.mktemp("ranks")
    run_on_ranks(SCRIPT, folder / "two", 2)
    ranks = [torch.load(folder / f"two/rank{rank}.pt", weights_only=True) for rank in range(2)]
    return train_all(folder / "one", 1), ranks


@pytest.mark.distributed
@pytest.mark.parametrize("case", list(CASES))
def test_two_ranks_end_with_the_weights_of_one_process_and_the_first_writes_the_loss(case, results):
    one, (first, second) = results[0][case], (rank[case] for rank in results[1])
    for rank in (first, second):
        for name, value in one["weights"].items():
            torch.testing.assert_close(rank["weights"][name], value, atol=2e-5, rtol=1e-4)
    assert len(one["losses"]) == 2
    assert first["losses"] == pytest.approx(one["losses"], rel=1e-5)
    assert second["losses"] == []


@pytest.mark.parametrize(
    ("environment", "devices", "expected"),
    [
        ({}, 1, (0, 0)),
        ({"LOCAL_RANK": "5", "RANK": "7"}, 1, (0, 0)),  # of somebody else's processes
        ({"LOCAL_RANK": "1", "NODE_RANK": "2"}, 4, (9, 1)),
        ({"WORLD_SIZE": "8", "LOCAL_RANK": "1", "RANK": "5", "GROUP_RANK": "1"}, 4, (5, 1)),
        ({"WORLD_SIZE": "2", "LOCAL_RANK": "0", "GROUP_RANK": "1"}, 1, (1, 0)),
    ],
)
def test_a_process_finds_its_rank_in_what_launchers_say(
    environment, devices, expected, monkeypatch
):
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "GROUP_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert process_rank(devices) == expected


def test_torchrun_must_start_as_many_processes_as_train_together(monkeypatch):
    launched = {"WORLD_SIZE": "4", "LOCAL_RANK": "1", "RANK": "3", "GROUP_RANK": "1"}
    for name, value in {**launched, "TORCHELASTIC_RUN_ID": "none"}.items():
        monkeypatch.setenv(name, value)
    assert RankingSettings(devices=2, num_nodes=2).this_process() == (3, 1)
    with pytest.raises(ValueError, match=r"must be 4, the number .* started, got 2 times 1$"):
        RankingSettings(devices=2).this_process()
