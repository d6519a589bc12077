"""Comparisons on a user's own folder of images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

LINE = (
    "compare images --losses info_nce,bayesian,oracle --seeds 1 --workers 1 --device cpu "
    "--batch_size 20 --width 4 --epochs 1"
)


@pytest.fixture
def photographs() -> Path:
    """Sixty coloured images of two classes with a test part."""
    generator = np.random.default_rng(0)
    for part, count in (("train", 20), ("test", 10)):
        for label, name in enumerate(("dark", "light")):
            folder = Path("photographs") / part / name
            folder.mkdir(parents=True)
            for number in range(count):
                pixels = generator.integers(100 * label, 100 * label + 120, (12, 12, 3))
                Image.fromarray(pixels.astype(np.uint8)).save(folder / f"{number}.png")
    return Path("photographs")


def test_a_folder_of_images_is_compared_on_its_test_part(bayescl, photographs):
    options = "--stride 2 --augmentation simclr --max_train_images 30 --out comparison"
    outcome = bayescl(f"{LINE} --data photographs {options}")
    assert outcome.status == 0
    assert "Accuracy in % on the test part of photographs" in outcome.out
    result = json.loads(Path("comparison/result.json").read_text())
    for run in result["runs"].values():
        assert run["images"] == {"train": 30, "test": 20}
        assert (run["settings"]["stride"], run["settings"]["augmentation"]) == (2, "simclr")
    again = bayescl("compare images --resume --out comparison")
    assert (again.status, again.out) == (0, outcome.out)


def test_images_without_labels_cannot_be_compared(bayescl, photographs):
    outcome = bayescl(f"{LINE} --data photographs/train/dark --out comparison")
    assert outcome.status == 2
    assert "photographs/train/dark" in outcome.complaint
    assert "labels" in outcome.complaint
    assert not Path("comparison").exists()


def test_a_schedule_of_alpha_needs_a_loss_that_has_one(bayescl):
    outcome = bayescl("compare images --losses info_nce,hard --alpha_schedule ramp --seeds 1")
    assert outcome.status == 2
    assert "alpha" in outcome.complaint
