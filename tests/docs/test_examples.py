"""The examples of the gallery run as they stand, with few steps."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"


@pytest.mark.parametrize("example", sorted(GALLERY.glob("plot_*.py")), ids=lambda path: path.stem)
def test_an_example_runs(example: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAYESCL_SMOKE", "1")
    matplotlib.use("Agg")
    try:
        names = runpy.run_path(str(example), run_name="example")
        assert isinstance(names["figure"], Figure), "an example ends in a figure"
    finally:
        pyplot.close("all")


def test_the_example_on_sound_knows_words_and_speakers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("scipy", reason="needs SciPy")
    monkeypatch.setattr(sys, "argv", ["sound.py", "--epochs", "1"])
    try:
        runpy.run_path(str(GALLERY.parent / "sound.py"), run_name="__main__")
    except SystemExit as missing:
        pytest.skip(str(missing))
    said = capsys.readouterr().out
    assert said.count("words, k-NN") == said.count("speakers, 5 labels") == 3


@pytest.mark.distributed
def test_two_processes_reach_the_gradient_of_one() -> None:
    said = subprocess.run(
        [sys.executable, str(GALLERY / "two_processes.py")],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert float(said.stdout.rsplit(":", 1)[1]) < 1e-5
