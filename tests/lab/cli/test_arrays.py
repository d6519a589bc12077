"""Commands on arrays, and the example of adapting frozen embeddings."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

ROOT = Path(__file__).parents[3]


@pytest.fixture
def table(tmp_path) -> str:
    """A table of rows in three plates, with two classes and a column of text."""
    random, number = np.random.default_rng(0), np.arange(150)
    x = random.normal(size=(150, 4)) + 2 * (number % 2)[:, None] + 3 * (number % 3)[:, None]
    lines = ["a,b,c,d,kind,plate,note"]
    for row, n in zip(x, number, strict=True):
        lines.append(",".join([*(f"{it:.4f}" for it in row), f"k{n % 2}", f"p{n % 3}", "text"]))
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    return "--data rows.csv --label-column kind --epochs 1 --batch-size 32 --device cpu"


def test_train_evaluate_embed_export_and_inspect(bayescl, table, printed_config):
    said = bayescl(f"train arrays {table} --domains --out run")
    stored = yaml.safe_load(Path("run/config.yaml").read_text())
    assert printed_config(f"train arrays {table} --domains") == stored
    assert "InfoNCE + domains + teacher on rows.csv" in said.out
    assert "labels from 'kind', domains from 'plate'" in said.err
    assert "text columns are left out: note" in said.err
    assert "run after 1 of 1 epochs" in bayescl("evaluate run").out
    assert "150 embeddings of 128 coordinates" in bayescl("embed run --of all --out all.npy").out
    bayescl("export run --to exported")
    assert json.loads(Path("exported/model.json").read_text())["items"]["shape"][1:] == [4]
    assert "k-NN, other domains" in bayescl("inspect run").out
    assert "recall, k0" in bayescl("evaluate run").out


def test_compare_leaves_domains_out_and_draws_embeddings(bayescl, table):
    line = f"compare arrays {table} --leave-out 1 --seeds 3 --workers 1 --out both"
    said = bayescl(f"{line} --losses info_nce,info_nce+domains").out
    assert "figure of the embeddings: both/embeddings.png" in said
    result = json.loads(Path("both/result.json").read_text())
    assert result["losses"]["info_nce"]["recalls"].keys() == {"k0", "k1"}
    assert len(result["losses"]["info_nce+domains"]["metrics"]["nmi"]["values"]) == 3
    assert "recall, k0" in Path("both/comparison.md").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--data rows.csv --label-column missing", "has no column 'missing'"),
        ("--data none.csv", "there is no file none.csv"),
        ("--data rows.csv --encoder conv1d", "encoder must be auto, mlp"),
        ("--data rows.csv --domains --domain-column kind --leave-out 2", "leave_out must be below"),
        ("--data rows.csv --dropout 1.5", "dropout must be"),
    ],
)
def test_bad_input_is_one_clear_line(bayescl, table, options, message):
    assert message in bayescl(f"train arrays {options} --epochs 1").complaint


@pytest.mark.slow
def test_frozen_embeddings_are_adapted_to_new_batches():
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / "adapt_embeddings.py"],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    frozen, adapted = (float(line.split()[1][:-1]) for line in done.stdout.splitlines()[-2:])
    assert adapted > frozen + 5
