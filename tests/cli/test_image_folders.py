"""Folders of images as a user brings them: labelled or not, and not without faults."""

from __future__ import annotations

import json
from pathlib import Path

OPTIONS = "--batch_size 16 --width 4 --epochs 1 --device cpu"


def test_a_folder_of_classes_is_trained_on_and_what_was_left_out_is_said(bayescl, pictures):
    pictures("pets")
    Path("pets/cat/03.png").write_bytes(b"nothing")
    Path("pets/eel").mkdir()
    outcome = bayescl(f"train images --data pets {OPTIONS} --out run")
    assert outcome.status == 0
    assert "pets: no images in the class folder eel" in outcome.out
    assert "pets: 1 of 40 files left out: pets/cat/03.png (not an image)" in outcome.out
    result = json.loads(Path("run/result.json").read_text())
    assert result["images"] == {"train": 27, "test": 12}
    assert 0 <= result["probes"]["knn"] <= 1


def test_a_folder_without_classes_trains_and_is_never_judged(bayescl, pictures):
    pictures("photos", (".",))
    outcome = bayescl(f"train images --data photos {OPTIONS} --out run")
    assert outcome.status == 0
    assert "the images have no labels: they are only trained on" in outcome.out
    assert json.loads(Path("run/result.json").read_text())["probes"] == {}
    refused = bayescl("evaluate run")
    assert refused.status == 2
    assert refused.complaint == "photos: the images have no labels to evaluate with"
