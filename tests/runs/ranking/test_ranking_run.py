"""One recommender: settings and losses."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from ranking_data import write_groups

from bayescl_lab.ranking.data import RankingData
from bayescl_lab.runs.losses import losses_of, ranking_loss
from bayescl_lab.runs.ranking.run import RankingRun, train_ranking
from bayescl_lab.runs.ranking.settings import RankingSettings


@pytest.fixture
def settings(tmp_path) -> RankingSettings:
    """Four epochs of some steps on three groups of users and items."""
    file = write_groups(tmp_path)
    return RankingSettings(
        data=RankingData(str(file), user_column="customer", item_column="product"),
        dim=8,
        candidates=8,
        batch_size=6,
        lr=0.03,
        epochs=4,
        device="cpu",
    )


@pytest.mark.parametrize(
    ("encoder", "loss"),
    [*(("mf", loss) for loss in losses_of("ranking")), ("lightgcn", "bpr")],
)
def test_every_loss_finds_the_groups(settings, tmp_path, encoder, loss):
    settings = replace(settings, loss=ranking_loss(loss), encoder=encoder, epochs=12)
    result = train_ranking(settings, tmp_path / "run")
    assert result.row.scores["recall@10"].mean > 0.9


def test_settings_come_back_from_their_plain_values_and_there_is_no_oracle(settings):
    with pytest.raises(ValueError, match=r"loss must be one of info_nce, .*, bpr, got 'oracle'"):
        ranking_loss("oracle")
    with pytest.raises(ValueError, match="encoder must be one of mf, lightgcn, got 'gcn'"):
        replace(settings, encoder="gcn")
    for loss in losses_of("ranking"):
        config = replace(settings, loss=ranking_loss(loss)).as_config()
        assert RankingSettings.from_config(json.loads(json.dumps(config))).as_config() == config


def test_tau_plus_is_the_density_of_training_unless_given(settings):
    def tau_plus(loss: str, **given: float) -> float:
        return RankingRun(replace(settings, loss=ranking_loss(loss, given))).model.loss.tau_plus

    density = RankingRun(settings).parts.train.density
    assert tau_plus("bayesian") == pytest.approx(density)
    assert tau_plus("hard") == pytest.approx(density / 10)
    assert tau_plus("bayesian", tau_plus=0.2) == 0.2
