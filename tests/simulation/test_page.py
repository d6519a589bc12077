"""The page quotes its figures from the committed results, and every figure is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayescl.simulation.experiments import EXPERIMENTS
from bayescl.simulation.page import QUOTED, refreshed

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulation.md"
RESULTS = ROOT / "results" / "simulation"


def test_every_quoted_number_is_what_the_files_say() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert len(QUOTED.findall(text)) == text.count("<!--") > 20
    assert refreshed(text, RESULTS) == text


def test_every_experiment_has_its_files_and_its_place_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for experiment in EXPERIMENTS:
        assert (RESULTS / f"{experiment.name}.csv").is_file()
        assert (RESULTS / f"{experiment.name}.png").is_file()
        assert f"results/simulation/{experiment.name}.png" in text


def test_a_stale_number_is_brought_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,error\n1,0.25\n2,0.5\n")
    comment = "<!-- a.csv; n=2; error; .2f -->"
    assert refreshed(f"It is (9.99{comment}).", tmp_path) == f"It is (0.50{comment})."


def test_a_comment_that_means_no_single_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,error\n1,0.25\n2,0.5\n")
    with pytest.raises(ValueError, match="2 records"):
        refreshed("1<!-- a.csv; ; error; .2f -->", tmp_path)
