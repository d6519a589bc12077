"""A run on streamed images is the run on the same images in memory."""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from runs.same_run import PowerCut, assert_same_run, cut_power_at

from bayescl_lab.runs.exporting import run_embeddings
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.alpha import pair_columns
from bayescl_lab.runs.images.inspection import inspect_images
from bayescl_lab.runs.images.run import ImageRun, evaluate_images, train_images
from bayescl_lab.runs.losses import LossSettings

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


def figures(out: Path) -> tuple[list[float], dict[str, float]]:
    folder = RunFolder(out, "train images")
    return [row["loss"] for row in folder.read_metrics()], folder.read_result()["probes"]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_same_seed_trains_the_same_network_with_either_loader(
    streamed, trained, tmp_path, workers
):
    train_images(replace(streamed, loader_workers=workers), tmp_path / "stream")
    assert_same_run(trained(replace(streamed, loader="memory")), tmp_path / "stream")
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("options", [{"linear_protocol": "paper"}, {"knn_every": 1}])
def test_probes_that_look_at_images_see_the_same_ones(streamed, options):
    runs = [ImageRun(replace(streamed, loader=kind, **options)) for kind in ("memory", "stream")]
    assert runs[0].evaluate() == runs[1].evaluate()


@pytest.mark.parametrize("schedule", ["measured", "label-free"])
def test_alpha_is_measured_on_the_same_views(streamed, schedule, tmp_path):
    for kind in ("memory", "stream"):
        chosen = replace(streamed, loader=kind, alpha_schedule=schedule, alpha_every=1)
        train_images(chosen, tmp_path / kind)
    assert_same_run(tmp_path / "memory", tmp_path / "stream")


def test_pairs_of_latent_classes_are_judged_on_the_same_images(streamed):
    latent = LossSettings("latent", {"tau_plus": 0.5})
    columns = []
    for kind in ("memory", "stream"):
        run = ImageRun(replace(streamed, loader=kind, loss=latent))
        columns.append(pair_columns(run.model, run.parts.train, seed=0, epoch=0))
    assert columns[0] == columns[1] != {}


@pytest.mark.parametrize(("call", "loader"), [(5, "stream"), (12, "stream"), (5, "memory")])
def test_a_run_cut_off_within_an_epoch_goes_on_exactly_with_either_loader(
    streamed, trained, tmp_path, monkeypatch, call, loader
):
    with monkeypatch.context() as patch:
        cut_power_at(patch, call)
        with pytest.raises(PowerCut):
            train_images(streamed, tmp_path / "broken", checkpoint_every_steps=1)
    train_images(replace(streamed, loader=loader), tmp_path / "broken", resume=True)
    assert_same_run(trained(streamed), tmp_path / "broken")


def test_a_finished_run_given_another_loader_keeps_its_figures(streamed, tmp_path):
    out = tmp_path / "run"
    train_images(streamed, out)
    before = figures(out)
    train_images(replace(streamed, loader="memory", loader_workers=None), out, resume=True)
    assert figures(out) == before
    assert RunFolder.open(out, "train images").config()["loader"] == "memory"


def test_a_run_folder_streams_again_when_it_is_used(streamed, tmp_path, monkeypatch):
    train_images(replace(streamed, loader="memory"), tmp_path / "memory")
    train_images(streamed, tmp_path / "stream")
    tables = [run_embeddings(tmp_path / kind) for kind in ("memory", "stream")]
    assert tables[0].equals(tables[1])
    evaluated = [evaluate_images(tmp_path / kind)["probes"] for kind in ("memory", "stream")]
    assert evaluated[0] == evaluated[1]
    inspected = [inspect_images(tmp_path / kind).report for kind in ("memory", "stream")]
    assert inspected[0]["candidates"] == inspected[1]["candidates"]
    changed = tmp_path / "photos" / "ant" / "00.jpg"
    changed.write_bytes((tmp_path / "photos" / "ant" / "02.jpg").read_bytes())
    with pytest.raises(ValueError, match="1 changed"):
        evaluate_images(tmp_path / "stream")
