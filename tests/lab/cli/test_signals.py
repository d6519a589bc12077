"""Ctrl-C and SIGTERM end a run with their own status and one line that says how to continue."""

import os
import shlex
import signal
import sys
import time

import pytest
from ranking_data import COLUMNS, OPTIONS, write_groups
from runs.launched import IN_BACKGROUND, SECONDS, begin, wait_for

IMAGES = "train images --data shapes.npz --batch-size 20 --width 4 --device cpu --epochs 100000"
RANKING = f"train ranking {OPTIONS} --epochs 1000000"
ENDS = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


@pytest.mark.parametrize("number", ENDS)
@pytest.mark.parametrize(
    "line", [IMAGES, RANKING, pytest.param(f"{IMAGES} --devices 2", marks=pytest.mark.distributed)]
)
def test_a_signal_ends_a_run_with_its_status_and_one_line(shapes, tmp_path, number, line):
    write_groups(tmp_path)
    status, word = ENDS[number]
    log, words = tmp_path / "log", shlex.split(f"{line} --out run")
    process = begin(IN_BACKGROUND, tmp_path, *words, log=log, OMP_NUM_THREADS=1)
    wait_for(tmp_path / "run/checkpoints/last.ckpt", process)
    # A terminal sends Ctrl-C to the whole group, a scheduler SIGTERM to the process it started.
    (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    process.join(SECONDS)
    process.kill()
    assert process.exitcode == status, log.read_text()
    # Lines of progress come in between on a slow machine.
    errors = [it for it in log.read_text().splitlines() if " of " not in it]
    again = f"bayescl {' '.join(words[:2])} --out run --resume continues from the last checkpoint"
    assert errors == [f"bayescl: {word}: {again}"]
    metrics = tmp_path / "run/metrics.csv"
    before = metrics.read_text() if metrics.exists() else ""
    time.sleep(0.5)
    assert (metrics.read_text() if metrics.exists() else "") == before


AGAIN = "nothing was done yet: run the same command again"


@pytest.mark.parametrize("number", ENDS)
@pytest.mark.parametrize(
    ("line", "place", "message"),
    [
        (
            "train ranking --encoder mf",
            "runs.ranking.ranking_run.RankingRun.fit",
            "bayescl train ranking --out run --resume continues from the start",
        ),
        ("train ranking --encoder mf", "ranking.datasets.read_interactions", AGAIN),
        ("train images", "images.datasets.array_names", AGAIN),
        ("compare images --losses info_nce", "images.datasets.array_names", AGAIN),
    ],
)
def test_before_the_first_checkpoint_the_line_says_where_a_run_continues(
    bayescl, bought, shapes, monkeypatch, number, line, place, message
):
    handlers = {number: signal.getsignal(number) for number in ENDS}
    monkeypatch.setattr("bayescl_lab._interrupts._PATIENCE", 0.01)

    class InDestructor:
        def __del__(self) -> None:
            signal.raise_signal(number)

    def receive(*_, **__) -> None:
        InDestructor()
        time.sleep(SECONDS)

    monkeypatch.setattr(f"bayescl_lab.{place}", receive)
    data = COLUMNS if "ranking" in line else f"--data {shapes}"
    outcome = bayescl(f"{line} {data} --out run")
    for each, handler in handlers.items():  # the command ignores further signals
        signal.signal(each, handler)
    status, word = ENDS[number]
    assert outcome.status == status
    assert outcome.err == f"bayescl: {word}: {message}\n"
