"""Losses on embeddings: modules around the objectives of :mod:`bayescl.functional`."""

from bayescl.losses.base import ContrastiveLoss
from bayescl.losses.bayesian import BayesianContrastiveLoss
from bayescl.losses.debiased import DebiasedContrastiveLoss, HardContrastiveLoss
from bayescl.losses.denominators import MovingDenominators
from bayescl.losses.gradient_cache import cached_backward
from bayescl.losses.hyperparameters import LearnableTemperature
from bayescl.losses.info_nce import (
    AttractingOracleContrastiveLoss,
    InfoNCELoss,
    OracleContrastiveLoss,
)
from bayescl.losses.latent import LatentClassContrastiveLoss
from bayescl.losses.queue import CandidateQueue
from bayescl.losses.sigmoid import (
    BayesianSigmoidLoss,
    LatentClassSigmoidLoss,
    SigmoidContrastiveLoss,
)

__all__ = [
    "AttractingOracleContrastiveLoss",
    "BayesianContrastiveLoss",
    "BayesianSigmoidLoss",
    "CandidateQueue",
    "ContrastiveLoss",
    "DebiasedContrastiveLoss",
    "HardContrastiveLoss",
    "InfoNCELoss",
    "LatentClassContrastiveLoss",
    "LatentClassSigmoidLoss",
    "LearnableTemperature",
    "MovingDenominators",
    "OracleContrastiveLoss",
    "SigmoidContrastiveLoss",
    "cached_backward",
]
