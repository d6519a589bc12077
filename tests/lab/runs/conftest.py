"""Runs that several tests look at, trained once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from runs.killed_run import train


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Callable[[Any], Path]:
    """Makes the finished run of some settings, once for all tests; nobody may change it."""
    done: dict[str, Path] = {}

    def find(settings: Any) -> Path:
        # Tests' data are the same, but each lies in a folder of its own.
        key = str((torch.get_num_threads(), settings.as_config() | {"data": ""}))
        if key not in done:
            done[key] = tmp_path_factory.mktemp("trained") / "run"
            train(settings, done[key])
        return done[key]

    return find


@pytest.fixture
def no_probes(monkeypatch) -> None:
    """Probes come after training and take longer than it."""
    monkeypatch.setattr("bayescl_lab.runs.encoder_run.run_probes", lambda *_, **__: {})
