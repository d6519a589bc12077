"""The study of photographs: its data, its journal, and how it goes on after failures."""

import json
import sys
import tarfile

import numpy as np
import photographs
import pytest
from PIL import Image


def test_an_archive_and_its_folder_decode_to_the_same_images(tmp_path):
    generator = np.random.default_rng(0)
    for name in ("train/cat/0.jpg", "train/dog/1.jpg", "test/dog/0.jpg"):
        path = tmp_path / "folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(path)
    with tarfile.open(tmp_path / "folder.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "folder", "folder")
    places = [("folder", "a.npz"), ("folder.tar.gz", "b.npz")]
    one, other = (
        np.load(photographs.prepared(tmp_path / place, tmp_path / target))
        for place, target in places
    )
    for name in ("images", "labels", "is_train"):
        np.testing.assert_array_equal(one[name], other[name])
    assert one["labels"].tolist() == [0, 1, 1]
    assert one["is_train"].tolist() == [True, True, False]
    with Image.open(tmp_path / "folder/train/cat/0.jpg") as image:
        np.testing.assert_array_equal(one["images"][0], np.asarray(image).transpose(2, 0, 1))


def test_every_run_of_the_study_has_settings_and_a_key_of_its_own():
    shared = {**photographs.SHARED, "device": "cpu", "data": "digits"}
    settings = [planned.settings(shared) for planned in photographs.RUNS]
    assert len({json.dumps(one.as_config(), sort_keys=True) for one in settings}) == len(settings)
    names = [(planned.name, planned.seed) for planned in photographs.RUNS]
    assert len(set(names)) == len(names)


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Run the quick study and return its journal's lines."""
    chosen = f"photographs.py --quick --device cpu --runs {tmp_path}/runs"
    monkeypatch.setattr(sys, "argv", chosen.split())

    def call(*runs):
        monkeypatch.setattr(photographs, "FIRST", runs)
        monkeypatch.setattr(photographs, "RUNS", runs)
        photographs.main()
        journal = tmp_path / "runs" / "short" / photographs.JOURNAL
        return [json.loads(line) for line in journal.read_text().splitlines()]

    return call


def test_a_study_goes_on_after_a_failure_and_does_not_repeat_what_is_finished(study, capsys):
    good = photographs.FIRST[0]
    bad = photographs.Planned(
        "bad", "info_nce", 0.2, changes={"augmentation": "affine", "view_size": 8}
    )
    (line,) = study(bad, good)
    assert line["key"]["name"] == good.name
    assert set(photographs.PROBES) <= line["probes"].keys()
    assert "failed: bad: ValueError: view_size is only for" in capsys.readouterr().out
    assert study(good) == [line]


def test_short_runs_never_write_into_the_published_results(tmp_path, monkeypatch):
    chosen = f"photographs.py --quick --device cpu --out {photographs.PLACE} --runs {tmp_path}"
    monkeypatch.setattr(sys, "argv", chosen.split())
    with pytest.raises(SystemExit, match="must not write into"):
        photographs.main()
