"""What holds for every recommender, whatever it is made of, trained as its users would."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from ranking.checkerboard import checkerboard

from bayescl_lab.ranking.ease import EASE
from bayescl_lab.ranking.encoders import ENCODERS
from bayescl_lab.ranking.full_ranking import full_ranking
from bayescl_lab.ranking.ials import IALS
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.metrics import evaluate_ranking
from bayescl_lab.ranking.scorers import Popularity, Scorer
from bayescl_lab.runs.folder import Kind, RunFolder
from bayescl_lab.runs.losses import RankingLossSettings
from bayescl_lab.runs.ranking.ranking_record import RankingRecord
from bayescl_lab.runs.ranking.ranking_run import RankingRun
from bayescl_lab.runs.ranking.ranking_settings import RankingSettings

Recommender = Callable[[Interactions], Scorer]


def trained(loss: str, values: dict[str, float], **options: object) -> Recommender:
    """Nine epochs with an encoder of four coordinates."""

    def train(data: Interactions) -> Scorer:
        small = {"dim": 4, "batch_size": 4, "epochs": 9, "lr": 0.05, "weight_decay": 1e-6}
        of_loss = RankingLossSettings(loss, values)
        settings = RankingSettings(loss=of_loss, device="cpu", **small, **options)
        record = RankingRecord(data, np.zeros(data.num_interactions, dtype=np.uint8))
        run = RankingRun(settings, record=record)
        with TemporaryDirectory() as folder:
            run.fit(RunFolder.create(Path(folder), Kind.RANKING, {}))
        return run.model.scorer()

    return train


COLD, WITH_PRIOR = {"temperature": 0.2}, {"temperature": 0.2, "tau_plus": 0.1}
ALL: dict[str, Recommender] = {
    "MF, InfoNCE, a draw": trained("info_nce", COLD, candidates=12),
    "MF, Bayesian, all items": trained("bayesian", WITH_PRIOR),
    "MF, hard, all items": trained("hard", WITH_PRIOR),
    "MF, debiased, propagated": trained("debiased", WITH_PRIOR, candidates=12, propagate=1),
    **{f"{it}, BPR": trained("bpr", {"temperature": 0.5}, encoder=it) for it in ENCODERS},
    "LightGCN, Bayesian, all items": trained("bayesian", WITH_PRIOR, encoder="lightgcn"),
    "EASE": lambda data: EASE(data, 1.0),
    "iALS": lambda data: IALS(data, dim=4),
    "popularity": Popularity,
}

PARTS = checkerboard()
TRAIN = PARTS.train


@pytest.fixture(scope="module", params=ALL)
def fitted(request):
    """The name of a recommender, and the recommender."""
    return request.param, ALL[request.param](TRAIN)


def test_it_finds_every_hidden_square_of_the_checkerboard_unless_it_is_popularity(fitted):
    name, scorer = fitted
    figures = evaluate_ranking(scorer, PARTS, ks=(2,)).metrics
    assert (figures["recall@2"] > 0.95) == (figures["ndcg@2"] > 0.95) == (name != "popularity")
    assert name != "popularity" or figures["recall@2"] < 0.5


def test_lists_hold_unseen_items_once_in_blocks_of_any_size(fitted, monkeypatch):
    _, scorer = fitted
    long = full_ranking(scorer, TRAIN.num_items, seen=TRAIN).items
    seen = TRAIN.matrix.toarray() > 0
    for user, items in enumerate(long.tolist()):
        recommended = [item for item in items if item >= 0]
        assert sorted(recommended) == np.flatnonzero(~seen[user]).tolist()
    users = torch.tensor([5, 0, 5, 30])
    for block_size in (1, 3):
        scores = block_size * TRAIN.num_items
        monkeypatch.setattr("bayescl_lab.ranking.full_ranking._BLOCK_SCORES", scores)
        lists = full_ranking(scorer, 7, seen=TRAIN, users=users)
        assert torch.equal(lists.items, long[users, :7])
