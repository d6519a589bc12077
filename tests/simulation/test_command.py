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


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--alpha", "0.4"], "alpha must be at least 0.5, got 0.4"),
        (["--tau-plus", "0"], "tau_plus must be above 0, got 0"),
        (["--tau-plus", "1"], "tau_plus must be less than 1, got 1"),
        (["--alpha", "1", "--beta", "1"], "alpha and beta must not both be 1"),
        (["--temperature", "0"], "temperature must be above 0, got 0"),
        (["--draws", "1"], "draws must be at least 2, got 1"),
        (["--candidates", "0"], "candidates must be at least 1, got 0"),
        (["--alpha", "nan"], "alpha must be"),
        (["--seed", "-1"], "seed must be at least 0, got -1"),
        (["--proposal", "beta"], "proposal must be 'slide', 'script' or 'normal', got beta"),
        (["--names", "mess"], "unknown experiment 'mess'; known are densities"),
        (["--out", f"{__file__}/folder"], f"cannot write to {__file__}"),
    ],
)
def test_bad_input_gets_one_line_and_leaves_nothing(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["simulate", "--out", str(out), *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert not out.exists()
