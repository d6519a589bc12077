"""Every experiment has its committed files and its place on the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayescl_lab.paper.simulation.experiments import EXPERIMENTS, chosen, read_table
from bayescl_lab.paper.simulation.process import Settings

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "simulation.md"
RESULTS = ROOT / "results" / "simulation"


def test_every_experiment_has_its_files_and_its_place_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for experiment in EXPERIMENTS:
        assert (RESULTS / f"{experiment.name}.csv").is_file()
        assert (RESULTS / f"{experiment.name}.png").is_file()
        assert f"results/simulation/{experiment.name}.png" in text


@pytest.mark.parametrize(
    "name", ["densities", "empirical", "acceptance", "cdf-transform", "weights", "sampling-bias"]
)
def test_the_committed_tables_are_what_the_code_gives(name: str) -> None:
    (experiment,) = chosen([name])
    table = experiment.run(Settings(), 0)
    assert table.equals(read_table(RESULTS / f"{name}.csv"))
