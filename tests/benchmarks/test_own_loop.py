"""The own loop on a made-up shop, smaller than the benchmark's."""

from __future__ import annotations

import pytest
from made_up_shop import made_up_shop
from own_loop import METRICS, own_loop

from bayescl_lab.ranking.scorers import Popularity
from bayescl_lab.runs.ranking.baselines import ranking_figures
from bayescl_lab.runs.ranking.data import RankingData


@pytest.mark.parametrize("loss", ["info_nce", "bayesian"])
def test_the_loop_with_log_q_beats_a_list_of_popular_items(loss, tmp_path):
    made_up_shop(users=400, items=200, tastes=4).write_csv(tmp_path / "shop.csv")
    parts = RankingData(str(tmp_path / "shop.csv")).load("test")
    popular = ranking_figures(Popularity(parts.train), parts)["metrics"]
    corrected, plain = (
        own_loop(parts, loss, 0, batch=256, corrects=corrects) for corrects in (True, False)
    )
    for name in METRICS:
        assert corrected[name] > max(1.1 * popular[name], plain[name])
