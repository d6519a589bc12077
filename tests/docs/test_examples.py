"""The examples of the gallery run as they stand, with few steps."""

import runpy
import sys
import tarfile
from itertools import product
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure
from scipy.io import wavfile
from torch import distributed as dist

GALLERY = Path(__file__).parents[2] / "examples" / "gallery"


@pytest.mark.parametrize("example", sorted(GALLERY.glob("plot_*.py")), ids=lambda path: path.stem)
def test_an_example_runs(example, monkeypatch):
    monkeypatch.setenv("BAYESCL_SMOKE", "1")
    matplotlib.use("Agg")
    try:
        names = runpy.run_path(str(example), run_name="example")
        assert isinstance(names["figure"], Figure), "an example ends in a figure"
    finally:
        pyplot.close("all")


def test_the_example_on_sound_knows_words_and_speakers(tmp_path, monkeypatch, capsys):
    dice, seconds = np.random.default_rng(0), np.arange(1600) / 8000
    with tarfile.open(tmp_path / "spoken-digits.tar.gz", "w:gz") as archive:
        for word, speaker, number in product(range(10), range(6), range(10)):
            sound = np.sin(2 * np.pi * (200 + 300 * word) * seconds) + dice.normal(0, 0.1, 1600)
            wavfile.write(tmp_path / "a.wav", 8000, (9000 * sound).astype(np.int16))
            archive.add(tmp_path / "a.wav", f"recordings/{word}_speaker{speaker}_{number}.wav")
    monkeypatch.setenv("BAYESCL_DATA", str(tmp_path))
    monkeypatch.setattr(sys, "argv", ["sound.py", "--epochs", "1"])
    runpy.run_path(str(GALLERY.parent / "sound.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert said.count("words, k-NN") == said.count("speakers, 5 labels") == 2


@pytest.mark.distributed
def test_two_processes_reach_the_gradient_of_one(capsys):
    try:
        runpy.run_path(str(GALLERY / "two_processes.py"), run_name="example")
    finally:
        if dist.is_initialized():  # a failure must not reach the tests after this one
            dist.destroy_process_group()
    assert float(capsys.readouterr().out.rsplit(":", 1)[1]) < 1e-5
