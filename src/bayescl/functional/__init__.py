"""Pure functions on tensors: the mathematics, without state.

From logits to a loss the data flows through :func:`empirical_cdf` (where a logit stands among its
anchor's), :func:`proposal_cdf` (undo the mixing of the two classes), then
:func:`importance_weights` or :func:`posterior`. Each objective takes logits and returns one value
per anchor.
"""

from bayescl.functional.bayesian import bayesian_loss
from bayescl.functional.candidates import CandidateRule, ContrastiveBatch
from bayescl.functional.cdfs import (
    false_negative_cdf,
    false_negative_quantile,
    proposal_cdf,
    true_negative_cdf,
    true_negative_quantile,
    unlabeled_cdf,
)
from bayescl.functional.debiased import debiased_loss
from bayescl.functional.hard import hard_loss
from bayescl.functional.info_nce import info_nce_loss
from bayescl.functional.latent import attracting, candidate_weights, latent_loss
from bayescl.functional.latent_classes import (
    LatentClasses,
    Mixtures,
    class_responsibilities,
    component_transitions,
    fit_latent_classes,
    fit_mixtures,
    item_responsibilities,
    mean_kappa,
    responsibilities,
    same_class,
    same_class_factors,
    start_mixtures,
    trust_of_agreement,
    view_agreement,
)
from bayescl.functional.mixture import (
    false_negative_density,
    hard_negative_density,
    maximum_density,
    minimum_density,
    true_negative_density,
    unlabeled_density,
)
from bayescl.functional.objectives import Bayesian, Debiased, Hard, InfoNCE, Objective
from bayescl.functional.oracle import oracle_loss
from bayescl.functional.posterior import posterior
from bayescl.functional.ranks import empirical_cdf
from bayescl.functional.similarity import candidate_logits, pair_logits, unit_vectors
from bayescl.functional.weights import importance_weights, logit_weights

__all__ = [
    "Bayesian",
    "CandidateRule",
    "ContrastiveBatch",
    "Debiased",
    "Hard",
    "InfoNCE",
    "LatentClasses",
    "Mixtures",
    "Objective",
    "attracting",
    "bayesian_loss",
    "candidate_logits",
    "candidate_weights",
    "class_responsibilities",
    "component_transitions",
    "debiased_loss",
    "empirical_cdf",
    "false_negative_cdf",
    "false_negative_density",
    "false_negative_quantile",
    "fit_latent_classes",
    "fit_mixtures",
    "hard_loss",
    "hard_negative_density",
    "importance_weights",
    "info_nce_loss",
    "item_responsibilities",
    "latent_loss",
    "logit_weights",
    "maximum_density",
    "mean_kappa",
    "minimum_density",
    "oracle_loss",
    "pair_logits",
    "posterior",
    "proposal_cdf",
    "responsibilities",
    "same_class",
    "same_class_factors",
    "start_mixtures",
    "true_negative_cdf",
    "true_negative_density",
    "true_negative_quantile",
    "trust_of_agreement",
    "unit_vectors",
    "unlabeled_cdf",
    "unlabeled_density",
    "view_agreement",
]
