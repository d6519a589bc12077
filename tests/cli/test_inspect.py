"""``bayescl inspect RUN``: runs on images."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bayescl_lab.inspect.images import image_arrays


@pytest.fixture
def run(trained, bars) -> str:
    """A run of the Bayesian loss on bars."""
    line = f"train images {bars} --loss bayesian --epochs 2 --alpha 0.8 --beta 0.5 --tau_plus 0.3"
    return trained("bayesian", line)


def report_of(run: str) -> dict:
    return json.loads(Path(run, "inspection.json").read_text())


def test_a_run_is_inspected_on_a_page_and_training_is_not_touched(bayescl, run) -> None:
    before = Path("run/checkpoints/last.ckpt").read_bytes()
    reports = []
    for seed in (1, 1, 2):
        outcome = bayescl(f"inspect run --items 40 --seed {seed}")
        for words in ("false negatives of an anchor", "repulsion", "page: run/inspection.html"):
            assert words in outcome.out
        reports.append(report_of("run"))
        assert f"use loss = {reports[-1]['advice']['loss']}" in outcome.out
    assert reports[0] == reports[1] != reports[2]
    assert Path("run/checkpoints/last.ckpt").read_bytes() == before
    assert Path("run/inspection.html").read_text().count("<img") == 1
    report = reports[0]
    assert (report["items"], report["batches"], report["batch_size"]) == (40, 2, 20)
    assert (report["labeled_items"], report["temperature_from"]) == (40, "given")


def test_views_and_batches_are_those_of_the_run(run) -> None:
    record = np.load("run/images.npz")
    arrays, options = image_arrays(Path(run), images=20)
    assert len(arrays.embeddings) == len(arrays.labels) == 20 < len(record["ids"])
    assert options["batch_size"] == 20
    assert not np.allclose(arrays.embeddings, arrays.second_view)


def test_images_without_labels_get_what_needs_none(bayescl, pictures) -> None:
    pictures("photos", (".",), count=40)
    line = "--batch_size 10 --width 4 --epochs 1 --device cpu --loss hard"
    assert bayescl(f"train images --data photos {line} --out run").status == 0
    assert bayescl("inspect run --items 20 --tau-plus 0.25 --out page.html").status == 0
    report = json.loads(Path("page.json").read_text())
    assert (report["tau_plus"], report["tau_plus_from"]) == (0.25, "given")
    assert report["labeled_items"] == 0


def test_a_recommender_is_refused(bayescl, recommender) -> None:
    message = "run holds a run of 'train ranking', not of 'train images'"
    assert bayescl("inspect run").complaint == message
