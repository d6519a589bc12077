"""Bad input gets status 2, one clear line, and no folder that a later command trips over."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

COMPARE = "compare images --losses info_nce --seeds 1 --workers 1"


@pytest.mark.parametrize("command", ["train images", COMPARE])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--data digitz", "no data set is called 'digitz'; known are digits"),
        ("--data nowhere/", "no data set is called 'nowhere/'"),
        ("--data nowhere/scans.npz", "there is no file nowhere/scans.npz"),
        ("--data nan.npz", "nan.npz: images must be finite, got 1 NaN"),
        ("--data few.npz", "batch_size must be at most the number of training images, got 256"),
        ("--batch_size 1", "batch_size must be a whole number of at least 2, got 1"),
        ("--batch_size 2000", "got 2000 for 1258 images"),
        ("--epochs 0", "epochs must be a whole number of at least 1, got 0"),
        ("--epochs many", "epochs must be a whole number, got many"),
        ("--lr 0", "lr must be positive, got 0"),
        ("--lr nan", "lr must be a number, got nan"),
        ("--lr inf", "lr must be"),
        ("--temperature warm", "temperature must be a number, got warm"),
        ("--temperature -1", "temperature must be positive, got -1"),
        ("--seed -1", "seed must be a whole number of at least 0, got -1"),
        ("--strength 9", "strength must lie in [0, 5], got 9"),
        ("--evaluate_on train", "evaluate_on must be one of test, validation, got 'train'"),
        ("--device abacus", "device must be one of auto, cpu, cuda, got 'abacus'"),
        ("--unknown 1", "unrecognized arguments: --unknown"),
        ("stray", "unrecognized arguments: stray"),
        ("--config missing.yaml", "there is no configuration file missing.yaml"),
        ("--config unknown.yaml", "unknown.yaml: there is no option learnig_rate"),
        ("--config list.yaml", "holds no settings"),
        ("--config broken.yaml", "cannot read the configuration file broken.yaml"),
        ("--config typed.yaml", "epochs must be a whole number, got [1, 2]"),
        ("--config", "--config needs the name of a file"),
        ("--resume", "--resume needs --out"),
        ("--resume --out missing", "missing is no run folder"),
        ("--resume --out full", "full is no run folder: it has no config.yaml"),
    ],
)
def test_a_run_that_cannot_be_is_refused_before_there_is_a_folder(
    bayescl, tmp_path, command, options, message
):
    np.savez("nan.npz", images=np.array([[[np.nan]], [[0.0]]]), labels=[0, 1])
    np.savez("few.npz", images=np.zeros((20, 4, 4)), labels=np.arange(20) % 2)
    Path("unknown.yaml").write_text("learnig_rate: 1\n")
    Path("list.yaml").write_text("- 1\n")
    Path("broken.yaml").write_text("a: [\n")
    Path("typed.yaml").write_text("epochs: [1, 2]\n")
    Path("full").mkdir()
    Path("full/notes.txt").touch()
    before = sorted(path.name for path in tmp_path.rglob("*"))
    outcome = bayescl(f"{command} {options}")
    assert outcome.status == 2
    assert message in outcome.complaint
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train images --alpha 0.3", "alpha must lie in [0.5, 1], got 0.3"),
        ("train images --loss info_nce --alpha 0.9", "info_nce does not take alpha; it takes"),
        ("train images --loss oracle --num_classes 3", "oracle does not take num_classes"),
        ("train images --loss triplet", "loss must be one of info_nce, debiased, hard"),
        ("train images --tau_plus 1.0", "tau_plus must lie in [0, 1), got 1.0"),
        ("train images --alpha 1 --beta 1", "alpha and beta"),
        ("train images --num_classes 1", "num_classes must be at least 2, got 1"),
        (f"{COMPARE} --alpha 0.9", "none of the losses info_nce takes alpha"),
        ("compare images --losses ,", "losses must name at least one loss"),
        ("compare images --losses hard,hard", "losses must name every loss once"),
        ("compare images --losses hard,magic", "loss must be one of"),
        ("compare images --seeds 0", "seeds must be a whole number of at least 1, got 0"),
        ("compare images --workers 0", "workers must be a whole number of at least 1, got 0"),
        ("evaluate", "the following arguments are required: run"),
        ("evaluate nowhere", "there is no run folder nowhere"),
        ("evaluate .", ". is no run folder: it has no config.yaml"),
        ("train", "bayescl train needs one of: images"),
        ("train sounds", "there is no command 'train sounds'"),
        ("tarin images", "there is no command 'tarin images'"),
        ("--frobnicate", "there is no option --frobnicate"),
    ],
)
def test_a_senseless_command_line_is_answered_in_one_line(bayescl, tmp_path, line, message):
    outcome = bayescl(line)
    assert outcome.status == 2
    assert message in outcome.complaint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["train images", COMPARE])
def test_a_folder_that_holds_something_is_not_written_to(bayescl, bars, command):
    Path("full").mkdir()
    Path("full/notes.txt").write_text("mine")
    outcome = bayescl(f"{command} {bars} --out full")
    assert outcome.status == 2
    assert "full exists and is not empty" in outcome.complaint
    assert [path.name for path in Path("full").iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("command", ["train images", COMPARE])
@pytest.mark.parametrize("out", ["file", "file/run", "/proc/bayescl-run"])
def test_a_place_that_cannot_be_written_to_is_named(bayescl, bars, command, out):
    Path("file").touch()
    outcome = bayescl(f"{command} {bars} --out {out}")
    assert outcome.status == 2
    assert out in outcome.complaint


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_folder_without_permission_is_named(bayescl, bars):
    Path("locked").mkdir(mode=0o500)
    outcome = bayescl(f"train images {bars} --out locked/run")
    assert outcome.status == 2
    assert "cannot write to locked/run" in outcome.complaint


def test_a_run_without_a_checkpoint_cannot_be_evaluated_yet_but_can_go_on(bayescl, bars):
    bayescl(f"train images {bars} --out run")
    shutil.rmtree("run/checkpoints")
    Path("run/result.json").unlink()
    outcome = bayescl("evaluate run")
    assert outcome.status == 2
    assert outcome.complaint == "run has no checkpoint yet"
    assert bayescl("train images --resume --out run").status == 0


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"junk" * 100, "half"])
def test_a_damaged_checkpoint_is_named(bayescl, bars, content):
    bayescl(f"train images {bars} --out run")
    Path("run/result.json").unlink()
    checkpoint = Path("run/checkpoints/last.ckpt")
    whole = checkpoint.read_bytes()
    checkpoint.write_bytes(whole[: len(whole) // 2] if content == "half" else content)
    for line in ("evaluate run", "train images --resume --out run"):
        outcome = bayescl(line)
        assert outcome.status == 2
        assert outcome.complaint == "the checkpoint run/checkpoints/last.ckpt is damaged"


def test_a_comparison_is_no_run_to_evaluate_or_train(bayescl, bars):
    bayescl(f"{COMPARE} {bars} --out comparison")
    for line in ("evaluate comparison", "train images --resume --out comparison"):
        outcome = bayescl(line)
        assert outcome.status == 2
        assert "comparison" in outcome.complaint


def test_a_data_file_gone_since_training_is_named(bayescl, bars):
    bayescl(f"train images {bars} --out run")
    Path("bars.npz").unlink()
    outcome = bayescl("evaluate run")
    assert outcome.status == 2
    assert outcome.complaint == "there is no file bars.npz"
