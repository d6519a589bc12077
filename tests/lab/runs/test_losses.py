"""The table of losses: one row is all that a new loss needs."""

from dataclasses import replace
from typing import Any, ClassVar

import pytest

from bayescl._types import Tensor
from bayescl.functional import Objective
from bayescl.losses import ContrastiveLoss, HardContrastiveLoss
from bayescl_lab.compare.encoders import compare_encoders
from bayescl_lab.compare.plan import run_plans
from bayescl_lab.inspect.runs import run_arrays
from bayescl_lab.report.figures import results_figure
from bayescl_lab.report.results import scores_table
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.image_settings import ImageSettings
from bayescl_lab.runs.losses import LOSSES, LossRow, RankingLossSettings
from bayescl_lab.runs.ranking.ranking_run import train_ranking


class PowerLoss(ContrastiveLoss):
    """A toy: InfoNCE with candidates weighted by a power of their exponentiated logit.

    Args:
        power: exponent of the weights of a :class:`~torch.Tensor`; 0 is InfoNCE.
        **shared: what every loss takes.
    """

    hyperparameters: ClassVar = {**ContrastiveLoss.hyperparameters, "power": lambda value: value}

    def __init__(self, *, power: int = 3, **shared: Any) -> None:
        super().__init__(**shared)
        self.power = power

    def objective(self, temperature: float | Tensor) -> Objective:
        weighted = HardContrastiveLoss(concentration=float(self.power), tau_plus=0.0)
        return weighted.objective(temperature)


@pytest.fixture
def toy(monkeypatch) -> str:
    """A loss that is nowhere but in one row of the table."""
    row = LossRow("power", views=PowerLoss, ranking=PowerLoss)
    monkeypatch.setitem(LOSSES, "power", row)
    return "power"


def test_a_new_row_is_trained_compared_plotted_and_inspected_on_images(toy, settings, tmp_path):
    settings = replace(settings, epochs=2)
    plan = compare_encoders({"info_nce": {}, toy: {"power": 2}}, settings, seeds=1)
    (result,) = run_plans("toy", {}, [plan], tmp_path / "all")
    assert f"| {LOSSES[toy].title} |" in scores_table(result).markdown()
    assert results_figure([result]).axes
    run = tmp_path / "all" / "runs" / "power-seed0"
    loss = ImageSettings.from_config(RunFolder.find(run).config()).loss
    assert loss.hyperparameters["power"] == 2
    assert len(run_arrays(run)[0].embeddings) == 63


def test_a_new_row_trains_recommenders(toy, ranking_settings, tmp_path):
    settings = replace(ranking_settings, loss=RankingLossSettings(toy, {"power": 4}), epochs=2)
    result = train_ranking(settings, tmp_path / "run")
    assert result.settings["power"] == 4
