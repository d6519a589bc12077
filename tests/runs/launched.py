"""A training script on several processes, started as a launcher would start them."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import socket
import sys
from pathlib import Path

SECONDS = 240


def run_on_ranks(script: Path, folder: Path, ranks: int) -> None:
    """Run ``script FOLDER RANKS`` on every rank until all are done, in a new folder."""
    folder.mkdir()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    given = [(script, folder, rank, ranks, port) for rank in range(ranks)]
    processes = [context.Process(target=_run, args=place) for place in given]
    for process in processes:
        process.start()
    try:
        for rank, process in enumerate(processes):
            process.join(SECONDS)
            assert process.exitcode == 0, (folder / f"{rank}.log").read_text()
    finally:
        for process in processes:
            process.kill()


def _run(script: Path, folder: Path, rank: int, ranks: int, port: int) -> None:
    places = {"WORLD_SIZE": ranks, "LOCAL_RANK": rank, "NODE_RANK": 0}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in {**places, **address}.items()})
    sys.argv = [str(script), str(folder), str(ranks)]
    with (folder / f"{rank}.log").open("w") as log:
        for stream in (1, 2):
            os.dup2(log.fileno(), stream)
    runpy.run_path(str(script), run_name="__main__")
