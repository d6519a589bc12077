"""Runs on images that come from several batches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from bayescl_lab.images.datasets import load_images
from bayescl_lab.runs.images.run import ImageRun
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.losses import LossSettings


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (60, 8, 8), dtype=np.uint8)
    path = tmp_path / "batches.npz"
    np.savez(path, images=images, labels=np.arange(60) % 2, domains=np.arange(60) % 3)
    return path


def run_of(data: Path, **options: object) -> ImageRun:
    quick = {"batch_size": 16, "epochs": 1, "device": "cpu", "loss": LossSettings("bayesian")}
    return ImageRun(ImageSettings(data=str(data), **quick, **options))


def test_domains_of_an_archive_reach_the_loss(archive: Path) -> None:
    store = load_images(str(archive)).train
    assert torch.equal(store.domains, torch.from_numpy(np.arange(60) % 3)[store.ids.astype(int)])
    batch = next(iter(run_of(archive, domains=True).batches))
    assert set(batch.known) == {"domains"}
    assert batch.known["domains"].shape == batch.labels.shape


def test_folders_below_class_folders_are_domains(tmp_path: Path) -> None:
    for number in range(12):
        place = tmp_path / "train" / f"class{number % 2}" / f"device{number // 2 % 2}"
        place.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number * 20).save(place / f"{number}.png")
    Image.new("L", (8, 8)).save(tmp_path / "train" / "class0" / "alone.png")
    store = load_images(str(tmp_path)).train
    wanted = [-1 if "alone" in name else int("device1" in name) for name in store.ids]
    assert store.domains.tolist() == wanted


def test_data_without_domains_are_refused(archive: Path) -> None:
    with np.load(archive) as held:
        np.savez(archive, images=held["images"], labels=held["labels"])
    with pytest.raises(ValueError, match="has no domains: give folders below the class folders"):
        _ = run_of(archive, domains=True).batches
