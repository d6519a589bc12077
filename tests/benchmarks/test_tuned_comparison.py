"""Tuning on one part and comparing on the other, with runs that cost nothing."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tuned_comparison import Plan, parser_of, run_plan

calls: list[tuple[str, dict[str, float]]] = []


def train(method, seed, evaluate_on, y, x=0.0):
    """Validation likes x = 2 and y = 0.1, the test part a larger x; oracles are better."""
    calls.append((evaluate_on, {"x": x, "y": y}))
    bonus = {"info_nce": 0.0, "rival": 0.1, "oracle": 0.2}[method]
    on_part = -abs(x - 2) / 10 - abs(y - 0.1) if evaluate_on == "validation" else x / 100
    score = 0.5 + bonus + on_part + seed / 500
    return {"scores": {"first": score, "second": score}, "loss": 0.0}


PLAN = Plan(
    name="tried",
    title="Numbers",
    grids={"rival": {"x": (1.0, 2.0, 3.0)}, "oracle": {"x": (1.0, 2.0, 4.0)}},
    recorded={"info_nce": {"x": 0.0}},
    tuning_seeds=(10, 11),
    train=train,
    criterion=("first",),
    scores=("first", "second"),
    titles={"rival": "Rival", "info_nce": "IN", "oracle": "O"},
    shared_grid={"y": (0.3, 0.1)},
    shared_values={"x": 1.0},
)


def options(folder, *words):
    own = ["--runs", str(folder / "runs"), "--results", str(folder / "results"), "--workers", "1"]
    return parser_of("Try.", ("info_nce", "rival", "oracle")).parse_args([*own, *words])


def test_methods_are_tuned_on_one_part_and_compared_on_the_other(tmp_path, capsys):
    calls.clear()
    record = run_plan(PLAN, options(tmp_path, "--seeds", "3"))
    tuning = record["tuning"]
    assert tuning["shared"]["choice"] == {"y": 0.1}
    assert {method: entry["choice"] for method, entry in tuning["methods"].items()} == {
        "info_nce": {"x": 0.0},
        "rival": {"x": 2.0},
        "oracle": {"x": 2.0},
    }
    assert all(values["y"] == 0.1 for _, values in calls[4:])  # what all share is chosen first
    assert all(part == "validation" for part, _ in calls[: 2 * 2 + 2 * 3 * 2])
    assert record["settings_tried"] == 3
    score = record["methods"]["rival"]["scores"]["first"]
    assert score["mean"] == pytest.approx(0.5 + 0.1 + 0.02 + 0.002)
    assert "| Rival | 62.2 ± 0.2 | 62.2 ± 0.2 |" in capsys.readouterr().out
    lines = (tmp_path / "results" / "tried.jsonl").read_text().splitlines()
    parts = [json.loads(line)["run"]["evaluate_on"] for line in lines]
    assert (parts.count("validation"), parts.count("test")) == (2 * 2 + 2 * 3 * 2, 3 * 3)
    assert json.loads((tmp_path / "results" / "tried.json").read_text()) == record
    calls.clear()
    again = run_plan(PLAN, options(tmp_path, "--seeds", "4"))
    assert len(calls) == 3  # what is in the journal is not trained again
    assert again["tuning"] == tuning
    with pytest.raises(ValueError, match="the same number of settings"):
        replace(PLAN, grids={"rival": {"x": (1.0,)}, "oracle": {"x": (1.0, 2.0)}})
