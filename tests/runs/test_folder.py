from __future__ import annotations

from pathlib import Path

import pytest

from bayescl_lab.runs.folder import RunFolder, read_json


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


CONFIG = {"loss": "hard", "seed": 3, "out": None}
KIND = "train images"


def test_a_folder_remembers_its_kind_settings_and_metrics(tmp_path):
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "deep" / "run", tmp_path / "empty"):
        folder = RunFolder.create(place, KIND, CONFIG)
        assert RunFolder.open(place, KIND).config() == CONFIG
        assert folder.read_metrics() == []
        rows = [{"epoch": 1, "loss": 0.1 + 0.2}, {"epoch": 2, "loss": 1e-9}]
        folder.write_metrics(rows)
        assert folder.read_metrics() == rows
    with pytest.raises(ValueError, match="holds a run of 'train images', not of 'compare images'"):
        RunFolder.open(tmp_path / "empty", "compare images")


def test_what_cannot_become_a_run_folder_is_left_alone(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "run", tmp_path):
        with pytest.raises(ValueError, match=r"not empty|not a folder|not a writable folder"):
            RunFolder.create(place, KIND, CONFIG)
    with pytest.raises(Exception, match="cannot represent"):
        RunFolder.create(tmp_path / "run", KIND, {"loss": object()})
    assert names_in(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (None, "it has no config.yaml"),
        ("loss: hard\n", "names no run"),
        ("# bayescl train images\n- a\n", "names no run"),
        ("# bayescl train images\na: [", "is damaged"),
    ],
)
def test_a_folder_without_a_run_is_refused(tmp_path, config, message):
    if config is not None:
        (tmp_path / "config.yaml").write_text(config)
    with pytest.raises(ValueError, match=message):
        RunFolder.open(tmp_path, KIND)


def test_nan_never_gets_into_a_result_and_a_damaged_one_is_refused(tmp_path):
    folder = RunFolder.create(tmp_path / "run", KIND, CONFIG)
    with pytest.raises(ValueError, match="JSON"):
        folder.write_result({"accuracy": float("nan")})
    assert not folder.is_finished
    for content in ("", "[]", "{", "null"):
        folder.result_file.write_text(content)
        with pytest.raises(ValueError, match="is damaged"):
            read_json(folder.result_file)
