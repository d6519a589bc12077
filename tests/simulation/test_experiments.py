"""Experiments: files, figures, printed tables, and the same seed giving the same bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bayescl_lab.paper.simulation.experiments import (
    EXPERIMENTS,
    Experiment,
    chosen,
    read_table,
    write,
)
from bayescl_lab.paper.simulation.process import Settings

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results" / "simulation"
SMALL = Settings(anchors=20, draws=2)


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_an_experiment_writes_data_and_figure_and_counts_its_steps(
    experiment: Experiment, tmp_path: Path
) -> None:
    done: list[float] = []
    table = experiment.run(SMALL, 0, done.append)
    data, picture = write(experiment, table, tmp_path)
    assert done == sorted(done)
    assert done[-1] == 1.0
    assert read_table(data).equals(table)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert experiment.finding(table).endswith(".") or experiment.finding(table) == ""


def test_figures_stand_errors_of_zero(tmp_path: Path) -> None:
    # So few candidates that some draws have no false negative: the biased error is then 0.
    (experiment,) = chosen(["mse"])
    settings = Settings(anchors=12, draws=2, candidates=2, alpha=0.5, tau_plus=0.001)
    table = experiment.run(settings, 0)
    assert write(experiment, table, tmp_path)[1].stat().st_size > 10_000


def test_the_same_seed_gives_the_same_files_and_another_seed_other_data(tmp_path: Path) -> None:
    (experiment,), runs = chosen(["pair-order"]), []
    for seed in (3, 3, 4):
        written = write(experiment, experiment.run(SMALL, seed), tmp_path)
        runs.append([file.read_bytes() for file in written])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0]


def test_settings_reach_the_experiment() -> None:
    for experiment in chosen(["means", "pair-order"]):
        other = experiment.run(replace(SMALL, tau_plus=0.3), 0)
        assert not experiment.run(SMALL, 0).equals(other)


def test_every_experiment_has_its_committed_files_and_its_place_on_the_page() -> None:
    text = (ROOT / "docs" / "simulation.md").read_text(encoding="utf-8")
    for experiment in EXPERIMENTS:
        assert (RESULTS / f"{experiment.name}.csv").is_file()
        assert (RESULTS / f"{experiment.name}.png").is_file()
        assert f"results/simulation/{experiment.name}.png" in text


def test_the_committed_tables_are_what_the_code_gives() -> None:
    names = ["densities", "empirical", "cdf-transform", "weights"]
    for experiment in chosen(names):
        table = experiment.run(Settings(), 0)
        assert table.equals(read_table(RESULTS / f"{experiment.name}.csv")), experiment.name
