"""The paper's image tables as a user asks for them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

from bayescl_lab.cli._console import Bar
from bayescl_lab.cli.reproduce import run_lines
from bayescl_lab.paper.images.cost import RunCost

SMALL = "--seeds 1 --epochs 1 --device cpu --workers 1 --out table"


def test_a_smoke_table_is_printed_written_and_resumed_with_the_settings_in_its_folder(bayescl):
    outcome = bayescl(f"reproduce prior {SMALL}")
    assert outcome.status == 0
    for word in ("tau_plus", "0.02", "0.1", "0.2", "top-5, %", "Smoke size"):
        assert word in outcome.out
    result = json.loads(Path("table/result.json").read_text())
    assert [cell["keys"]["tau_plus"] for cell in result["cells"]] == ["0.02", "0.1", "0.2"]
    assert not result["is_comparable"]
    page = Path("table/table.md").read_text()
    assert f"torch {torch.__version__.split('+')[0]}" in page
    assert f"{os.cpu_count()} cores" in page or result["hardware"]["cores"] != os.cpu_count()

    Path("table/result.json").unlink()
    again = bayescl("reproduce prior --resume --out table")
    assert (again.status, again.out) == (0, outcome.out)
    outcome = bayescl("reproduce prior --resume --out table --epochs 3")
    assert "the run in table has epochs = 1, got 3" in outcome.complaint
    outcome = bayescl("reproduce runtime --resume --out table")
    assert outcome.status == 2
    assert "losses" in outcome.complaint or "reproduce prior" in outcome.complaint


SENSELESS = [
    ("reproduce", "--table requires an argument"),
    ("reproduce everything", 'Invalid value "everything" for TABLE'),
    (
        "reproduce binary --size large",
        "size must be 'smoke', 'rehearsal' or 'paper', got large",
    ),
    ("reproduce binary --datasets mnist", "datasets must be some of digits"),
    ("reproduce binary --losses oracle", "losses must be some of info_nce"),
    ("reproduce hardness --losses hard", "losses must be some of bayesian"),
    ("reproduce all --losses oracle", "losses must be some of info_nce"),
    ("reproduce all --size rehearsal", "bayescl data fetch"),
    ("reproduce prior --seeds x", "seeds must be a valid integer"),
    ("reproduce prior --epochs 0", "epochs must be at least 1, got 0"),
    ("reproduce prior --out file", "file exists and is not a folder"),
    ("reproduce prior --resume --out nowhere", "nowhere is not a run folder"),
]


def test_bad_input_gets_one_line_and_leaves_nothing_behind(refused):
    Path("file").touch()
    refused(
        (f"{line} --device cpu" if " --" in line else line, message) for line, message in SENSELESS
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="here the paper's size can be had")
def test_the_papers_size_without_a_gpu_is_refused_at_once(bayescl):
    outcome = bayescl("reproduce multiclass --size paper")
    assert outcome.status == 2
    assert outcome.complaint == "size paper takes weeks without a GPU: say --device cpu to try it"


def test_all_tables_are_made_by_one_command_that_says_first_what_it_takes(bayescl):
    outcome = bayescl(f"reproduce all --losses hard {SMALL}")
    assert outcome.status == 0
    made = ["binary", "multiclass"]  # the others do without this loss
    assert json.loads(Path("table/result.json").read_text())["tables"] == made
    for name in made:
        title = Path(f"table/{name}/table.md").read_text().partition("\n")[0].lstrip("# ")
        assert title in outcome.out
    plan = outcome.err.splitlines()
    assert plan[0].strip() == "2 runs to train"
    assert any(line.startswith("disk: ") and line.endswith("free") for line in plan)
    assert "bayescl reproduce all --resume --out table" in outcome.err
    assert "2 of 2 runs trained: multiclass/digits-hard-seed0" in outcome.err
    again = bayescl("reproduce all --resume --out table")
    assert again.status == 0
    assert "0 runs to train" in again.err


def test_the_time_left_is_estimated_by_pixels():
    said = []

    class Recorder(Bar):
        def say(self, line: str) -> None:
            said.append(line)

    now = iter([0.0, 30.0, 30.0, 30.0])
    costs = {
        name: RunCost("digits", 2, 1, views, 1)
        for name, views in (("one", 100.0), ("two", 300.0), ("tiny", 1.0))
    }
    lines = run_lines(Recorder(6), costs, dict.fromkeys((*costs, "done"), 2), lambda: next(now))
    lines("done", 2, 2)
    lines("tiny", 2, 2)
    lines("one", 1, 3)
    lines("one", 2, 4)
    lines("two", 2, 6)
    assert said == [
        "1 of 3 runs trained: tiny",
        "2 of 3 runs trained: one; about 89 s left, by pixels",
        "3 of 3 runs trained: two",
    ]
