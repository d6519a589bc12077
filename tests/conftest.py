"""Fixtures shared by the tests of the library, the laboratory and the reproduction."""

from __future__ import annotations

import gc
import multiprocessing
import os
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bayescl_lab.runs.images.image_settings import ImageSettings
    from bayescl_lab.runs.ranking.ranking_settings import RankingSettings


def pytest_configure(config: pytest.Config) -> None:
    """Workers that share the cores get one thread each: more would spin while others work."""
    if config.getoption("numprocesses", None):
        os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture
def shapes(tmp_path) -> str:
    """A small .npz file of noisy bars: three classes of 30 images."""
    generator = np.random.default_rng(0)
    labels = np.arange(90) % 3
    images = generator.uniform(0, 0.3, (90, 6, 6))
    for image, label in zip(images, labels, strict=True):
        image[2 * label] = 1.0
    path = tmp_path / "shapes.npz"
    np.savez(path, images=images, labels=labels)
    return str(path)


@pytest.fixture
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few-label probes of runs fit five draws, not a hundred, which take longer than training."""
    from bayescl_lab.runs import encoder_run as run

    monkeypatch.setattr(run, "run_probes", partial(run.run_probes, draws=5))


@pytest.fixture
def settings(shapes, few_draws) -> ImageSettings:
    """Four epochs of three steps with a tiny encoder."""
    from bayescl_lab.runs.images.image_settings import ImageSettings
    from bayescl_lab.runs.losses import LossSettings

    return ImageSettings(
        loss=LossSettings("bayesian", {"alpha": 0.8}),
        data=shapes,
        epochs=4,
        batch_size=20,
        width=4,
        device="cpu",
    )


@pytest.fixture
def ranking_settings(tmp_path) -> RankingSettings:
    """A small recommender of items in three groups."""
    from ranking_data import write_groups

    from bayescl_lab.ranking.data import RankingData
    from bayescl_lab.runs.ranking.ranking_settings import RankingSettings

    file = str(write_groups(tmp_path))
    return RankingSettings(
        data=RankingData(file, user_column="customer", item_column="product"),
        dim=8,
        candidates=8,
        batch_size=6,
        lr=0.03,
        epochs=3,
        device="cpu",
    )


_PRELOADED = ["torch._dynamo", "bayescl", "bayescl_lab.runs.loop"]
_PRELOADED += ["bayescl_lab.runs.images.image_run", "bayescl_lab.runs.ranking.ranking_run"]


@pytest.fixture(scope="session", autouse=True)
def _settled() -> Iterator[None]:
    """Keep what was imported out of every later collection of garbage, which runs ask for.

    Processes that tests fork, if any, have loaded once for all what most of them need.
    """
    if "forkserver" in multiprocessing.get_all_start_methods():
        multiprocessing.get_context("forkserver").set_forkserver_preload(_PRELOADED)
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
