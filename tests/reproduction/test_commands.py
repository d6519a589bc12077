"""The paper's image tables as a user asks for them, and what is told meanwhile."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from bayescl_lab.cli._console import Bar
from bayescl_lab.paper.images.tables import TABLES, TableRequest
from bayescl_lab.report.results import results_markdown
from bayescl_lab.runs.images.image_run import ImageRun
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.result import Result


def first_of(request: TableRequest, table: str) -> ImageSettings:
    """The settings of a table's first row."""
    (plan,) = request.plans([TABLES[table]])
    return next(iter(plan.methods.values()))


SMALL = "--seeds 1 --epochs 1 --device cpu --workers 1 --out table"


def test_a_smoke_table_is_printed_written_and_resumed_with_the_settings_in_its_folder(bayescl):
    outcome = bayescl(f"reproduce prior {SMALL}")
    for word in ("tau_plus", "0.02", "0.1", "0.2", "linear, top 5", "Smoke size"):
        assert word in outcome.out
    result = Result.read_file(Path("table/result.json"))
    assert [row.keys["tau_plus"] for row in result.rows.values()] == ["0.02", "0.1", "0.2"]
    assert Path("table/table.md").read_text() == results_markdown([result])

    Path("table/result.json").unlink()
    again = bayescl("reproduce prior --resume --out table --workers 1")
    assert again.out == outcome.out
    complaint = bayescl("reproduce prior --resume --out table --epochs 3").err
    assert "a resumed run keeps its settings: epochs = 1, got 3" in complaint
    complaint = bayescl("reproduce runtime --resume --out table").complaint
    assert "table holds a run of 'reproduce prior'" in complaint


@pytest.mark.skipif(torch.cuda.is_available(), reason="here the paper's size can be had")
def test_the_papers_size_without_a_gpu_is_refused_at_once(bayescl):
    outcome = bayescl("reproduce multiclass --size paper")
    assert (
        outcome.complaint
        == "size paper takes weeks without a GPU: pass --device cpu to run it anyway"
    )


def test_all_tables_are_made_by_one_command_that_says_first_what_it_takes(bayescl, monkeypatch):
    few = {name: replace(TABLES[name], losses=["hard"]) for name in ("binary", "multiclass")}
    monkeypatch.setattr("bayescl_lab.paper.images.tables.TABLES", few)
    outcome = bayescl(f"reproduce all {SMALL}")
    results = Result.read_all(Path("table/result.json"))
    page = Path("table/table.md").read_text()
    for result in results:
        assert f"### {result.title}" in page
        assert result.title in " ".join(outcome.out.split())  # it may take two lines
    assert "2 runs, 2 epochs in all" in outcome.err
    assert "bayescl reproduce all --resume --out table" in outcome.err
    assert bayescl("reproduce all --resume --out table --workers 1").out == outcome.out


def test_ranks_are_those_of_the_paper() -> None:
    settings = first_of(TableRequest(), "hardness")
    assert settings.ranks == settings.as_config()["ranks"] == "upper"
    assert ImageRun(replace(settings, width=4, device="cpu")).model.loss.ranks == "upper"
    assert "ranks" not in first_of(TableRequest(), "multiclass").as_config()


def test_without_a_terminal_progress_is_a_line_now_and_then(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("bayescl_lab.cli._console.time.monotonic", lambda: now[0])
    with Bar(60) as bar:
        for done in range(1, 61):
            now[0] += 1.0
            bar.tell(done, f"hard-seed{done // 30}")
    captured = capsys.readouterr()
    lines = captured.err.splitlines()
    assert captured.out == ""
    assert len(lines) == 5
    assert lines[0].startswith("hard-seed0: 11 of 60; about 0:00:")
