"""The paper's tables as a user asks for them."""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import torch

from bayescl_lab.runs.images.image_run import ImageRun
from bayescl_lab.runs.result import Result
from reproduction.image_tables import TABLES, TableRequest

SMALL = "--seeds 1 --epochs 1 --device cpu --workers 1 --out table"


def test_a_smoke_table_is_printed_written_and_resumed_with_the_settings_in_its_folder(reproduce):
    outcome = reproduce(f"tables prior {SMALL}")
    assert outcome.status == 0, outcome.err
    page = Path("table/table.md").read_text()
    for word in ("tau_plus", "0.02", "0.1", "0.2", "linear, top 5", "Smoke size"):
        assert word in outcome.out
        assert word in page
    result = Result.read_file(Path("table/result.json"))
    assert list(result.rows) == ["digits-0.02", "digits-0.1", "digits-0.2"]

    Path("table/result.json").unlink()
    assert reproduce("tables --resume --out table --workers 1").out == outcome.out
    assert Path("table/table.md").read_text() == page
    for option, name in (("--epochs 3", "epochs = 1, got 3"), ("runtime", "table = prior, got")):
        refused = reproduce(f"tables {option} --resume --out table")
        assert refused.status == 2
        assert f"a resumed run keeps its settings: {name}" in refused.err


def test_all_tables_are_made_by_one_command_that_says_first_what_it_takes(reproduce, monkeypatch):
    few = {name: replace(TABLES[name], losses=["hard"]) for name in ("binary", "multiclass")}
    monkeypatch.setattr("reproduction.commands.TABLES", few)
    outcome = reproduce(f"tables {SMALL}")
    page = Path("table/table.md").read_text()
    for table in few.values():
        assert f"### {table.title}" in page
        assert table.title in " ".join(outcome.out.split())  # it may take two lines
    assert "2 runs, 2 epochs in all" in outcome.err
    assert "python -m reproduction tables --resume --out table" in outcome.err


def test_the_ranking_table_is_made_resumed_and_collected(reproduce, bought):
    table = pl.read_csv("bought.csv").select(user="customer", item="product")
    table.write_csv("shop")
    line = "tables ranking --data shop --encoders mf --losses info_nce,bayesian --size smoke"
    outcome = reproduce(f"{line} --seeds 2 --out table")
    for words in ("InfoNCE", "Bayesian", "popularity", "EASE", "iALS", "above InfoNCE"):
        assert words in outcome.out
    text = Path("table/table.md").read_text()
    baselines = ("| popularity |", "| EASE |", "| iALS |")
    for words in ("| InfoNCE |", "| Bayesian |", *baselines, "NDCG@20", "±"):
        assert words in text
    cell = json.loads(Path("table/shop-mf.json").read_text())
    assert {"command", "versions", "hardware", "commit"} <= cell.keys()
    assert len(cell["losses"]["bayesian"]["metrics"]["ndcg@20"]["values"]) == 2
    assert Path("table/ranking.png").stat().st_size > 10_000
    checkpoint = Path("table/runs/shop-mf-bayesian-seed1/checkpoints/last.ckpt")
    before = checkpoint.stat().st_mtime_ns
    assert reproduce("tables ranking --out table --resume").status == 0
    assert checkpoint.stat().st_mtime_ns == before
    assert Path("table/table.md").read_text() == text


BAD = [
    ("simulate mse --out file", "cannot write to file"),
    ("simulate mess", "experiment must be one of densities, weights"),
    ("tables nothing", "Choose from"),
    ("tables prior --out file", "file exists and is not a folder"),
    ("tables ranking --data , ", "data must contain distinct names, got none"),
    ("tables ranking --data ml-100k-author", "author-split/train.csv and test.csv beside it"),
    ("tables all --device cpu --size paper --epochs 1", "bayescl data fetch"),
]
if not torch.cuda.is_available():
    message = "size paper takes weeks without a GPU: pass --device cpu to run it anyway"
    BAD.append(("tables multiclass --size paper", message))


@pytest.mark.parametrize(("line", "message"), BAD)
def test_bad_input_gets_one_line_and_leaves_nothing_behind(reproduce, monkeypatch, line, message):
    monkeypatch.setenv("BAYESCL_DATA", "shelf")
    Path("file").write_text("")
    outcome = reproduce(line)
    assert outcome.status == 2
    last = outcome.err.splitlines()[-1]
    assert last.startswith("reproduction: ")
    assert message in last
    assert "Traceback" not in outcome.err
    assert [path.name for path in Path().iterdir() if path.name != "shelf"] == ["file"]


def test_ranks_are_those_of_the_paper():
    (table,) = TableRequest().plans([TABLES["hardness"]])
    settings = next(iter(table.rows.values())).settings
    assert settings.ranks == settings.as_config()["ranks"] == "upper"
    assert ImageRun(replace(settings, width=4, device="cpu")).model.loss.ranks == "upper"
