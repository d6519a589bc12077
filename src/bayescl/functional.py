"""Stateless functions on tensors.

The Bayesian loss computes its weights in three steps: :func:`empirical_cdf` ranks each logit among
the logits of its anchor, :func:`proposal_cdf` recovers the proposal CDF (see :class:`PairMixture`),
and :func:`importance_weights` gives the weights. Each loss function takes logits
and returns one value per anchor.
"""

from bayescl._ops.mixture import PairMixture, posterior, proposal_cdf
from bayescl._ops.objective import LogSumObjective, Objective
from bayescl._ops.ranks import empirical_cdf
from bayescl._ops.similarity import candidate_logits, pair_logits, unit_vectors
from bayescl._ops.target import target_probabilities, target_term
from bayescl._ops.weights import importance_weights, logit_weights
from bayescl.losses.bayesian import Bayesian, bayesian_loss
from bayescl.losses.debiased import Debiased, Hard, debiased_loss, hard_loss
from bayescl.losses.info_nce import InfoNCE, info_nce_loss

__all__ = [
    "Bayesian",
    "Debiased",
    "Hard",
    "InfoNCE",
    "LogSumObjective",
    "Objective",
    "PairMixture",
    "bayesian_loss",
    "candidate_logits",
    "debiased_loss",
    "empirical_cdf",
    "hard_loss",
    "importance_weights",
    "info_nce_loss",
    "logit_weights",
    "pair_logits",
    "posterior",
    "proposal_cdf",
    "target_probabilities",
    "target_term",
    "unit_vectors",
]
