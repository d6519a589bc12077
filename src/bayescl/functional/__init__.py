"""Pure functions on tensors: the mathematics, without state.

Logits become a loss in three steps: :func:`empirical_cdf` ranks each logit among its anchor's,
:func:`proposal_cdf` undoes the mixing of the two classes, and :func:`importance_weights` or
:func:`posterior` follows. Each objective takes logits and returns one value per anchor.
"""

from bayescl.functional.bayesian import Bayesian, bayesian_loss
from bayescl.functional.debiased import Debiased, Hard, debiased_loss, hard_loss
from bayescl.functional.info_nce import InfoNCE, info_nce_loss
from bayescl.functional.latent import Latent, latent_loss
from bayescl.functional.mixture import PairMixture, posterior, proposal_cdf
from bayescl.functional.objective import LogSumObjective, Objective
from bayescl.functional.ranks import empirical_cdf
from bayescl.functional.sigmoid import Sigmoid, sigmoid_loss
from bayescl.functional.similarity import candidate_logits, pair_logits, unit_vectors
from bayescl.functional.weights import importance_weights, logit_weights
from bayescl.latent_classes.fit import fit_latent_classes
from bayescl.latent_classes.mixture import Mixtures
from bayescl.latent_classes.posterior import LatentClasses, class_responsibilities, same_class

__all__ = [
    "Bayesian",
    "Debiased",
    "Hard",
    "InfoNCE",
    "Latent",
    "LatentClasses",
    "LogSumObjective",
    "Mixtures",
    "Objective",
    "PairMixture",
    "Sigmoid",
    "bayesian_loss",
    "candidate_logits",
    "class_responsibilities",
    "debiased_loss",
    "empirical_cdf",
    "fit_latent_classes",
    "hard_loss",
    "importance_weights",
    "info_nce_loss",
    "latent_loss",
    "logit_weights",
    "pair_logits",
    "posterior",
    "proposal_cdf",
    "same_class",
    "sigmoid_loss",
    "unit_vectors",
]
