"""The fused engine: Triton kernels that never hold the matrix of logits.

``loss`` says what the engine computes and supports; ``launch`` makes it differentiable and gives
the kernels their buffers and grids; ``tiles`` lists their block sizes; ``kernels`` holds them.
"""

from bayescl.engines.fused.loss import (
    fused_loss,
    fused_unavailable_reason,
    fused_unsupported_reason,
)

__all__ = ["fused_loss", "fused_unavailable_reason", "fused_unsupported_reason"]
