"""The paper's numerical experiments: a process that generates scores, and estimators.

:func:`observe` draws labelled scores, :func:`estimates` computes every estimator of the true
negatives' mean on them, and :mod:`~bayescl_lab.paper.simulation.experiments` repeats both over
ranges of parameters and draws the figures. The command ``bayescl simulate`` runs them.
"""

from bayescl_lab.paper.simulation.estimators import estimates, implied_mean, true_negative_mean
from bayescl_lab.paper.simulation.process import Observations, observe
from bayescl_lab.paper.simulation.proposals import (
    NormalProposals,
    Proposals,
    UniformProposals,
    draw_proposals,
)
from bayescl_lab.paper.simulation.samplers import sample_by_inversion, sample_by_rejection
from bayescl_lab.paper.simulation.settings import Settings, generator

__all__ = [
    "NormalProposals",
    "Observations",
    "Proposals",
    "Settings",
    "UniformProposals",
    "draw_proposals",
    "estimates",
    "generator",
    "implied_mean",
    "observe",
    "sample_by_inversion",
    "sample_by_rejection",
    "true_negative_mean",
]
