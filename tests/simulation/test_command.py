"""``bayescl simulate`` as typed: files, tables, and one line on bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayescl_lab.cli import main
from bayescl_lab.paper.simulation.experiments import EXPERIMENTS

QUICK = ["--anchors", "20", "--draws", "2"]


def test_list_shows_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", "--list"]) == 0
    output = capsys.readouterr().out
    for experiment in EXPERIMENTS:
        assert experiment.name in output
        assert experiment.summary in output


def test_named_experiments_leave_their_files_and_a_page_and_say_what_they_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "folder"
    words = ["simulate", "weights", "means", "--out", str(folder), *QUICK]
    assert main(words) == 0
    assert sorted(file.name for file in folder.iterdir()) == [
        "means.csv",
        "means.png",
        "report.html",
        "simulation.json",
        "weights.csv",
        "weights.png",
    ]
    output = capsys.readouterr().out
    assert "means: Largest difference to the supervised mean: biased" in output
    page = (folder / "report.html").read_text()
    assert "<strong>means</strong>: Largest difference to the supervised mean" in page
    assert "<dt>anchors</dt><dd>20</dd>" in page
