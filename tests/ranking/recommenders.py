"""Every recommender of the library, trained on a small data set as its users would."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

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
Source = Callable[..., CandidateSource]


def trained(
    encoder: type[Encoder], score: Score, loss: torch.nn.Module, candidates: Source, *count: int
) -> Recommender:
    """Six epochs with an encoder of four coordinates."""

    def train(data: Interactions) -> Scorer:
        source = candidates(data, *count)
        with seeded(derived_seed(0, Purpose.WEIGHTS)):
            module = RankingModule(
                encoder=encoder(data, 4, score=score),
                loss=loss,
                candidates=source,
                learning_rate=0.05,
                weight_decay=1e-6,
                seed=0,
            )
        with quiet_lightning():
            pl.Trainer(
                accelerator="cpu",
                max_epochs=6,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            ).fit(module, PairBatches(data, 64, 0))
        return module.scorer()

    return train


INFO_NCE = InfoNCELoss(temperature=0.2)
INNER = InfoNCELoss(temperature=1.0, normalize=False)
BAYESIAN = BayesianContrastiveLoss(tau_plus=0.1, temperature=0.2)
DEBIASED = DebiasedContrastiveLoss(tau_plus=0.1, temperature=0.2)
MF = MatrixFactorization
DISTINCT = partial(InBatchCandidates, distinct=True)

ALL: dict[str, Recommender] = {
    "MF, InfoNCE, shared candidates": trained(MF, "cosine", INFO_NCE, SharedCandidates, 12),
    "MF, inner products, InfoNCE, all items": trained(MF, "inner", INNER, AllItems),
    "MF, Bayesian, in batch": trained(MF, "cosine", BAYESIAN, InBatchCandidates),
    "MF, debiased, distinct in batch": trained(MF, "cosine", DEBIASED, DISTINCT),
    "MF, BPR": trained(MF, "inner", BPRLoss(), PerPairCandidates, 1),
    "LightGCN, BPR": trained(LightGCN, "inner", BPRLoss(), PerPairCandidates, 1),
    "LightGCN, Bayesian, all items": trained(LightGCN, "cosine", BAYESIAN, AllItems),
    "EASE": lambda data: EASE(data, 1.0),
    "iALS": lambda data: IALS(data, dim=4),
    "popularity": Popularity,
}
