"""Runs that several tests look at, trained once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> Callable[[Any], Path]:
    """Makes the finished run of some settings, once for all tests; nobody may change it."""
    done: dict[str, Path] = {}

    def find(settings: Any) -> Path:
        from bayescl_lab.runs.images.run import train_images
        from bayescl_lab.runs.images.settings import ImageSettings
        from bayescl_lab.runs.ranking.run import train_ranking

        # Tests' data are the same, but each lies in a folder of its own.
        key = str((torch.get_num_threads(), settings.as_config() | {"data": ""}))
        if key not in done:
            folder = tmp_path_factory.mktemp("trained")
            train = train_images if isinstance(settings, ImageSettings) else train_ranking
            train(settings, folder / "run")
            done[key] = folder / "run"
        return done[key]

    return find


@pytest.fixture
def copied(trained, tmp_path) -> Callable[[Any], Path]:
    """Makes a copy of the finished run of some settings for a test alone."""

    def copy(settings: Any) -> Path:
        return Path(shutil.copytree(trained(settings), tmp_path / "copied"))

    return copy
