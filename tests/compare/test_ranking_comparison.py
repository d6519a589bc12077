"""Comparisons of recommenders: what is alike, and what the figures are."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from ranking_data import write_groups

from bayescl_lab.compare.comparison import compare, settle_methods
from bayescl_lab.compare.ranking import RankingComparison
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.datasets import load_interactions
from bayescl_lab.report.tables import paired_differences
from bayescl_lab.runs.losses import ranking_loss
from bayescl_lab.runs.ranking.baselines import evaluate_baselines, fit_baseline
from bayescl_lab.runs.ranking.run import train_ranking
from bayescl_lab.runs.ranking.settings import BaselineSettings, RankingSettings


@pytest.fixture
def shared(tmp_path) -> RankingSettings:
    data = RankingData(str(write_groups(tmp_path)))
    return RankingSettings(
        data=data, dim=8, candidates=8, batch_size=6, lr=0.03, epochs=2, device="cpu", seed=3
    )


def test_a_comparison_has_the_figures_of_its_runs_and_of_baselines(shared, tmp_path):
    methods = settle_methods(["info_nce", "bayesian"], "ranking", given={"temperature": 0.3})
    comparison = RankingComparison(methods, 2, shared)
    result = compare(comparison, tmp_path / "comparison")
    alone = train_ranking(
        replace(shared, loss=ranking_loss("bayesian", {"temperature": 0.3}), seed=4),
        tmp_path / "alone",
        baselines=True,
    )
    assert result["losses"]["bayesian"]["metrics"]["ndcg@20"]["values"][1] == pytest.approx(
        alone["metrics"]["ndcg@20"], abs=1e-6
    )
    assert result["runs"].keys() == {
        f"{loss}-seed{seed}" for loss in ("info_nce", "bayesian") for seed in (3, 4)
    }
    values = [result["losses"][loss]["metrics"]["ndcg@20"] for loss in ("bayesian", "info_nce")]
    found = paired_differences(result)["bayesian"]["ndcg@20"]
    assert found["mean"] == pytest.approx(values[0]["mean"] - values[1]["mean"])
    for name in ("popularity", "ease"):
        run = fit_baseline(BaselineSettings(name, shared.data), tmp_path / name)
        beside = alone["baselines"][name]["metrics"]
        assert beside == run["metrics"]
        assert result["baselines"][name]["metrics"]["ndcg@20"]["values"] == [beside["ndcg@20"]]


def test_settings_of_a_loss_that_is_not_compared_are_refused():
    with pytest.raises(ValueError, match="names losses that are not compared: hard"):
        settle_methods(["bpr"], "ranking", hyperparameters={"hard": {}})


def test_ease_is_left_out_where_nobody_asked_for_a_large_matrix(shared, monkeypatch):
    parts = load_interactions(**asdict(shared.data))
    assert evaluate_baselines(parts).keys() == {"popularity", "ease"}
    assert evaluate_baselines(parts, without="ease").keys() == {"popularity"}
    monkeypatch.setattr("bayescl_lab.runs.ranking.baselines._MOST_UNASKED", 1000)
    found = evaluate_baselines(parts)
    assert "metrics" in found["popularity"]
    assert found["ease"]["left_out"].startswith("EASE is left out: its matrix for 24 items takes")
    assert evaluate_baselines(load_interactions(**asdict(shared.data) | {"split": "none"})) == {}
