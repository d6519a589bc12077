"""Tuning on one part and comparing on the other, with runs that cost nothing."""

from __future__ import annotations

import gc
import json
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tuned_comparison import Plan, parser_of, run_plan

calls: list[str] = []


@pytest.fixture(autouse=True)
def nothing_to_collect():
    """Garbage is collected after every run, which takes long where much is loaded."""
    gc.freeze()
    yield
    gc.unfreeze()


@dataclass(frozen=True)
class Settings:
    method: str
    values: dict[str, Any]
    seed: int
    evaluate_on: str
    epochs: int = 1


def train(settings, out, **_):
    """Validation likes x = 2 and y = 0.1, the test part a larger x; oracles are better."""
    calls.append(out.name)
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
    assert all("y0.1" in name for name in calls[4:])  # what all share is chosen first
    assert record["settings_tried"] == 3
    score = record["methods"]["rival"]["scores"]["first"]
    assert score["mean"] == pytest.approx(0.5 + 0.1 + 0.02 + 0.002)
    assert "| Rival | 62.2 ± 0.2 | 62.2 ± 0.2 |" in capsys.readouterr().out
    lines = (tmp_path / "results" / "tried.jsonl").read_text().splitlines()
    stages = [json.loads(line)["stage"] for line in lines]
    assert (stages.count("tuning"), stages.count("test")) == (2 * 2 + 2 * 3 * 2, 3 * 3)
    assert json.loads((tmp_path / "results" / "tried.json").read_text()) == record


def test_tuning_alone_leaves_the_test_part_unseen(tmp_path):
    calls.clear()
    record = run_plan(PLAN, options(tmp_path, "--tune", "--methods", "info_nce"))
    assert len(calls) == 4
    assert not [name for name in calls if "test" in name]
    assert "methods" not in record


def test_unequal_budgets_and_unknown_methods_are_refused(tmp_path, capsys):
    with pytest.raises(ValueError, match="the same number of settings"):
        replace(PLAN, grids={"rival": {"x": (1.0,)}, "oracle": {"x": (1.0, 2.0)}})
    with pytest.raises(SystemExit):
        options(tmp_path, "--methods", "nothing")
    assert "invalid choice: 'nothing'" in capsys.readouterr().err
