"""The commands on images as a user meets them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import torch
from cli.in_background import command
from runs.killed_run import run_until_killed


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return torch.load(folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]


def test_train_leaves_a_complete_run_folder_and_a_resumed_run_shows_it_again(bayescl, bars):
    outcome = bayescl(f"train images {bars} --out run")
    assert outcome.status == 0
    for title in ("1 label/class", "5 labels/class", "k-NN", "linear", "seconds per epoch"):
        assert title in outcome.out
    lines = [line.split(": loss")[0] for line in outcome.err.splitlines()]  # without a terminal
    assert lines == ["epoch 1 of 3", "epoch 2 of 3", "epoch 3 of 3"]
    files = {str(path.relative_to("run")) for path in Path("run").rglob("*") if path.is_file()}
    recorded = {"data.json", "images.npz"}
    trained = {"config.yaml", "metrics.csv", "result.json", "weights.safetensors"}
    assert files == trained | recorded | {"checkpoints/last.ckpt"}
    assert len(Path("run/metrics.csv").read_text().splitlines()) == 1 + 3

    before = Path("run/checkpoints/last.ckpt").stat().st_mtime_ns
    again = bayescl("train images --out run --resume")
    assert (again.status, again.out) == (0, outcome.out)
    assert Path("run/checkpoints/last.ckpt").stat().st_mtime_ns == before
    assert "after 3 of 3 epochs" in bayescl("evaluate run").out
    written, trained = (
        json.loads(Path("run", file).read_text()) for file in ("evaluation.json", "result.json")
    )
    assert written["probes"] == trained["probes"]
    refused = bayescl("train images --out run --resume --lr 0.5")
    assert refused.status == 2
    assert "the run in run has lr = 0.001, got 0.5" in refused.complaint


def test_a_run_killed_and_resumed_equals_the_unbroken_run(bayescl, bars, tmp_path):
    run_until_killed("view 15", command, f"train images {bars} --out killed", tmp_path)
    assert len(Path("killed/metrics.csv").read_text().splitlines()) == 1 + 2
    assert bayescl("train images --out killed --resume").status == 0
    assert bayescl(f"train images {bars} --out unbroken").status == 0
    killed, unbroken = weights(Path("killed")), weights(Path("unbroken"))
    for name, value in unbroken.items():
        if isinstance(value, torch.Tensor):
            assert torch.equal(killed[name], value), name
    probes = [
        json.loads(Path(run, "result.json").read_text())["probes"] for run in ("killed", "unbroken")
    ]
    assert probes[0] == probes[1]


def test_help_answers_without_loading_torchvision_lightning_or_kornia():
    program = (
        "import sys\n"
        "from bayescl_lab.cli import main\n"
        "main(['--help']); main(['train', 'images', '--help'])\n"
        "heavy = {'lightning', 'kornia', 'torchvision', 'sklearn', 'matplotlib'}\n"
        "sys.exit(str(heavy & set(sys.modules)) if heavy & set(sys.modules) else 0)\n"
    )
    outcome = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr
    assert "prior probability that a candidate is a positive" in outcome.stdout
