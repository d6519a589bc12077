"""``simulate``: files, findings, seeds, and what the paper claims of the estimators."""

from itertools import product
from pathlib import Path

import polars as pl
import pytest
import torch

from bayescl_lab.cli import main
from reproduction.__main__ import PROGRAM
from reproduction.commands import simulate
from reproduction.experiments import (
    EXPERIMENTS,
    auc_as_alpha,
    one_draw,
    sweep,
)
from reproduction.process import Settings, generator, independent_pair_auc, levels_of

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "reproduction" / "results" / "simulation"
SMALL = Settings(anchors=20, draws=2)


def test_every_experiment_leaves_its_files_and_is_named(tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    words = ["simulate", "--anchors", "20", "--draws", "2", "--out", str(folder)]
    assert main(words, PROGRAM) == 0
    names = [f"{it.name}.{kind}" for it in EXPERIMENTS.values() for kind in ("csv", "png")]
    files = [*names, "simulation.json"]
    assert sorted(file.name for file in folder.iterdir()) == sorted(files)
    text = (ROOT / "reproduction" / "README.md").read_text(encoding="utf-8")
    for name in names:
        assert (RESULTS / name).is_file()
        assert f"results/simulation/{name}" in text or name.endswith("csv")
    assert all(name in simulate.__doc__ for name in EXPERIMENTS)
    assert "mse: error of the estimators" in capsys.readouterr().out


def test_the_same_seed_gives_the_same_files_and_another_seed_other_data(tmp_path):
    experiment, runs = EXPERIMENTS["auc-as-alpha"], []
    for seed in (3, 3, 4):
        experiment.write(experiment.run(SMALL, seed), tmp_path)
        runs.append([file.read_bytes() for file in sorted(tmp_path.iterdir())])
    assert runs[0] == runs[1]
    assert runs[0][0] != runs[2][0]


@pytest.mark.parametrize("name", ["densities", "weights"])
def test_the_committed_tables_are_what_the_code_gives(name):
    experiment = EXPERIMENTS[name]
    table, committed = experiment.run(Settings(), 0), pl.read_csv(RESULTS / f"{name}.csv")
    assert table.select("panel", "curve", "x", "y").equals(
        committed.select("panel", "curve", "x", "y")
    )


def test_bayesian_error_is_below_its_rivals_at_the_papers_defaults():
    rows = {row[1]: row for row in sweep(Settings(draws=6, alpha=0.9), 0, "alpha")}
    for ours, rival in product(("bayesian_upper", "bayesian_mid"), ("biased", "debiased")):
        (*_, mse, low, high, error), (*_, rival_mse, _, _, rival_error) = rows[ours], rows[rival]
        assert low <= mse <= high
        assert rival_mse - mse > 5 * (rival_error + error) > 0


def test_anchors_without_true_negatives_are_left_out():
    drawn = one_draw(Settings(candidates=2, tau_plus=0.5, anchors=4000), generator(0))
    assert 0 < drawn["biased"]["mse"] < 10
    settings = Settings(candidates=1, tau_plus=0.999, anchors=1, draws=2)
    with pytest.raises(ValueError, match="no anchor has a true negative at concentration = 0"):
        EXPERIMENTS["hard"].run(settings, 0)


def test_independent_pairs_have_the_closed_form_auc_not_alpha():
    labels = torch.tensor([[True, False]]).repeat(1, 80_000)
    for alpha in (0.5, 0.7, 0.9, 1.0):
        level = levels_of(labels, alpha=alpha, generator=generator(0, alpha))
        negative, positive = level.view(-1, 2).unbind(dim=1)
        auc = float((positive > negative).double().mean())
        assert abs(auc - independent_pair_auc(alpha)) < 5 * (0.25 / 80_000) ** 0.5
        assert auc < alpha or alpha == 0.5


def test_the_auc_as_alpha_raises_the_error_of_the_estimator():
    rows = auc_as_alpha(Settings(draws=4, alpha=0.9), 0, "alpha")
    given_alpha, given_auc = (row.y for row in rows)
    assert given_auc > 1.2 * given_alpha
