"""Two gloo ranks, each with a part of every batch, train the recommender of one process."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ranking_data import write_groups
from runs.launched import run_on_ranks
from runs.ranking.train_on_ranks import CASES, RESUMED, found, train_all

SCRIPT = Path(__file__).with_name("train_on_ranks.py")

pytestmark = pytest.mark.distributed
cases = pytest.mark.parametrize("case", [*CASES, RESUMED])


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """By case, what one process and what two found."""
    folder = tmp_path_factory.mktemp("ranks")
    data = write_groups(folder)
    train_all(folder / "one", data, 1)
    run_on_ranks(SCRIPT, folder / "two", 2)
    one, two = found(folder / "one"), found(folder / "two")
    return {case: (one[case], two[case]) for case in one}


@cases
def test_two_ranks_end_with_the_embeddings_of_one_process(case, results):
    one, two = results[case]
    for name, table in one["tables"].items():
        np.testing.assert_allclose(two["tables"][name], table, atol=2e-5, rtol=1e-4)


@cases
def test_two_ranks_find_the_loss_the_epochs_and_the_figures_of_one_process(case, results):
    one, two = results[case]
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert two["metrics"] == pytest.approx(one["metrics"])
    assert (two["epochs"], two["best_epoch"]) == (one["epochs"], one["best_epoch"])


def test_all_ranks_stop_early_together(results):
    _, two = results["best epoch, early stop"]
    assert two["epochs"] < 30
    assert two["best_epoch"] == two["epochs"] - 1


@pytest.mark.parametrize("case", [case for case in CASES if case.endswith("latent")])
def test_two_ranks_believe_the_latent_classes_of_one_process(case, results):
    one, two = results[case]
    assert one["trust"] > 0.05  # else the loss would be InfoNCE
    assert two["trust"] == pytest.approx(one["trust"], rel=1e-4)
