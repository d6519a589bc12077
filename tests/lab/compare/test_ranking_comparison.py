"""Comparisons of recommenders: what is alike, and what the figures are."""

from dataclasses import replace

import pytest
from compare.test_comparison import compare
from ranking_data import write_groups

from bayescl_lab.compare.ranking import compare_ranking
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.runs.losses import RankingLossSettings
from bayescl_lab.runs.ranking.baselines import fit_baseline
from bayescl_lab.runs.ranking.ranking_run import train_ranking
from bayescl_lab.runs.ranking.ranking_settings import BaselineSettings, RankingSettings


@pytest.fixture
def shared(tmp_path) -> RankingSettings:
    data = RankingData(str(write_groups(tmp_path)))
    return RankingSettings(
        data=data, dim=8, candidates=8, batch_size=6, lr=0.03, epochs=2, device="cpu", seed=3
    )


def test_a_comparison_has_the_figures_of_its_runs_and_of_baselines(shared, tmp_path):
    methods = {name: {"temperature": 0.3} for name in ("info_nce", "bayesian")}
    result = compare(compare_ranking(methods, shared, seeds=2), tmp_path / "comparison")
    alone = train_ranking(
        replace(shared, loss=RankingLossSettings("bayesian", {"temperature": 0.3}), seed=4),
        tmp_path / "alone",
        baselines=True,
    )
    found = result.rows["bayesian"].scores["ndcg@20"].values[1]
    assert found == pytest.approx(alone.row.scores["ndcg@20"].mean, abs=1e-6)
    for name in ("popularity", "ease"):
        run = fit_baseline(BaselineSettings(name, shared.data), tmp_path / name)
        assert alone.baselines[name].scores == run.row.scores
        assert result.baselines[name].scores["ndcg@20"].mean == run.row.scores["ndcg@20"].mean


def test_ease_is_left_out_where_nobody_asked_for_a_large_matrix(shared, tmp_path, monkeypatch):
    monkeypatch.setattr("bayescl_lab.ranking.ease.MOST_ITEMS", 20)
    found = train_ranking(shared, tmp_path / "run", baselines=True)
    assert found.baselines.keys() == {"popularity"}
    reason = "EASE is left out: it takes at most 20 items, got 24"
    assert [*found.remarks] == [reason]
    plan = compare_ranking({"bpr": {}}, shared, seeds=1).prepared(tmp_path)
    assert plan.baselines.methods.keys() == {"popularity"}
    assert plan.remarks == (reason,)
