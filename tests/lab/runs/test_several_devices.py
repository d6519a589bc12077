"""Two gloo ranks, each with a part of every batch, train what one process trains."""

import os
import signal
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from ranking_data import OPTIONS, write_groups
from runs.launched import IN_BACKGROUND, SECONDS, begin, run_on_ranks, wait_for
from runs.same_run import rows_of
from runs.train_on_ranks import CASES, found, train_all

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.ranking.ranking_settings import RankingSettings
from bayescl_lab.runs.result import Result
from bayescl_lab.runs.settings import process_rank

SCRIPT = Path(__file__).with_name("train_on_ranks.py")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """What one process and what two came to, by case."""
    folder = tmp_path_factory.mktemp("ranks")
    write_groups(folder)
    train_all(folder / "one", 1)
    run_on_ranks(SCRIPT, folder / "two", 2)
    return found(folder / "one"), found(folder / "two")


@pytest.mark.distributed
@pytest.mark.parametrize("case", CASES)
def test_two_ranks_end_with_the_weights_and_losses_of_one_process(case, results):
    (weights, losses), (shared_weights, shared_losses) = (of[case] for of in results)
    torch.testing.assert_close(shared_weights, weights, atol=2e-5, rtol=1e-4)
    assert len(losses) == 2
    assert shared_losses == pytest.approx(losses, rel=1e-5)


def begun(folder: Path, *, failing: int = -1, epochs: int = 2) -> BaseProcess:
    """Start a command line, which starts the second process by itself; one rank may fail."""
    write_groups(folder)
    words = f"train ranking {OPTIONS} --epochs {epochs} --devices 2 --out run".split()
    options = {"log": folder / "log", "OMP_NUM_THREADS": 1, "FAILING_RANK": failing}
    return begin(IN_BACKGROUND, folder, *words, **options)


def ended(process: BaseProcess) -> int | None:
    """Wait until a process has ended; its exit status."""
    process.join(SECONDS)
    process.kill()
    return process.exitcode


@pytest.mark.distributed
def test_the_command_line_starts_a_process_for_each_device(tmp_path):
    status = ended(begun(tmp_path))
    printed = (tmp_path / "log").read_text()
    assert status == 0, printed
    assert printed.count("run folder: ") == 1  # the second process shows nothing
    assert "Warning" not in printed
    assert "Traceback" not in printed
    folder = RunFolder.find(tmp_path / "run")
    assert folder.config()["devices"] == 2
    assert [row["epoch"] for row in rows_of(folder.path)] == [1, 2]
    assert Result.read_file(folder.result_file).baselines.keys() == {"popularity", "ease"}


@pytest.mark.distributed
def test_a_rank_that_fails_ends_all(tmp_path):
    assert ended(begun(tmp_path, failing=1)) != 0
    assert "bayescl: rank 1 has had enough" in (tmp_path / "log").read_text()
    assert not (tmp_path / "run").exists()


@pytest.mark.distributed
@pytest.mark.skipif(sys.platform != "linux", reason="finds the process in /proc")
def test_a_killed_process_ends_all_with_one_line(tmp_path):
    process = begun(tmp_path, epochs=100_000)
    checkpoint = tmp_path / "run/checkpoints/last.ckpt"
    wait_for(checkpoint, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    assert ended(process) == 2
    (error,) = [it for it in (tmp_path / "log").read_text().splitlines() if " of 100" not in it]
    assert error.startswith("bayescl: another process of the run has ended")


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
