"""Start ranks once, bring back what each of them found, and never wait forever."""

import multiprocessing
import pickle
import tempfile
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist
from torch.multiprocessing import start_processes

Findings = dict[str, Any]
SECONDS_PER_CALL = 60
"""A rank that waits longer than this for the others gives up with an error."""


def run_once(
    work: Callable[[int, int], Findings], world_size: int, seconds: float, folder: Path
) -> list[Findings]:
    """Run, or where another test worker did so in this folder, read what it found."""
    answer, unfinished = folder / "answer", folder / "unfinished"
    try:
        folder.mkdir()
    except FileExistsError:
        deadline = time.monotonic() + 2 * seconds
        while not answer.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    else:
        failure, findings = "", list[Findings]()
        try:
            findings = run(work, world_size, seconds)
        except Exception as error:
            failure = str(error)
        unfinished.write_bytes(pickle.dumps((failure, findings)))
        unfinished.rename(answer)
    failure, findings = pickle.loads(answer.read_bytes())
    if failure:
        raise RuntimeError(failure)
    return findings


def run(work: Callable[[int, int], Findings], world_size: int, seconds: float) -> list[Findings]:
    """Call ``work(rank, world_size)`` in as many processes and return the findings by rank."""
    # Forked from a server that imported torch once and started no thread; see tests/conftest.py.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        ranks = start_processes(_rank, (work, world_size, folder), world_size, False, False, method)
        try:
            while not ranks.join(timeout=1):  # raises what a rank raised
                if time.monotonic() > deadline:
                    raise RuntimeError("a process did not answer in time")
        finally:
            for process in ranks.processes:
                process.kill()
                process.join()
        answers = (Path(folder) / str(rank) for rank in range(world_size))
        return [pickle.loads(answer.read_bytes()) for answer in answers]


def _rank(rank: int, work: Callable[[int, int], Findings], world_size: int, folder: str) -> None:
    warnings.simplefilter("error")
    for rightly in ("half of the anchors have at most", "no anchor has a candidate"):
        warnings.filterwarnings("ignore", rightly)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=(Path(folder) / "store").as_uri(),
        rank=rank,
        world_size=world_size,
        timeout=timedelta(seconds=SECONDS_PER_CALL),
    )
    findings = work(rank, world_size)
    dist.barrier()
    dist.destroy_process_group()
    (Path(folder) / str(rank)).write_bytes(pickle.dumps(findings))
