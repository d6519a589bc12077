"""The page on images says what the committed results say."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bayescl_lab.compare.result import Result

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/images.md").read_text(encoding="utf-8")


def comparison(name: str) -> Result:
    return Result.read_file(ROOT / "results" / name / "comparison.json")


def tuning(name: str) -> dict:
    return json.loads((ROOT / "results" / name / "settings.json").read_text())


def test_what_the_page_says_of_cifar10_jpeg_is_what_its_figures_say():
    paired = comparison("cifar10-jpeg").differences()
    away = {
        name: {probe for probe, one in scores.items() if one.sign}
        for name, scores in paired.items()
    }
    assert 0 < paired["oracle"]["few_label_1"].mean < 0.01
    assert 0 < paired["oracle"]["few_label_5"].mean < 0.01
    assert away["hard"] == {"few_label_5", "knn", "linear"}
    assert away["bayesian"] == {"knn", "linear"}
    for probe, one in paired["hard"].items():
        assert one.mean > max(0, paired["bayesian"][probe].mean)
    assert away["debiased"] == set(paired["debiased"])
    assert all(one.mean < 0 for one in paired["debiased"].values())
    assert all(paired["bayesian"][probe].mean > 0 for probe in away["bayesian"])

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
