"""One recommender: settings and losses."""

import json
from dataclasses import replace

import pytest

from bayescl_lab.runs.losses import RankingLossSettings
from bayescl_lab.runs.ranking.ranking_run import RankingRun
from bayescl_lab.runs.ranking.ranking_settings import RankingSettings


def test_settings_come_back_from_their_plain_values_and_there_is_no_oracle(ranking_settings):
    with pytest.raises(ValueError, match=r"loss must be one of info_nce, .*, bpr, got 'oracle'"):
        RankingLossSettings("oracle")
    with pytest.raises(ValueError, match="encoder must be one of mf, lightgcn, got 'gcn'"):
        replace(ranking_settings, encoder="gcn")
    for loss in RankingLossSettings.classes():
        config = replace(ranking_settings, loss=RankingLossSettings(loss)).as_config()
        assert RankingSettings.from_config(json.loads(json.dumps(config))).as_config() == config


def test_tau_plus_is_the_density_of_training_unless_given(ranking_settings):
    def tau_plus(loss: str, **given: float) -> float:
        return RankingRun(
            replace(ranking_settings, loss=RankingLossSettings(loss, given))
        ).model.loss.tau_plus

    density = RankingRun(ranking_settings).parts.train.density
    assert tau_plus("bayesian") == pytest.approx(density)
    assert tau_plus("hard") == pytest.approx(density / 10)
    assert tau_plus("bayesian", tau_plus=0.2) == 0.2
