"""Contrastive losses on embeddings, one file per family of losses."""

from bayescl.contrastive_loss import ContrastiveLoss
from bayescl.gradient_cache import cached_backward
from bayescl.losses.bayesian import BayesianContrastiveLoss
from bayescl.losses.debiased import DebiasedContrastiveLoss, HardContrastiveLoss
from bayescl.losses.info_nce import InfoNCELoss
from bayescl.losses.supervised import OracleContrastiveLoss, SupervisedContrastiveLoss
from bayescl.margin import Margin
from bayescl.temperature import LearnableTemperature

__all__ = [
    "BayesianContrastiveLoss",
    "ContrastiveLoss",
    "DebiasedContrastiveLoss",
    "HardContrastiveLoss",
    "InfoNCELoss",
    "LearnableTemperature",
    "Margin",
    "OracleContrastiveLoss",
    "SupervisedContrastiveLoss",
    "cached_backward",
]
