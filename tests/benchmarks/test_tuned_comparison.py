"""Tuning on one part and comparing on the other, with runs that cost nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tuned_comparison import Plan, compare, markdown, run_plan, tune

calls: list[str] = []


@dataclass(frozen=True)
class Settings:
    method: str
    values: dict[str, Any]
    seed: int
    evaluate_on: str
    epochs: int = 1


def train(settings, out, *, resume, checkpoint_every, progress):
    """Validation likes x = 2 and y = 0.1, the test part a larger x; oracles are better."""
    calls.append(out.name)
    out.mkdir(parents=True, exist_ok=True)
    x, y = settings.values.get("x", 0.0), settings.values.get("y", 0.1)
    bonus = {"info_nce": 0.0, "rival": 0.1, "oracle": 0.2}[settings.method]
    on_part = -abs(x - 2) / 10 - abs(y - 0.1) if settings.evaluate_on == "validation" else x / 100
    score = 0.5 + bonus + on_part + settings.seed / 500
    return {
        "settings": {"x": x},
        "seed": settings.seed,
        "scores": {"first": score, "second": score},
        "seconds": 1.0,
        "loss": 0.0,
        "commit": "0" * 40,
    }


PLAN = Plan(
    name="tried",
    title="Numbers",
    grids={"rival": {"x": (1.0, 2.0, 3.0)}, "oracle": {"x": (1.0, 2.0, 4.0)}},
    recorded={"info_nce": {"x": 0.0}},
    tuning_seeds=(10, 11),
    settings=lambda method, values, shared, seed, evaluate_on: Settings(
        method, {**shared, **values}, seed, evaluate_on
    ),
    train=train,
    criterion=("first",),
    scores=("first", "second"),
    shares=("first",),
    titles={"first": "1st", "second": "2nd", "rival": "Rival", "info_nce": "IN", "oracle": "O"},
)
METHODS = ["info_nce", "rival", "oracle"]


def test_the_choice_is_the_best_on_the_validation_part(tmp_path):
    chosen, lines = tune(PLAN, METHODS, tmp_path, workers=1)
    assert {method: entry["choice"] for method, entry in chosen["methods"].items()} == {
        "info_nce": {"x": 0.0},
        "rival": {"x": 2.0},
        "oracle": {"x": 2.0},
    }
    assert len(lines) == 2 * 3 * 2
    assert {line["stage"] for line in lines} == {"tuning"}


def test_what_methods_share_is_chosen_first_and_holds_for_all(tmp_path):
    calls.clear()
    plan = replace(PLAN, shared_grid={"y": (0.0, 0.3, 0.1)}, shared_values={"x": 1.0})
    chosen, lines = tune(plan, METHODS, tmp_path, workers=1)
    assert chosen["shared"]["choice"] == {"y": 0.1}
    assert len(lines) == 3 * 2 + 2 * 3 * 2
    assert all("y0.1" in name for name in calls[6:])
    one, lines = tune(replace(plan, shared_grid={"y": (0.3,)}), METHODS, tmp_path, workers=1)
    assert one["shared"]["choice"] == {"y": 0.3}
    assert len(lines) == 2 * 3 * 2


def test_the_test_part_is_seen_only_with_the_choice(tmp_path):
    calls.clear()
    choice = {"info_nce": {"x": 0.0}, "rival": {"x": 2.0}, "oracle": {"x": 2.0}}
    summary, lines = compare(PLAN, choice, range(3), tmp_path, workers=1)
    assert len(calls) == len(lines) == 9
    assert summary["rival"]["scores"]["first"]["mean"] == pytest.approx(0.5 + 0.1 + 0.02 + 0.002)
    assert summary["rival"]["gap_closed"]["first"] == pytest.approx(0.12 / 0.22)
    assert summary["oracle"]["gap_closed"]["first"] == 1


def test_no_share_is_given_where_the_oracle_is_not_above(tmp_path):
    choice = {"info_nce": {"x": 90.0}, "oracle": {"x": 0.0}}
    summary, _ = compare(PLAN, choice, range(2), tmp_path, workers=1)
    assert summary["info_nce"]["gap_closed"] == {"first": None}


def test_unequal_budgets_are_refused():
    with pytest.raises(ValueError, match="the same number of settings"):
        replace(PLAN, grids={"rival": {"x": (1.0,)}, "oracle": {"x": (1.0, 2.0)}})


def test_three_files_hold_runs_summary_and_table(tmp_path):
    record = run_plan(
        PLAN,
        METHODS,
        range(2),
        runs=tmp_path / "runs",
        results=tmp_path / "results",
        script="benchmarks/tried.py",
    )
    lines = (tmp_path / "results" / "tried.jsonl").read_text().splitlines()
    assert len(lines) == 12 + 6
    assert json.loads(lines[-1])["stage"] == "test"
    assert json.loads((tmp_path / "results" / "tried.json").read_text()) == record
    table = (tmp_path / "results" / "tried.md").read_text()
    assert table == markdown(PLAN, record)
    assert "| Rival | 62.1 ± 0.1 | 62.1 ± 0.1 | 55 % | 1 | x 2 |" in table
    assert record["hardware"]["cpu"] in table


def test_tuning_alone_leaves_the_test_part_unseen(tmp_path):
    calls.clear()
    run_plan(
        PLAN,
        METHODS,
        range(2),
        runs=tmp_path / "runs",
        results=tmp_path / "results",
        script="benchmarks/tried.py",
        only_tune=True,
    )
    assert not [name for name in calls if "test" in name]
    assert not (tmp_path / "results" / "tried.md").exists()
