"""Scripts in processes forked from a server that has loaded what they need."""

import multiprocessing
import os
import runpy
import socket
import sys
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

SECONDS = 240
IN_BACKGROUND = Path(__file__).with_name("in_background.py")


def begin(script: Path, *words: object, log: Path, **environment: object) -> BaseProcess:
    """Start a script with the words of a command line; what it prints goes to a file."""
    methods = multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("forkserver" if "forkserver" in methods else "spawn")
    argv = [str(script), *map(str, words)]
    named = {name: str(value) for name, value in environment.items()}
    process = context.Process(target=_run, args=(argv, log, named))
    process.start()
    return process


def wait_for(file: Path, process: BaseProcess) -> None:
    """Wait until a process has written a file."""
    deadline = time.monotonic() + SECONDS
    while not file.exists() and process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)


def run_on_ranks(script: Path, folder: Path, ranks: int) -> None:
    """Run ``script FOLDER RANKS`` on every rank until all are done, in a new folder."""
    folder.mkdir()
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    place = {"WORLD_SIZE": ranks, "NODE_RANK": 0, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    logs = [folder / f"{rank}.log" for rank in range(ranks)]
    processes = [
        begin(script, folder, ranks, log=log, LOCAL_RANK=rank, **place)
        for rank, log in enumerate(logs)
    ]
    try:
        for process, log in zip(processes, logs, strict=True):
            process.join(SECONDS)
            assert process.exitcode == 0, log.read_text()
    finally:
        for process in processes:
            process.kill()


def _run(argv: list[str], log: Path, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    sys.argv = argv
    sys.modules["__main__"].__spec__ = None  # as that of a script, which is started by its path
    with log.open("w") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    runpy.run_path(argv[0], run_name="__main__")
