"""Comparisons of losses on images and of recommenders."""

from dataclasses import replace

import pytest
from compare.results import cell, images
from runs.same_run import PowerCut

from bayescl_lab.compare.comparison import values_of_methods
from bayescl_lab.compare.encoders import compare_encoders
from bayescl_lab.compare.plan import Plan, run_plans
from bayescl_lab.compare.ranking import compare_ranking
from bayescl_lab.report.figures import results_figure
from bayescl_lab.runs.losses import RankingLossSettings, methods_with_teacher, view_methods
from bayescl_lab.runs.ranking.baselines import fit_baseline
from bayescl_lab.runs.ranking.ranking_run import train_ranking
from bayescl_lab.runs.ranking.ranking_settings import BaselineSettings
from bayescl_lab.runs.result import Result
from bayescl_lab.runs.run import write_results


def compare(plan: Plan, out, **options) -> Result:
    request = {"seeds": len(plan.seeds)}
    (result,) = run_plans("compare images", request, [plan], out, **options)
    return result


def test_pairing_by_seed_removes_what_the_seeds_share():
    result = images(info_nce=[0.2, 0.5, 0.8], bayesian=[0.21, 0.51, 0.81])
    assert result.rows["bayesian"].scores["few_label_1"].spread == pytest.approx(0.3)
    paired = result.differences()["bayesian"]["few_label_1"]
    assert (paired.mean, paired.sign) == (pytest.approx(0.01), 1)
    assert paired.spread == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("result", [images(info_nce=[0.2, 0.5]), cell()])
def test_a_result_read_from_its_file_is_the_same(result, tmp_path):
    write_results(tmp_path / "one", result, origin=result.origin)
    assert Result.read_file(tmp_path / "one") == result
    write_results(tmp_path / "two", result, result, origin=result.origin)
    assert Result.read_all(tmp_path / "two") == [result, result]


def test_a_comparison_resumed_keeps_finished_runs_and_gets_the_same_figures(settings, tmp_path):
    methods = {name: {} for name in ["info_nce", "info_nce+teacher", "oracle"]}
    comparison = compare_encoders(methods, replace(settings, epochs=1), seeds=2)
    whole = compare(comparison, tmp_path / "whole")

    def cut(name: str, epoch: int, total: int) -> None:
        if total == 5:
            raise PowerCut

    with pytest.raises(PowerCut):
        compare(comparison, tmp_path / "cut", progress=cut)
    finished = tmp_path / "cut" / "runs" / "info_nce-seed0" / "result.json"
    before = finished.stat().st_mtime_ns
    resumed = compare(comparison, tmp_path / "cut", resume=True)
    assert finished.stat().st_mtime_ns == before
    teachers = [row.settings["teacher"] for row in resumed.rows.values()]
    assert teachers == ["none", "items", "none"]
    for name, row in whole.rows.items():
        assert resumed.rows[name].scores == row.scores
    with pytest.raises(ValueError, match=r"keeps its settings: seeds = 2, got 3$"):
        compare(replace(comparison, seeds=range(3)), tmp_path / "cut", resume=True)
    assert results_figure([resumed]).axes


def test_worker_processes_change_no_figure(settings, monkeypatch, tmp_path):
    monkeypatch.undo()  # workers fit all draws
    comparison = compare_encoders({"hard": {}}, replace(settings, epochs=1), seeds=2)
    alone = compare(comparison, tmp_path / "alone")
    heard = set()
    shared = compare(
        comparison, tmp_path / "shared", workers=2, progress=lambda run, *_: heard.add(run)
    )
    assert shared.rows["hard"].scores == alone.rows["hard"].scores
    own = Result.read_file(tmp_path / "shared/runs/hard-seed1/result.json")
    assert own.origin["command"] == alone.origin["command"]
    assert heard >= {"hard-seed0", "hard-seed1"}


def test_values_apply_to_the_methods_that_have_them_and_replace_their_own():
    names, own = ["bayesian", "hard+teacher"], {"hard+teacher": {"temperature": 0.4}}
    values = values_of_methods(names, view_methods(), given={"positive_share": 0.2}, own=own)
    assert values == {
        "bayesian": {},
        "hard+teacher": {"temperature": 0.4, "positive_share": 0.2},
    }
    values = values_of_methods(names, view_methods(), given={"temperature": 0.7}, own=own)
    assert {it["temperature"] for it in values.values()} == {0.7}
    with pytest.raises(ValueError, match="losses hard takes positive_share"):
        values_of_methods(["hard"], view_methods(), given={"positive_share": 0.2}, own={})


def test_a_teacher_is_for_the_losses_that_are_named_with_one_or_else_for_all():
    both = ["info_nce", "info_nce+teacher", "oracle"]
    assert methods_with_teacher(both, None) == methods_with_teacher(both, "mine.npy") == both
    assert methods_with_teacher(["hard", "oracle"], "items") == ["hard+teacher", "oracle"]
    assert methods_with_teacher(["hard"], "none") == ["hard"]
    with pytest.raises(ValueError, match=r"info_nce\+teacher needs --teacher"):
        methods_with_teacher(both, "none")
    with pytest.raises(ValueError, match=r"loss must be one of info_nce, .*, got 'bpr\+teacher'"):
        methods_with_teacher(["bpr+teacher"], None)


def test_a_comparison_has_the_figures_of_its_runs_and_of_baselines(ranking_settings, tmp_path):
    shared = replace(ranking_settings, epochs=2, seed=3)
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


def test_ease_is_left_out_where_nobody_asked_for_a_large_matrix(
    ranking_settings, tmp_path, monkeypatch
):
    monkeypatch.setattr("bayescl_lab.ranking.ease.MOST_ITEMS", 20)
    found = train_ranking(replace(ranking_settings, epochs=1), tmp_path / "run", baselines=True)
    assert found.baselines.keys() == {"popularity"}
    reason = "EASE is left out: it takes at most 20 items, got 24"
    assert [*found.remarks] == [reason]
    plan = compare_ranking({"bpr": {}}, ranking_settings, seeds=1).prepared(tmp_path)
    assert plan.baselines.methods.keys() == {"popularity"}
    assert plan.remarks == (reason,)
