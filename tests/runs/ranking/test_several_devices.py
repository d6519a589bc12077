"""Two gloo ranks, each with a part of every batch, train the recommender of one process."""

from __future__ import annotations

import csv
import json
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
import yaml
from ranking_data import write_groups
from runs.launched import SECONDS, begin, run_on_ranks
from runs.ranking.train_on_ranks import CASES, found, train_all

SCRIPT = Path(__file__).with_name("train_on_ranks.py")

pytestmark = pytest.mark.distributed


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """By case, what one process and what two found."""
    folder = tmp_path_factory.mktemp("ranks")
    data = write_groups(folder)
    train_all(folder / "one", data, 1)
    run_on_ranks(SCRIPT, folder / "two", 2)
    one, two = found(folder / "one"), found(folder / "two")
    return {case: (one[case], two[case]) for case in one}


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_find_what_one_process_finds(case, results):
    one, two = results[case]
    for name, table in one["tables"].items():
        np.testing.assert_allclose(two["tables"][name], table, atol=2e-5, rtol=1e-4)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert two["metrics"] == pytest.approx(one["metrics"])
    assert two["epochs"] == one["epochs"]


def begun(folder: Path, *, failing: int = -1, epochs: int = 2) -> BaseProcess:
    """Start a command line, which starts the second process by itself; one rank may fail."""
    line = "train ranking --user-column customer --item-column product --dim 8 --candidates 8 "
    line += f"--batch-size 7 --epochs {epochs} --device cpu --devices 2"
    line += f" --data {write_groups(folder)} --out {folder / 'run'}"
    options = {"log": folder / "log", "OMP_NUM_THREADS": 1}
    return begin(SCRIPT.with_name("fail_on_rank.py"), failing, *line.split(), **options)


def ended(process: BaseProcess) -> int | None:
    """Wait until a process has ended; its exit status."""
    process.join(SECONDS)
    process.kill()
    return process.exitcode


def test_the_command_line_starts_a_process_for_each_device(tmp_path):
    status = ended(begun(tmp_path))
    printed = (tmp_path / "log").read_text()
    assert status == 0, printed
    assert printed.count("run folder: ") == 1  # the second process shows nothing
    assert "Warning" not in printed
    assert "Traceback" not in printed
    run = tmp_path / "run"
    assert yaml.safe_load((run / "config.yaml").read_text())["devices"] == 2
    with (run / "metrics.csv").open() as file:
        assert [row["epoch"] for row in csv.DictReader(file)] == ["1", "2"]
    baselines = json.loads((run / "result.json").read_text())["baselines"]
    assert baselines.keys() == {"popularity", "ease"}


def test_a_rank_that_fails_ends_all(tmp_path):
    assert ended(begun(tmp_path, failing=1)) != 0
    assert "bayescl: rank 1 has had enough" in (tmp_path / "log").read_text()
    assert not (tmp_path / "run").exists()
