"""Check on real embeddings whether a loss's assumptions hold, in numbers and figures.

==================  =========================================================================
``candidates``      a batch as a loss sees it: weights, and which candidates are false negatives
``summary``         all figures of some batches: weights, detection and calibration
``embeddings``      all of these for given embeddings, loss by loss
``plots``           reliability diagram, weight histogram, weights by similarity
==================  =========================================================================
"""

from bayescl.diagnostics.candidates import (
    ScoredCandidates,
    candidate_weights,
    in_eval_mode,
    score_candidates,
)
from bayescl.diagnostics.embeddings import EmbeddingDiagnosis, diagnose_embeddings
from bayescl.diagnostics.plots import reliability_figure, similarity_figure, weights_figure
from bayescl.diagnostics.summary import (
    Calibration,
    Detection,
    Diagnosis,
    EffectiveNegatives,
    WeightHistogram,
    diagnose,
)

__all__ = [
    "Calibration",
    "Detection",
    "Diagnosis",
    "EffectiveNegatives",
    "EmbeddingDiagnosis",
    "ScoredCandidates",
    "WeightHistogram",
    "candidate_weights",
    "diagnose",
    "diagnose_embeddings",
    "in_eval_mode",
    "reliability_figure",
    "score_candidates",
    "similarity_figure",
    "weights_figure",
]
