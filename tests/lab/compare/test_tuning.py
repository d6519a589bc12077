import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
import yaml
from compare.test_comparison import compare

from bayescl_lab.compare.encoders import compare_encoders
from bayescl_lab.compare.plan import Plan
from bayescl_lab.compare.ranking import compare_ranking
from bayescl_lab.compare.tuning import other_values, temperatures
from bayescl_lab.report.results import comparison_verdict
from bayescl_lab.runs.losses import LossSettings, RankingLossSettings
from bayescl_lab.runs.result import Result

ROOT = Path(__file__).parents[3]


def record_of(name: str) -> dict:
    return json.loads((ROOT / "results" / name / "settings.json").read_text())


def chosen(entry: dict) -> dict[str, float]:
    """The values with the best score."""
    return max(entry["scores"].values(), key=lambda trial: trial["score"]["mean"])["values"]


@pytest.mark.parametrize("name", ["digits", "cifar10-jpeg"])
def test_tuned_settings_are_those_that_were_measured(name):
    record = record_of(name)
    assert min(record["seeds"]) > 100
    config = yaml.safe_load((ROOT / "examples" / f"{name}-tuned.yaml").read_text())
    assert config["methods"] == {loss: chosen(it) for loss, it in record["losses"].items()}
    assert config.items() >= chosen(record["shared"]).items()


@pytest.fixture(params=["images", "ranking"])
def comparison(request, settings, ranking_settings) -> Plan:
    """A comparison of two losses, with four settings for each."""
    if request.param == "images":
        methods = {name: {} for name in ["info_nce", "bayesian", "info_nce+teacher"]}
        few = replace(settings, epochs=1, batch_size=40)
        return compare_encoders(methods, few, seeds=1, tune=4)
    few = replace(ranking_settings, epochs=1)
    return compare_ranking({"info_nce": {}, "bayesian": {}}, few, seeds=1, tune=4)


def test_every_loss_gets_the_best_of_as_many_settings_on_the_validation_part(comparison, tmp_path):
    result = compare(comparison, tmp_path / "out")
    first = {name: one.as_config() for name, one in comparison.methods.items()}
    tried = [Result.read_file(file) for file in tmp_path.glob("out/tuning/*/result.json")]
    assert len(tried) == 4 * len(comparison.methods)
    assert {run.part for run in tried} == {"validation"}
    assert {run.settings["seed"] for run in tried}.isdisjoint(comparison.seeds)
    for name, row in result.rows.items():
        values = [trial.values for trial in row.tuning.scores.values()]
        assert values[0] == {"temperature": first[name]["temperature"]}
        trials = row.tuning.scores.values()
        assert row.tuning.choice == max(trials, key=lambda trial: trial.score.mean).values
        assert row.tuning.choice.items() <= row.settings.items()
        by_temperature = 4 if name == "info_nce" else 2
        tried = [one["temperature"] for one in values[:by_temperature]]
        assert tried == temperatures(first[name]["temperature"], by_temperature)
        assert len({json.dumps(one) for one in values}) == 4
        if name.endswith("+teacher"):
            assert [one["positive_share"] for one in values[2:]] == [0.1, 0.2]
    said = comparison_verdict(result)[0]
    assert said.startswith("The best of 4 settings for every loss, by ")
    assert "InfoNCE temperature" in said
    assert "Bayesian temperature" in said

    before = {file: file.stat().st_mtime_ns for file in tmp_path.glob("out/*/*/result.json")}
    (tmp_path / "out" / "result.json").unlink()
    assert compare(comparison, tmp_path / "out", resume=True).rows == result.rows
    assert {file: file.stat().st_mtime_ns for file in before} == before


@pytest.mark.parametrize("settings_type", [LossSettings, RankingLossSettings])
def test_what_is_tried_of_a_loss_is_within_its_ranges_and_changes_one_value_each(settings_type):
    for name in settings_type.classes():
        first = settings_type(name).resolved()
        changes = other_values(name, first)
        assert bool(changes) == (len(first) > 1)
        for change in changes:
            ((changed, value),) = change.items()
            resolved = settings_type(name, change).resolved()
            assert resolved == {**first, changed: value} != first


@pytest.mark.parametrize("count", [1, 2, 7, 100])
def test_temperatures_differ_and_cover_the_range_evenly(count):
    tried = sorted(temperatures(0.5, count))
    assert len(set(tried)) == count
    assert 0.5 in tried
    assert 0.125 <= tried[0] <= tried[-1] <= 1.0
    assert all(after / before <= 2 ** (6 / count) for before, after in pairwise(tried))
