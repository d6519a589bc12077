"""Every verdict names every loss compared, and is right about the sign and the spread."""

from pathlib import Path

import pytest
from compare.results import cell, images

from bayescl_lab.report.results import comparison_verdict
from bayescl_lab.report.tables import loss_title
from bayescl_lab.runs.result import Result

ROOT = Path(__file__).parents[3]
COMPARED = [
    *ROOT.glob("results/*/comparison.json"),
    *ROOT.glob("reproduction/results/ranking/*.json"),
]


def ranking(**methods: list[float]) -> Result:
    return cell("my.csv", **methods)


@pytest.mark.parametrize("file", COMPARED)
def test_the_verdict_on_a_committed_comparison_names_every_loss_and_what_to_do(file):
    result = Result.read_file(file)
    sentences = comparison_verdict(result)
    for name in result.rows:
        assert any(loss_title(name).lower() in sentence.lower() for sentence in sentences)
    assert 2 <= len(sentences) <= 4
    assert sentences[-1].startswith("Next: ")


def test_what_exceeds_the_spread_helped_or_hurt_and_the_rest_is_not_significant():
    result = images(
        info_nce=[0.5, 0.6, 0.7],
        bayesian=[0.61, 0.7, 0.81],
        debiased=[0.4, 0.51, 0.6],
        hard=[0.4, 0.75, 0.68],
        oracle=[0.7, 0.8, 0.9],
    )
    first, advice = comparison_verdict(result)
    assert first == (
        "Above InfoNCE on 1 label/class: oracle +20.00 ± 0.00 points, Bayesian +10.67 ± 0.58 "
        "points; below InfoNCE on 1 label/class: debiased -9.67 ± 0.58 points; not "
        "significantly different from InfoNCE with 3 seeds on 1 label/class: hard "
        "+1.00 ± 12.77 points."
    )
    assert advice == "Next: train with --loss bayesian."


@pytest.mark.parametrize(
    ("losses", "advice"),
    [
        ({"bayesian": [0.7, 0.5]}, "keep InfoNCE: another temperature may"),
        ({"bayesian": [0.4, 0.5]}, "keep InfoNCE: another temperature may"),
        ({"hard": [0.6, 0.7], "bayesian": [0.7, 0.8]}, "train with --loss bayesian."),
    ],
)
def test_the_next_step_follows_from_the_figures(losses, advice):
    for result in (images(info_nce=[0.5, 0.6], **losses), ranking(info_nce=[0.5, 0.6], **losses)):
        assert comparison_verdict(result)[-1].startswith(f"Next: {advice}")


def test_one_seed_one_loss_and_no_labels_claim_nothing():
    first, advice = comparison_verdict(images(info_nce=[0.5], bayesian=[0.9]))
    assert first.startswith("Not significantly different from InfoNCE with 1 seed on ")
    assert "--seeds 4" in advice
    assert "nothing to compare it with" in comparison_verdict(images(bayesian=[0.5]))[0]
    without = images([], info_nce=[0.5], bayesian=[0.5])
    assert "no labels" in comparison_verdict(without)[0]


def test_without_info_nce_the_first_loss_takes_its_place():
    first, _ = comparison_verdict(images(hard=[0.5, 0.6], bayesian=[0.7, 0.8]))
    assert first == "Above hard on 1 label/class: Bayesian +20.00 ± 0.00 points."
