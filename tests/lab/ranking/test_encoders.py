"""The table of encoders: built by name, from the settings that each takes."""

from bayescl_lab.ranking.encoders import ENCODERS, Encoder
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.report.results import result_title
from bayescl_lab.runs.ranking.ranking_run import RankingRun
from bayescl_lab.runs.ranking.ranking_settings import RankingSettings
from bayescl_lab.runs.result import Result


class Doubled(Encoder):
    """A toy encoder: both tables, multiplied."""

    title = "doubled tables"
    own_settings = ("layers",)

    def __init__(self, train: Interactions, dim=64, *, layers=2, **shared) -> None:
        super().__init__(train, dim, **shared)
        self.layers = layers

    def users_and_items(self):
        return self.layers * self.user_table, self.layers * self.item_table


def test_a_row_in_the_table_is_all_that_a_new_encoder_needs(monkeypatch, ranking_settings):
    monkeypatch.setitem(ENCODERS, "doubled", Doubled)
    config = {**ranking_settings.as_config(), "encoder": "doubled", "layers": 5}
    assert RankingRun(RankingSettings.from_config(config)).model.encoder.layers == 5
    assert result_title(Result("shop", "test", {}, 1, encoder="doubled")) == "shop, doubled tables"
