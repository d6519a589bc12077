"""``--loader`` on the command line: chosen, remembered, interrupted."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from runs.launched import SECONDS, begin

SCRIPT = Path(__file__).with_name("in_background.py")
OPTIONS = "--batch_size 16 --width 4 --epochs 1 --device cpu"


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="children are found in /proc")
def test_ctrl_c_ends_with_130_and_leaves_a_run_that_can_go_on_and_no_workers(
    bayescl, pictures, tmp_path
):
    pictures(tmp_path / "pets")
    line = f"train images --data pets {OPTIONS} --epochs 100000 --out run"
    line += " --loader stream --loader-workers 2"
    log, deadline = tmp_path / "log", time.monotonic() + SECONDS
    process = begin(SCRIPT, tmp_path, *line.split(), log=log)
    try:
        while not Path("run/checkpoints/last.ckpt").is_file() and time.monotonic() < deadline:
            assert process.is_alive(), log.read_text()
            time.sleep(0.01)
        workers = children_of(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        process.join(SECONDS)
    finally:
        process.kill()
    err = log.read_text()
    assert process.exitcode == 130, err
    assert len(workers) == 2
    assert "Traceback" not in err
    said = "bayescl: interrupted: bayescl train images --out run --resume continues from the last"
    assert err.strip().splitlines()[-1].startswith(said)
    while any(map(is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(map(is_alive, workers))
    assert bayescl("evaluate run").status == 0


def children_of(process: int) -> list[int]:
    return [
        int(status.parent.name)
        for status in Path("/proc").glob("[0-9]*/status")
        if f"\nPPid:\t{process}\n" in read(status)
    ]


def is_alive(process: int) -> bool:
    status = read(Path(f"/proc/{process}/status"))
    return bool(status) and "\nState:\tZ" not in status


def read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it ended meanwhile
        return ""
