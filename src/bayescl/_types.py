"""Names of the tensor axes in signatures.

Signatures give shapes in jaxtyping's notation. An axis has the same name everywhere:

=============== ==============================================================================
``batch``       items of a batch (images, pairs, users), before they are split into views
``anchors``     rows being trained; a two-view batch has two anchors per item
``candidates``  rows that an anchor is scored against, its own positive and itself excluded
                or masked
``dim``         coordinates of an embedding
``*shape``      any shape, the same for all arguments with this name
=============== ==============================================================================
"""

from __future__ import annotations

from jaxtyping import Bool as Bool
from jaxtyping import Float as Float
from jaxtyping import Int as Int
from torch import Tensor as Tensor

PositiveLogits = Float[Tensor, " anchors"]
"""Logit of each anchor's positive."""

UnlabeledLogits = Float[Tensor, "anchors candidates"]
"""Logits of each anchor's unlabeled candidates."""

CandidateMask = Bool[Tensor, "anchors candidates"]
"""True where a candidate counts for an anchor."""

PerAnchor = Float[Tensor, " anchors"]
"""One value per anchor."""
