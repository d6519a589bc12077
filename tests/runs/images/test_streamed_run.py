"""A run on streamed images is the run on the same images in memory."""

from __future__ import annotations

import multiprocessing
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from runs.same_run import PowerCut, assert_same_run, cut_power_at

from bayescl_lab.inspect.images import inspect_images
from bayescl_lab.runs.exporting import run_embeddings
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.run import ImageRun, train_images

# Python 3.12 and later warn of forks, which PyTorch's loader makes by default as well.
pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


@pytest.fixture
def streamed(settings, tmp_path):
    """Settings of a run on a folder of JPEGs, 60 of two classes, that are streamed."""
    generator = np.random.default_rng(0)
    for number in range(60):
        place = tmp_path / "photos" / ("ant", "bee")[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        pixels = generator.integers(0, 256, (12, 10 + number % 3, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(place / f"{number:02}.jpg")
    return replace(
        settings,
        data=str(tmp_path / "photos"),
        image_size=8,
        augmentation="affine",
        epochs=2,
        batch_size=10,
        loader="stream",
        loader_workers=0,
    )


LOADERS = ("memory", "stream")


@pytest.mark.usefixtures("no_probes")
@pytest.mark.parametrize("workers", [0, 2])
def test_the_same_seed_trains_the_same_network_with_either_loader(
    streamed, trained, tmp_path, workers
):
    train_images(replace(streamed, loader_workers=workers), tmp_path / "stream")
    assert_same_run(trained(replace(streamed, loader="memory")), tmp_path / "stream")
    assert multiprocessing.active_children() == []


def test_what_looks_at_images_sees_the_same_ones(streamed):
    from bayescl_lab.images.probes import augmented_linear_probe

    seen = []
    for loader in LOADERS:
        run = ImageRun(replace(streamed, loader=loader))
        train, evaluation = run.parts.train, run.parts.evaluation
        seen.append(
            [
                run.evaluate(),
                augmented_linear_probe(run.model, train, evaluation, epochs=2).top_1,
            ]
        )
    assert seen[0] == seen[1]


@pytest.mark.usefixtures("no_probes")
@pytest.mark.parametrize(("call", "loader"), [(5, "stream"), (12, "memory")])
def test_a_run_cut_off_within_an_epoch_goes_on_exactly_with_either_loader(
    streamed, trained, tmp_path, monkeypatch, call, loader
):
    with monkeypatch.context() as patch:
        cut_power_at(patch, call)
        with pytest.raises(PowerCut):
            train_images(streamed, tmp_path / "broken")
    train_images(replace(streamed, loader=loader), tmp_path / "broken", resume=True)
    assert_same_run(trained(streamed), tmp_path / "broken")


@pytest.mark.usefixtures("no_probes")
def test_a_run_folder_streams_again_when_it_is_used(streamed, trained, tmp_path):
    tables, reports = [], []
    for loader in LOADERS:
        run = Path(shutil.copytree(trained(replace(streamed, loader=loader)), tmp_path / loader))
        tables.append(run_embeddings(run))
        reports.append(inspect_images(run).report["candidates"])
    assert tables[0].equals(tables[1])
    assert reports[0] == reports[1]
    before = RunFolder.find(run).read_result()["loss"]
    train_images(replace(streamed, loader="memory", loader_workers=None), run, resume=True)
    folder = RunFolder.find(run)
    assert folder.read_result()["loss"] == before
    assert folder.config()["loader"] == "memory"
