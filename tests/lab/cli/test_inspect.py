"""``bayescl inspect RUN``: runs on images."""

import json
from pathlib import Path

import pytest


@pytest.fixture
def run(trained, bars) -> str:
    """A run of the Bayesian loss on bars."""
    line = f"train images {bars} --loss bayesian --epochs 2 --alpha 0.8 --beta 0.5 --tau_plus 0.3"
    return trained("bayesian", line)


def test_a_run_is_inspected_on_a_page_and_training_is_not_touched(bayescl, run):
    before = Path("run/checkpoints/last.ckpt").read_bytes()
    outcome = bayescl("inspect run")
    for words in ("false negatives of an anchor", "page: run/inspection.html"):
        assert words in outcome.out
    report = json.loads(Path("run/inspection.json").read_text())
    assert f"use loss = {report['advice']['loss']}" in outcome.out
    assert Path("run/checkpoints/last.ckpt").read_bytes() == before
    assert Path("run/inspection.html").read_text().count("<img") == 1
    assert report["items"] == report["labeled_items"] == 63
    assert report["batch_size"] == 20


def test_a_recommender_is_refused(bayescl, recommender):
    message = "run holds a run of 'train ranking', not of 'train images'"
    assert bayescl("inspect run").complaint == message
