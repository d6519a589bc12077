"""What holds for every recommender, whatever it is made of, trained as its users would."""

from collections.abc import Callable

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from ranking.checkerboard import checkerboard

from bayescl.losses import BayesianContrastiveLoss, DebiasedContrastiveLoss, InfoNCELoss
from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.ranking.batches import UserBatches
from bayescl_lab.ranking.candidates import DrawnCandidates
from bayescl_lab.ranking.ease import EASE
from bayescl_lab.ranking.encoders import ENCODERS, Encoder, LightGCN, MatrixFactorization
from bayescl_lab.ranking.full_ranking import full_ranking
from bayescl_lab.ranking.ials import IALS
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.losses import BPRLoss
from bayescl_lab.ranking.metrics import evaluate_ranking
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.ranking.scorers import Popularity, Scorer
from bayescl_lab.runs.loop import quiet_lightning

Recommender = Callable[[Interactions], Scorer]


def trained(
    encoder: type[Encoder], loss: torch.nn.Module, count: int, propagate: int = 0
) -> Recommender:
    """Nine epochs with an encoder of four coordinates."""

    def train(data: Interactions) -> Scorer:
        with seeded(derived_seed(0, Purpose.WEIGHTS)):
            module = RankingModule(
                encoder=encoder(data, 4),
                loss=loss,
                candidates=DrawnCandidates(data.num_items, count),
                learning_rate=0.05,
                total_steps=9 * len(UserBatches(data, 4, 0)),
                weight_decay=1e-6,
                propagate=propagate,
                seed=0,
            )
        with quiet_lightning():
            pl.Trainer(
                accelerator="cpu",
                max_epochs=9,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            ).fit(module, UserBatches(data, 4, 0))
        return module.scorer()

    return train


INFO_NCE = InfoNCELoss(temperature=0.2)
BAYESIAN = BayesianContrastiveLoss(tau_plus=0.1, temperature=0.2)
DEBIASED = DebiasedContrastiveLoss(tau_plus=0.1, temperature=0.2)
MF = MatrixFactorization

ALL: dict[str, Recommender] = {
    "MF, InfoNCE, a draw": trained(MF, INFO_NCE, 12),
    "MF, Bayesian, all items": trained(MF, BAYESIAN, 999),
    "MF, debiased, propagated": trained(MF, DEBIASED, 12, 1),
    **{
        f"{name}, BPR": trained(encoder, BPRLoss(temperature=0.5, normalize=True), 36)
        for name, encoder in ENCODERS.items()
    },
    "LightGCN, Bayesian, all items": trained(LightGCN, BAYESIAN, 999),
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
