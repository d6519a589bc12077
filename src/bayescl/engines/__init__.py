"""The same per-anchor losses of a batch, computed at different cost.

The dense engine holds the whole matrix of logits and can be differentiated any number of times. The
chunked engine holds a few rows at a time. The fused engine, on a GPU, holds none.
"""

from bayescl.engines.batch import CandidateRule, ContrastiveBatch, Labels, Layout, SameClass
from bayescl.engines.chunked import chunked_loss
from bayescl.engines.dense import ObjectiveAt, dense_loss, logits_loss
from bayescl.engines.fused import fused_loss, fused_unavailable_reason, fused_unsupported_reason
from bayescl.engines.rounds import SpreadBatch, losses_in_rounds
from bayescl.engines.select import ENGINES, Engine, per_anchor_losses, select_engine
from bayescl.functional.excluded import Excluded

__all__ = [
    "ENGINES",
    "CandidateRule",
    "ContrastiveBatch",
    "Engine",
    "Excluded",
    "Labels",
    "Layout",
    "ObjectiveAt",
    "SameClass",
    "SpreadBatch",
    "chunked_loss",
    "dense_loss",
    "fused_loss",
    "fused_unavailable_reason",
    "fused_unsupported_reason",
    "logits_loss",
    "losses_in_rounds",
    "per_anchor_losses",
    "select_engine",
]
