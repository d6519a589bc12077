"""Runs that are cut off, and whether two runs are one and the same."""

import os
import tempfile
from pathlib import Path
from typing import Any

import polars as pl
import torch
from polars.testing import assert_frame_equal

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.result import Result
from bayescl_lab.runs.weights import read_checkpoint


class PowerCut(BaseException):
    """What no handler of the library may swallow."""


def final_state(out: Path) -> dict[str, Any]:
    """The state of the model in a run's last checkpoint."""
    return read_checkpoint(RunFolder.find(out))["state_dict"]


def rows_of(out: Path) -> list[dict[str, Any]]:
    """The rows of a run's ``metrics.csv``."""
    return pl.read_csv(out / "metrics.csv").to_dicts()


def files(out: Path) -> list[str]:
    """What lies in a run's folder; nothing that was being written when the run was killed."""
    return sorted(file.name for file in out.rglob("*") if file.name != "evaluation.json")


def assert_same_run(one: Path, other: Path) -> None:
    """Same weights bit for bit, same rows, same figures, same files."""
    first, second = final_state(one), final_state(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        same = torch.equal(value, second[name]) if torch.is_tensor(value) else value == second[name]
        assert same, name
    metrics = (pl.read_csv(out / "metrics.csv").drop("seconds") for out in (one, other))
    assert_frame_equal(*metrics, check_exact=True)
    assert files(one) == files(other)
    rows = [Result.read_file(out / "result.json").row for out in (one, other)]
    assert rows[0].scores == rows[1].scores


def fill_the_disk(monkeypatch, file: str, after: int) -> None:
    """Let a device that is always full take the place of a file, once it was written so often."""
    make, calls = tempfile.mkstemp, 0

    def full(*others, prefix, **named):
        nonlocal calls
        descriptor, name = make(*others, prefix=prefix, **named)
        calls += file in prefix
        if file in prefix and calls > after:
            os.dup2(os.open("/dev/full", os.O_WRONLY), descriptor)
        return descriptor, name

    monkeypatch.setattr(tempfile, "mkstemp", full)
