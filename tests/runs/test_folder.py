from __future__ import annotations

from pathlib import Path

import pytest

from bayescl_lab._files import write_atomically
from bayescl_lab.runs.folder import RunFolder, read_json


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


CONFIG = {"loss": "hard", "seed": 3, "out": None}


def test_a_folder_remembers_its_kind_and_settings(tmp_path):
    RunFolder.create(tmp_path / "deep" / "run", "train images", CONFIG)
    assert RunFolder.open(tmp_path / "deep" / "run", "train images").config() == CONFIG


def test_a_folder_of_another_format_does_not_open(tmp_path):
    folder = RunFolder.create(tmp_path / "run", "train images", CONFIG)
    written = folder.config_file.read_text()
    assert written.splitlines()[1] == "# format 2"
    folder.config_file.write_text(written.replace("format 2", "format 3"))
    with pytest.raises(ValueError, match=r"has format 3 of run folders, .* reads format 2"):
        RunFolder.find(folder.path)


def test_an_empty_folder_may_become_a_run_folder(tmp_path):
    (tmp_path / "run").mkdir()
    RunFolder.create(tmp_path / "run", "train images", CONFIG)
    assert names_in(tmp_path) == ["run"]


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="exists and is not empty"):
        RunFolder.create(tmp_path, "train images", CONFIG)
    assert names_in(tmp_path) == ["notes.txt"]


def test_a_file_is_no_place_for_a_run(tmp_path):
    (tmp_path / "file").touch()
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(ValueError, match=r"not a folder|not a writable folder"):
            RunFolder.create(place, "train images", CONFIG)


def test_settings_that_cannot_be_written_leave_no_folder_behind(tmp_path):
    with pytest.raises(Exception, match="cannot represent"):
        RunFolder.create(tmp_path / "run", "train images", {"loss": object()})
    assert names_in(tmp_path) == []


def test_a_run_of_another_kind_is_refused(tmp_path):
    RunFolder.create(tmp_path / "run", "compare images", CONFIG)
    with pytest.raises(ValueError, match="holds a run of 'compare images', not of 'train images'"):
        RunFolder.open(tmp_path / "run", "train images")


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
        RunFolder.open(tmp_path, "train images")


def test_a_write_that_fails_leaves_the_old_file_whole(tmp_path):
    file = tmp_path / "result.json"
    write_atomically(file, '{"a": 1}')
    with pytest.raises(UnicodeEncodeError):
        write_atomically(file, '{"a": 2} \ud800')
    assert read_json(file) == {"a": 1}
    assert names_in(tmp_path) == ["result.json"]


def test_nan_never_gets_into_a_result(tmp_path):
    folder = RunFolder.create(tmp_path / "run", "train images", CONFIG)
    with pytest.raises(ValueError, match="JSON"):
        folder.write_result({"accuracy": float("nan")})
    assert not folder.is_finished


def test_metrics_come_back_as_they_were_written(tmp_path):
    folder = RunFolder.create(tmp_path / "run", "train images", CONFIG)
    assert folder.read_metrics() == []
    rows = [{"epoch": 1, "loss": 0.1 + 0.2}, {"epoch": 2, "loss": 1e-9}]
    folder.write_metrics(rows)
    assert folder.read_metrics() == rows


@pytest.mark.parametrize("content", ["", "[]", "{", "null"])
def test_a_damaged_result_is_refused(tmp_path, content):
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(ValueError, match="is damaged"):
        read_json(tmp_path / "result.json")
