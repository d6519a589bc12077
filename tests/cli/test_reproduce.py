"""The paper's image tables as a user asks for them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch

SMALL = "--seeds 1 --epochs 1 --device cpu --workers 1 --out table"


def test_a_smoke_table_is_printed_and_written_with_protocol_and_machine(bayescl):
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


def test_a_table_resumed_takes_its_settings_from_its_folder(bayescl):
    first = bayescl(f"reproduce runtime {SMALL.replace('--workers 1 ', '')}")
    assert first.status == 0
    Path("table/result.json").unlink()
    again = bayescl("reproduce runtime --resume --out table")
    assert again.status == 0
    assert again.out == first.out
    outcome = bayescl("reproduce runtime --resume --out table --epochs 3")
    assert outcome.status == 2
    assert "the run in table has epochs = 1, got 3" in outcome.complaint
    outcome = bayescl("reproduce prior --resume --out table")
    assert outcome.status == 2
    assert "losses" in outcome.complaint or "reproduce runtime" in outcome.complaint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reproduce", "bayescl reproduce needs one of"),
        ("reproduce everything", "unknown command 'reproduce everything'"),
        ("reproduce binary --size large", "size must be one of smoke, paper, got 'large'"),
        ("reproduce binary --datasets mnist", "datasets must be some of digits"),
        ("reproduce binary --losses oracle", "losses must be some of info_nce"),
        ("reproduce hardness --losses bayesian", "losses"),
        ("reproduce prior --seeds x", "seeds must be a whole number"),
        ("reproduce prior --epochs 0", "epochs must be a whole number of at least 1, got 0"),
        ("reproduce prior --out file", "file exists and is not a folder"),
        ("reproduce prior --resume --out nowhere", "nowhere is not a run folder"),
    ],
)
def test_bad_input_gets_one_line_and_leaves_nothing_behind(bayescl, tmp_path, line, message):
    Path("file").touch()
    outcome = bayescl(f"{line} --device cpu" if " --" in line else line)
    assert outcome.status == 2
    assert message in outcome.complaint
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="here the paper's size can be had")
def test_the_papers_size_without_a_gpu_is_refused_at_once(bayescl):
    outcome = bayescl("reproduce multiclass --size paper")
    assert outcome.status == 2
    assert outcome.complaint == "size paper takes weeks without a GPU: say --device cpu to try it"
