"""The user's own encoders, and other weights to start from."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from runs.same_run import final_state

import bayescl_lab as library

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
        assert f"name it again with {again}" in refused.complaint
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
    assert "own encoder: name it again with --encoder my_networks:build" in complaint
    with pytest.raises(ValueError, match="its own encoder"):
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
