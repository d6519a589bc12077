from __future__ import annotations

from dataclasses import replace

import pytest
from compare.results import cell, images
from runs.same_run import PowerCut

from bayescl_lab.compare.comparison import settle_methods
from bayescl_lab.compare.images import compare_images
from bayescl_lab.compare.plan import Plan, run_plans
from bayescl_lab.report.figures import results_figure
from bayescl_lab.report.tables import data_title
from bayescl_lab.runs.losses import LossSettings, losses_of
from bayescl_lab.runs.result import Result
from bayescl_lab.runs.run import write_results


def compare(plan: Plan, out, **options) -> Result:
    request = {"seeds": len(plan.seeds)}
    (result,) = run_plans("compare images", request, [plan], out, **options)
    return result


def test_the_gap_closed_is_none_of_it_for_info_nce_and_all_of_it_for_the_oracle():
    result = images(info_nce=[0.5, 0.6], bayesian=[0.55, 0.65], oracle=[0.7, 0.8])
    closed = {name: result.gap_closed(name, "few_label_1") for name in result.rows}
    assert closed == {"info_nce": 0, "bayesian": pytest.approx(0.25), "oracle": 1}
    level = images(info_nce=[0.6, 0.6], bayesian=[0.65, 0.65], oracle=[0.59, 0.7])  # by chance
    assert level.gap_closed("bayesian", "few_label_1") is None


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
    methods = settle_methods(["info_nce", "info_nce_teacher", "oracle"], "images")
    comparison = compare_images(methods, replace(settings, epochs=1), seeds=2)
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
    shares = [row.settings["positive_share"] for row in resumed.rows.values()]
    assert shares == [1, 0.5, 1]
    for name, row in whole.rows.items():
        assert resumed.rows[name].scores == row.scores
    with pytest.raises(ValueError, match=r"keeps its settings: seeds = 2, got 3$"):
        compare(replace(comparison, seeds=range(3)), tmp_path / "cut", resume=True)
    assert results_figure([resumed]).axes


def test_worker_processes_change_no_figure(settings, monkeypatch, tmp_path):
    monkeypatch.undo()  # workers fit all draws
    methods = settle_methods(["hard"], "images")
    comparison = compare_images(methods, replace(settings, epochs=1), seeds=2)
    alone = compare(comparison, tmp_path / "alone")
    heard = set()
    shared = compare(
        comparison, tmp_path / "shared", workers=2, progress=lambda run, *_: heard.add(run)
    )
    assert shared.rows["hard"].scores == alone.rows["hard"].scores
    own = Result.read_file(tmp_path / "shared/runs/hard-seed1/result.json")
    assert own.origin["command"] == alone.origin["command"]
    assert heard >= {"hard-seed0", "hard-seed1"}


@pytest.mark.parametrize(("room", "default"), [("images", 0.5), ("ranking", 0.15)])
def test_losses_have_one_temperature_unless_another_is_given_or_recorded(room, default):
    names = losses_of(room)

    def temperatures(**options) -> dict[str, float]:
        methods = settle_methods(names, room, **options)
        default = LossSettings("info_nce", room=room).resolved()
        return {name: {**default, **values}["temperature"] for name, values in methods.items()}

    assert temperatures() == dict.fromkeys(names, default)
    own = {"info_nce": {"temperature": 0.3}, "hard": {"temperature": 0.4}}
    expected = {**dict.fromkeys(names, 0.3), "hard": 0.4}
    assert temperatures(recorded=lambda loss: own.get(loss, {})) == expected
    typed = temperatures(given={"temperature": 0.7}, recorded=lambda loss: own.get(loss, {}))
    assert typed == dict.fromkeys(names, 0.7)


def test_a_method_has_a_teacher_if_its_name_says_so_with_the_share_given_recorded_or_default():
    names = ["bayesian", "bayesian_teacher", "info_nce_teacher"]

    def shares(**options) -> list[float]:
        return [
            one["positive_share"] for one in settle_methods(names, "images", **options).values()
        ]

    own = {"bayesian_teacher": {"positive_share": 0.1}}
    assert shares() == [1, 0.5, 0.5]
    assert shares(recorded=lambda name: own.get(name, {})) == [1, 0.1, 0.5]
    assert shares(given={"positive_share": 0.2}) == [1, 0.2, 0.2]
    with pytest.raises(ValueError, match="losses hard takes positive_share"):
        settle_methods(["hard"], "images", given={"positive_share": 0.2})
    with pytest.raises(ValueError, match="loss must be one of"):
        settle_methods(["bpr_teacher"], "ranking")


def test_a_copy_of_cifar10_in_jpeg_files_is_never_called_cifar10():
    assert data_title("data/cifar10") == "CIFAR-10"
    assert data_title("data/cifar10-jpeg/") == "CIFAR-10 (JPEG)"
