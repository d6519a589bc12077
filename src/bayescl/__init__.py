"""Contrastive learning that is not fooled by false negatives.

Every unlabeled candidate is weighed by the posterior probability that it is a true negative.
Importing this package costs what importing torch costs; images, recommenders and commands live in
subpackages with requirements of their own.
"""

from bayescl import distributed, functional
from bayescl.losses import (
    BayesianContrastiveLoss,
    CandidateQueue,
    ContrastiveLoss,
    DebiasedContrastiveLoss,
    HardContrastiveLoss,
    InfoNCELoss,
    LearnableTemperature,
    OracleContrastiveLoss,
    cached_backward,
)

__version__ = "0.1.0"

__all__ = [
    "BayesianContrastiveLoss",
    "CandidateQueue",
    "ContrastiveLoss",
    "DebiasedContrastiveLoss",
    "HardContrastiveLoss",
    "InfoNCELoss",
    "LearnableTemperature",
    "OracleContrastiveLoss",
    "__version__",
    "cached_backward",
    "distributed",
    "functional",
]
