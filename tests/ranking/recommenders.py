"""Every recommender of the library, trained on a small data set as its users would."""

from __future__ import annotations

from collections.abc import Callable

import lightning.pytorch as pl
import torch

from bayescl.losses import BayesianContrastiveLoss, DebiasedContrastiveLoss, InfoNCELoss
from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.ranking.batches import PairBatches
from bayescl_lab.ranking.candidates import (
    AllItems,
    CandidateSource,
    InBatchCandidates,
    PerPairCandidates,
    SharedCandidates,
)
from bayescl_lab.ranking.ease import EASE
from bayescl_lab.ranking.encoder import Encoder, MatrixFactorization
from bayescl_lab.ranking.ials import IALS
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.light_gcn import LightGCN
from bayescl_lab.ranking.losses import BPRLoss
from bayescl_lab.ranking.module import RankingModule
from bayescl_lab.ranking.scorers import Popularity, Score, Scorer
from bayescl_lab.runs.loop import quiet_lightning

Recommender = Callable[[Interactions], Scorer]


def train(
    train: Interactions,
    encoder: Callable[[Interactions], Encoder],
    loss: torch.nn.Module,
    candidates: CandidateSource,
    *,
    epochs: int = 6,
    seed: int = 0,
) -> RankingModule:
    """A trained module."""
    with seeded(derived_seed(seed, Purpose.WEIGHTS)):
        module = RankingModule(
            encoder=encoder(train),
            loss=loss,
            candidates=candidates,
            learning_rate=0.05,
            weight_decay=1e-6,
            seed=seed,
        )
    with quiet_lightning():
        trainer = pl.Trainer(
            accelerator="cpu",
            max_epochs=epochs,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(module, PairBatches(train, 64, seed))
    return module


def factors(score: Score) -> Callable[[Interactions], Encoder]:
    return lambda train: MatrixFactorization(train, 4, score=score)


def graph(score: Score) -> Callable[[Interactions], Encoder]:
    return lambda train: LightGCN(train, 4, layers=2, score=score)


def bayesian() -> BayesianContrastiveLoss:
    return BayesianContrastiveLoss(tau_plus=0.1, temperature=0.2)


TRAINED: dict[str, Recommender] = {
    "MF, InfoNCE, shared candidates": lambda data: train(
        data, factors("cosine"), InfoNCELoss(temperature=0.2), SharedCandidates(data, 12)
    ).scorer(),
    "MF, inner products, InfoNCE, all items": lambda data: train(
        data, factors("inner"), InfoNCELoss(temperature=1.0, normalize=False), AllItems(data)
    ).scorer(),
    "MF, Bayesian, in batch": lambda data: train(
        data, factors("cosine"), bayesian(), InBatchCandidates(data)
    ).scorer(),
    "MF, debiased, distinct in batch": lambda data: train(
        data,
        factors("cosine"),
        DebiasedContrastiveLoss(tau_plus=0.1, temperature=0.2),
        InBatchCandidates(data, distinct=True),
    ).scorer(),
    "MF, BPR": lambda data: train(
        data, factors("inner"), BPRLoss(), PerPairCandidates(data, 1)
    ).scorer(),
    "LightGCN, BPR": lambda data: train(
        data, graph("inner"), BPRLoss(), PerPairCandidates(data, 1)
    ).scorer(),
    "LightGCN, Bayesian, all items": lambda data: train(
        data, graph("cosine"), bayesian(), AllItems(data)
    ).scorer(),
}

PERSONAL: dict[str, Recommender] = {
    **TRAINED,
    "EASE": lambda data: EASE(data, 1.0),
    "iALS": lambda data: IALS(data, dim=4),
}

ALL: dict[str, Recommender] = {**PERSONAL, "popularity": Popularity}
