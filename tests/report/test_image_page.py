"""The page on images says what the committed results say."""

from __future__ import annotations

import json
import re
from pathlib import Path

from cases import each
from quotes import comparison as comparison_of

from bayescl_lab.compare.summary import exceeds_noise, summarise
from bayescl_lab.report.tables import paired_differences
from bayescl_lab.runs.losses import losses_of

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/images.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"<!-- quote: comparison \.\./results/(\S+)/comparison\.json -->", PAGE)


def comparison(name: str) -> dict:
    return json.loads((ROOT / "results" / name / "comparison.json").read_text())


def tuning(name: str) -> dict:
    return json.loads((ROOT / "results" / name / "settings.json").read_text())


@each("name", SHOWN)
def test_a_summary_follows_from_its_runs_and_these_had_the_settings_chosen(name):
    result, choice = comparison(name), tuning(name)["choice"]
    runs = {name: {**run, "seed": run["settings"]["seed"]} for name, run in result["runs"].items()}
    losses = summarise(runs)["losses"]
    for loss, entry in result["summary"]["losses"].items():
        assert losses[loss]["probes"] == entry["probes"]
        assert losses[loss]["gap_closed"] == entry["gap_closed"]
    compared = tuple(result["settings"]["hyperparameters"])
    assert compared == tuple(loss for loss in losses_of("images") if loss in compared)
    for loss in compared:
        used = result["settings"]["hyperparameters"][loss]
        assert choice["losses"][loss].items() <= used.items()
    for setting, value in choice["shared"].items():
        # None stands for the default of the augmentation, 0.75 for affine noise.
        used = result["settings"][setting]
        assert used == value or (used is None and (setting, value) == ("strength", 0.75))
    for run in result["runs"].values():
        assert run["settings"]["seed"] not in tuning(name)["seeds"]
        assert run["settings"]["evaluate_on"] == "test"


def test_what_differed_while_settings_were_chosen_is_said():
    result, record = comparison("digits"), tuning("digits")
    fixed = {"epochs": 6, "width": result["settings"]["width"], "data": "elsewhere"}
    part = comparison_of(result, {**record, "fixed": fixed})
    assert "12 settings for every loss (and epochs 6): strength" in part
    assert "for every loss: strength" in comparison_of(result, record)


def test_what_the_page_says_of_cifar10_jpeg_is_what_its_figures_say():
    summary = comparison("cifar10-jpeg")["summary"]
    paired = paired_differences(comparison("cifar10-jpeg"))
    away = {
        loss: {probe for probe, one in of_loss.items() if exceeds_noise(one, len(summary["seeds"]))}
        for loss, of_loss in paired.items()
    }
    assert 0 < paired["oracle"]["few_label_1"]["mean"] < 0.01
    assert 0 < paired["oracle"]["few_label_5"]["mean"] < 0.01
    assert away["hard"] == {"few_label_5", "knn", "linear"}
    assert away["bayesian"] == {"knn", "linear"}
    for probe, one in paired["hard"].items():
        assert one["mean"] > max(0, paired["bayesian"][probe]["mean"])
    assert away["debiased"] == set(paired["debiased"])
    assert all(one["mean"] < 0 for one in paired["debiased"].values())
    assert all(paired["bayesian"][probe]["mean"] > 0 for probe in away["bayesian"])

    losses = tuning("cifar10-jpeg")["losses"]
    lowest = {
        loss: min(one["values"]["temperature"] for one in entry["scores"].values())
        for loss, entry in losses.items()
    }
    at_edge = {loss for loss in losses if losses[loss]["choice"]["temperature"] == lowest[loss]}
    assert at_edge == {"debiased", "hard", "bayesian", "oracle"}
    assert lowest["info_nce"] == lowest["oracle"] < lowest["bayesian"]


def test_prose_holds_no_figures_of_its_own():
    prose = re.sub(r"<!-- quote: .*?<!-- /quote -->", "", PAGE, flags=re.DOTALL)
    assert not re.findall(r"\d\.\d|\d ?%|±", prose)
