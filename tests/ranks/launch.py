"""Start ranks once, bring back what each of them found, and never wait forever."""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import distributed as dist

Findings = dict[str, Any]
SECONDS_PER_CALL = 60
"""A rank that waits longer than this for the others gives up with an error."""


def run_once(
    work: Callable[[int, int], Findings], world_size: int, seconds: float, folder: Path
) -> list[Findings]:
    """Run, or where another test worker did so in this folder, read what it found."""
    answer, unfinished = folder / "answer.json", folder / "unfinished.json"
    try:
        folder.mkdir()
    except FileExistsError:
        deadline = time.monotonic() + 2 * seconds
        while not answer.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
    else:
        outcome: dict[str, Any] = {"failure": "", "findings": []}
        try:
            outcome["findings"] = run(work, world_size, seconds)
        except RuntimeError as error:
            outcome["failure"] = str(error)
        unfinished.write_text(json.dumps(outcome))
        unfinished.rename(answer)
    outcome = json.loads(answer.read_text())
    if outcome["failure"]:
        raise RuntimeError(outcome["failure"])
    return outcome["findings"]


def run(work: Callable[[int, int], Findings], world_size: int, seconds: float) -> list[Findings]:
    """Call ``work(rank, world_size)`` in as many processes and return the findings by rank."""
    # Forked from a server that imported torch once and started no thread; see tests/conftest.py.
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    context = multiprocessing.get_context(method)
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        receivers, processes = [], []
        for rank in range(world_size):
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(
                target=_rank, args=(work, rank, world_size, str(Path(folder) / "store"), sender)
            )
            process.start()
            sender.close()
            receivers.append(receiver)
            processes.append(process)
        try:
            answers = [_receive(receiver, deadline) for receiver in receivers]
            failures = [answer for answer in answers if isinstance(answer, str)]
            if failures:
                raise RuntimeError("\n".join(failures))
            return answers
        finally:
            for process, receiver in zip(processes, receivers, strict=True):
                receiver.close()
                process.join(timeout=max(1.0, deadline - time.monotonic()))
                if process.is_alive():
                    process.kill()
                    process.join()
                process.close()


def _receive(receiver: Connection, deadline: float) -> Findings | str:
    if not receiver.poll(max(0.0, deadline - time.monotonic())):
        return "a process did not answer in time"
    return receiver.recv()


def _rank(
    work: Callable[[int, int], Findings],
    rank: int,
    world_size: int,
    store: str,
    sender: Connection,
) -> None:
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    try:
        dist.init_process_group(
            "gloo",
            init_method=Path(store).as_uri(),
            rank=rank,
            world_size=world_size,
            timeout=timedelta(seconds=SECONDS_PER_CALL),
        )
        findings = work(rank, world_size)
        dist.barrier()
        dist.destroy_process_group()
        sender.send(findings)
    except BaseException:  # the parent raises it
        sender.send(f"rank {rank}: {traceback.format_exc()}")
    finally:
        sender.close()
