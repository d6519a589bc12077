"""Check on real embeddings whether a loss's assumptions hold, in numbers and figures.

==================  =========================================================================
``candidates``      a batch as a loss sees it, and which candidates are false negatives
``weights``         every loss's weights and posterior: effective numbers, distribution
``evaluation``      whether labels confirm weights and posterior: detection and calibration
``summary``         all of these on some batches
``embeddings``      all of these for given embeddings, loss by loss
``plots``           reliability diagram, weight histogram, weights by similarity
==================  =========================================================================
"""

from bayescl.diagnostics.candidates import ScoredCandidates, in_eval_mode, score_candidates
from bayescl.diagnostics.embeddings import EmbeddingDiagnosis, diagnose_embeddings
from bayescl.diagnostics.evaluation import (
    Calibration,
    ConfidentPairs,
    Detection,
    calibration,
    confident_pairs,
    false_negative_detection,
)
from bayescl.diagnostics.plots import reliability_figure, similarity_figure, weights_figure
from bayescl.diagnostics.summary import Diagnosis, EffectiveNegatives, PosteriorCheck, diagnose
from bayescl.diagnostics.weights import (
    WeightHistogram,
    candidate_posterior,
    candidate_weights,
    effective_negatives,
    weight_histogram,
)

__all__ = [
    "Calibration",
    "ConfidentPairs",
    "Detection",
    "Diagnosis",
    "EffectiveNegatives",
    "EmbeddingDiagnosis",
    "PosteriorCheck",
    "ScoredCandidates",
    "WeightHistogram",
    "calibration",
    "candidate_posterior",
    "candidate_weights",
    "confident_pairs",
    "diagnose",
    "diagnose_embeddings",
    "effective_negatives",
    "false_negative_detection",
    "in_eval_mode",
    "reliability_figure",
    "score_candidates",
    "similarity_figure",
    "weight_histogram",
    "weights_figure",
]
