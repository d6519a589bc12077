"""Check on real embeddings whether the assumptions of a loss hold.

==================  =========================================================================
``candidates``      a batch as a loss sees it: weights, and which candidates are false negatives
``summary``         statistics of some batches: weights, detection and calibration
==================  =========================================================================
"""

from bayescl.diagnostics.candidates import (
    ScoredCandidates,
    candidate_weights,
    score_candidates,
)
from bayescl.diagnostics.summary import (
    Calibration,
    Detection,
    Diagnosis,
    EffectiveNegatives,
    diagnose,
)

__all__ = [
    "Calibration",
    "Detection",
    "Diagnosis",
    "EffectiveNegatives",
    "ScoredCandidates",
    "candidate_weights",
    "diagnose",
    "score_candidates",
]
