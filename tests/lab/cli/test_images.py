"""The commands on images as a user meets them, with encoders of the user's own."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from PIL import Image
from runs.same_run import final_state

import bayescl_lab as library
from bayescl_lab.runs.result import Result

QUICK = "train images --batch_size 16 --width 4 --epochs 1 --device cpu"


def test_train_leaves_a_complete_run_folder_and_a_resumed_run_shows_it_again(
    bayescl, bars, printed_config
):
    outcome = bayescl(f"train images {bars} --out run")
    for title in ("1 label/class", "5 labels/class", "k-NN", "linear", "seconds per epoch"):
        assert title in outcome.out
    stored = yaml.safe_load(Path("run/config.yaml").read_text())
    assert printed_config(f"train images {bars}") == stored
    files = {str(path.relative_to("run")) for path in Path("run").rglob("*") if path.is_file()}
    recorded = {"data.json", "items.npz"}
    trained = {"config.yaml", "metrics.csv", "result.json"}
    assert files == trained | recorded | {"checkpoints/last.ckpt"}
    assert len(Path("run/metrics.csv").read_text().splitlines()) == 1 + 3

    before = Path("run/checkpoints/last.ckpt").stat().st_mtime_ns
    again = bayescl("train images --out run --resume")
    assert again.out == outcome.out
    assert Path("run/checkpoints/last.ckpt").stat().st_mtime_ns == before
    assert "after 3 of 3 epochs" in bayescl("evaluate run").out
    written, trained = (
        Result.read_file(Path("run", file)) for file in ("evaluation.json", "result.json")
    )
    assert written.row.scores == trained.row.scores
    refused = bayescl("train images --out run --resume --lr 0.5")
    assert "a resumed run keeps its settings: lr = 0.001, got 0.5" in refused.complaint


def test_a_folder_without_classes_trains_and_is_never_judged(bayescl, pictures):
    pictures("photos", (".",))
    outcome = bayescl(f"{QUICK} --data photos --out run")
    note = "the images have no labels: they are used only for training"
    assert (outcome.out + outcome.err).count(note) == 1
    assert Result.read_file(Path("run/result.json")).measures == []
    refused = bayescl("evaluate run")
    assert refused.complaint == "photos: the images have no labels to evaluate with"
    assert bayescl("report run").status == 0
    assert "scored on" not in Path("run/report.html").read_text()
    assert bayescl("embed run --of train --out e.parquet").status == 0
    assert bayescl("inspect e.parquet").status == 0
    for advice in (bayescl("inspect run").out, Path("run/inspection.html").read_text()):
        assert "--labels" not in advice
    assert bayescl("export run --to photos").complaint.endswith(
        "is not empty: choose another folder"
    )


def test_few_large_photographs_are_trained_with_a_smaller_batch_and_a_hint(bayescl, tmp_path):
    for number in range(12):
        (tmp_path / f"photos/{number % 2}").mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (160, 130), (9 * number, 0, 0)).save(f"photos/{number % 2}/{number}.png")
    line = "train images --data photos --width 4 --stride 2 --epochs 1 --device cpu --out run"
    outcome = bayescl(line)
    assert outcome.status == 0, outcome.err
    assert "batch_size is reduced to 4, half of the 8 training images" in outcome.err


def test_the_checkpoint_of_another_encoder_is_answered_with_one_line(bayescl, bars, image_run):
    bayescl(f"train images {bars.replace('--width 4', '--width 5')} --out other")
    shutil.copy("other/checkpoints/last.ckpt", "run/checkpoints/last.ckpt")
    Path("run/result.json").unlink()
    for line in ("train images --out run --resume", "evaluate run"):
        assert "run/checkpoints/last.ckpt is damaged or of another run" in bayescl(line).complaint


OWN = """
from torch import nn

def build():
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 12), nn.ReLU())

def nothing():
    return 3
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch) -> str:
    """A file with encoders in the folder that the user is in."""
    (tmp_path / "my_networks.py").write_text(OWN)
    yield "my_networks:build"
    sys.modules.pop("my_networks", None)


def test_an_encoder_of_ones_own_trains_and_is_used_where_it_is_named(bayescl, bars, own_module):
    assert bayescl(f"train images {bars} --out run --encoder {own_module}").status == 0
    again = f"--encoder {own_module}"
    for line in ("evaluate run", "inspect run", "embed run --out e.npy", "export run --to out"):
        refused = bayescl(line)
        assert f"pass {again}" in refused.complaint
        assert bayescl(f"{line} {again}").status == 0
    assert np.load("e.npy").shape[1] == 12
    # The same seed draws the same weights.
    bayescl(f"train images {bars} --out second --encoder {own_module}")
    first, second = (final_state(Path(out)) for out in ("run", "second"))
    torch.testing.assert_close(first, second, rtol=0, atol=0)


def test_losses_are_compared_on_an_encoder_of_ones_own(bayescl, bars, own_module):
    line = f"compare images {bars} --losses info_nce,oracle --seeds 1 --workers 1 --out both"
    assert bayescl(f"{line} --encoder {own_module}").status == 0
    assert json.loads(Path("both/result.json").read_text())["settings"]["encoder"] == own_module


def test_a_folder_alone_never_makes_the_program_import_what_it_names(bayescl, bars, own_module):
    bayescl(f"train images {bars} --out run --encoder {own_module}")
    Path("run/result.json").unlink()
    Path("my_networks.py").write_text("raise SystemExit('imported')")
    sys.modules.pop("my_networks", None)
    complaint = bayescl("train images --out run --resume").complaint
    assert "custom encoder: pass --encoder my_networks:build" in complaint
    with pytest.raises(ValueError, match="a custom encoder"):
        library.load("run")


def test_encoders_that_cannot_be_had_are_refused_in_one_line(
    refused, bars, own_module, monkeypatch
):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    cases = {
        "my_networks:absent": "has no attribute 'absent'",
        "my_networks:nothing": "must return a torch.nn.Module, got int",
        "no_such_module:build": "No module named 'no_such_module'",
        ":build": "encoder :build",
    }
    line = f"train images {bars} --out run --encoder"
    refused((f"{line} {encoder}", message) for encoder, message in cases.items())


def test_a_run_starts_from_another_ones_weights_by_option(bayescl, bars, image_run):
    complaint = bayescl(f"train images --out {image_run} --resume --epochs 99").complaint
    assert "a resumed run keeps its settings: epochs = " in complaint
    line = f"train images {bars} --epochs 1 --init {image_run}"
    assert bayescl(f"{line} --out second").status == 0
    assert str(Path(image_run).resolve()) in Path("second/config.yaml").read_text()
    complaint = bayescl(f"{line} --width 8 --out third").complaint
    assert "the encoder or projection head of" in complaint
    assert "there is no run folder" in bayescl(f"{line[:-3]}none --out third").complaint
    assert not Path("third").exists()
