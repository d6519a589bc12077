"""Experiments: files, figures, printed tables, and the same seed giving the same bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bayescl_lab.paper.simulation.experiments import (
    EXPERIMENTS,
    SUMMARIES,
    Experiment,
    chosen,
    read_table,
    write,
)
from bayescl_lab.paper.simulation.process import Settings

SMALL = Settings(anchors=20, draws=2)
EACH = pytest.mark.parametrize("experiment", EXPERIMENTS, ids=[e.name for e in EXPERIMENTS])


@EACH
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


@pytest.mark.parametrize("name", ["mse", "verdicts", "ranks"])
def test_figures_stand_errors_of_zero(name: str, tmp_path: Path) -> None:
    # So few candidates that some draws have no false negative: the biased error is then 0.
    (experiment,) = chosen([name])
    settings = Settings(anchors=12, draws=2, candidates=2, alpha=0.5, tau_plus=0.001)
    table = experiment.run(settings, 0)
    assert write(experiment, table, tmp_path)[1].stat().st_size > 10_000


@pytest.mark.parametrize("name", ["means", "empirical"])
def test_the_same_seed_gives_the_same_files_and_another_seed_other_data(
    name: str, tmp_path: Path
) -> None:
    (experiment,) = chosen([name])
    kinds = ("csv", "png")
    runs = []
    for index, seed in enumerate((3, 3, 4)):
        folder = tmp_path / str(index)
        folder.mkdir()
        write(experiment, experiment.run(SMALL, seed), folder)
        runs.append([(folder / f"{name}.{kind}").read_bytes() for kind in kinds])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0]


@pytest.mark.parametrize("name", ["mse", "lemma-3", "pair-order"])
def test_settings_reach_the_experiment(name: str) -> None:
    (experiment,) = chosen([name])
    first = experiment.run(SMALL, 0)
    other = Settings(anchors=20, draws=2, tau_plus=0.3)
    assert not first.equals(experiment.run(other, 0))


def test_names_are_unique_and_an_unknown_one_is_refused_with_the_known() -> None:
    names = [experiment.name for experiment in EXPERIMENTS]
    assert names == list(SUMMARIES)
    assert len(chosen(["mse", "mse"])) == 1
    with pytest.raises(ValueError, match="unknown experiment 'mess'; known are densities"):
        chosen(["mse", "mess"])
