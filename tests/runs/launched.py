"""A training script on several processes, started as a launcher would start them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

SECONDS = 240


def free_port() -> int:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


def run_on_ranks(script: Path, folder: Path, ranks: int) -> None:
    """Run ``script FOLDER RANKS`` on every rank until all are done, in a new folder."""
    folder.mkdir()
    port, processes = str(free_port()), []
    for rank in range(ranks):
        environment = {
            **os.environ,
            "WORLD_SIZE": str(ranks),
            "LOCAL_RANK": str(rank),
            "NODE_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, str(script), str(folder), str(ranks)]
        processes.append(
            subprocess.Popen(
                command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        )
    try:
        for process in processes:
            output, _ = process.communicate(timeout=SECONDS)
            assert process.returncode == 0, output.decode()
    finally:
        for process in processes:
            process.kill()
