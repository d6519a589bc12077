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


def test_what_needs_labels_is_refused_before_there_is_a_run(refused, pictures):
    pictures("photos", (".",))
    cases = {
        "--loss oracle": "the oracle loss needs the class of every image, 20 of 20 images of",
        "--knn_every 1": "photos: the images have no labels to evaluate with",
        "--evaluate_on validation": "a validation part needs labels, the images have none",
        "--classes 2": "classes cannot be chosen because the images have no labels",
    }
    line = f"train images --data photos {OPTIONS} --out run"
    refused((f"{line} {options}", message) for options, message in cases.items())


def test_folders_and_data_sets_that_cannot_be_used_are_one_line(
    refused, pictures, monkeypatch, tmp_path
):
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path / "nothing"))
    Path("empty").mkdir()
    pictures("bad", count=2)
    for path in Path("bad").rglob("*.png"):
        path.write_bytes(path.read_bytes()[:20])
    pictures("mixed", (".", "dog"), 2)
    cases = {
        "bad": "none of 4 files can be read",
        "empty": "empty holds no images",
        "mixed": "mixed holds images both in class folders",
        "cifar10": "get it by 'bayescl data fetch cifar10' (170 MB",
    }
    line = f"train images {OPTIONS} --out run --data"
    refused((f"{line} {data}", message) for data, message in cases.items())
