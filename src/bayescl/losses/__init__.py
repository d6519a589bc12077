"""Contrastive losses on embeddings, one file per family of losses."""

from bayescl.losses.bayesian import BayesianContrastiveLoss
from bayescl.losses.calls import ContrastiveLoss
from bayescl.losses.debiased import DebiasedContrastiveLoss, HardContrastiveLoss
from bayescl.losses.gradient_cache import cached_backward
from bayescl.losses.info_nce import InfoNCELoss
from bayescl.losses.margin import Margin
from bayescl.losses.parameters import LearnableTemperature
from bayescl.losses.supervised import OracleContrastiveLoss, SupervisedContrastiveLoss

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
