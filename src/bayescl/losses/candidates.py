"""Warnings and errors about the candidates of a batch."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import torch

from bayescl._checks import check_finite, is_eager_cpu
from bayescl._types import Float, Tensor
from bayescl.batch import Batch

_FEW_CANDIDATES = 16
"""Number of candidates below which a warning is given: a rule of thumb, not a measured value."""

_CALLS_LOOKED_AT = 10
"""Number of calls with ``domains`` in which candidates are counted: the first ones suffice for the
warning, and the mask costs time."""


class CandidateWatch:
    """Warn once if anchors have no or few candidates."""

    def __init__(self) -> None:
        self.has_warned = False
        self._calls_with_domains = 0

    def look_at(self, losses: Float[Tensor, " pairs"], batch: Batch, *, check: bool) -> None:
        """Warn if most anchors have few candidates; with ``check``, raise if none has any.

        The batch must need a mask; otherwise all anchors have the same number of candidates. This
        does nothing on a GPU, where it would synchronize, and while tracing.
        """
        if self.has_warned or not is_eager_cpu(losses):
            return
        reason = None
        values = losses.detach()
        if values[0].item() == 0 and not values.any():  # the first test is cheap
            mask = batch.mask()
            if mask is not None and not mask.any():
                reason = "no anchor has a candidate, so the loss and its gradient are 0"
                if check:
                    raise ValueError(reason)
        if reason is None and batch.anchors.domains is not None:
            reason = self._small_domains(batch)
        if reason is not None:
            self.has_warned = True
            warnings.warn(reason, stacklevel=5)

    def _small_domains(self, batch: Batch) -> str | None:
        """Return a warning if most anchors have few candidates of their own domain."""
        if self._calls_with_domains >= _CALLS_LOOKED_AT:
            return None
        self._calls_with_domains += 1
        mask = batch.mask()
        if mask is None:
            return None
        median = int(mask.sum(dim=1).median())
        if median >= _FEW_CANDIDATES:
            return None
        return (
            f"half of the anchors have at most {median} candidates of their own domain: draw "
            "batches of few domains with DomainBatchSampler; if the domains themselves are "
            "small, merge similar ones, or mark their items with -1"
        )


def refuse_not_finite(
    losses: Float[Tensor, " pairs"], batches: Sequence[Batch], temperature: float | Tensor
) -> None:
    """Raise ``ValueError`` if losses are not finite, and name the likely cause."""
    bad = int((~losses.detach().isfinite()).sum())
    if bad == 0:
        return
    rows = [part for batch in batches for part in (batch.positives, *batch.columns)]
    for part in rows:
        for name in ("log_q", "teacher"):
            values = getattr(part, name)
            if values is not None:
                check_finite(name, values)
    scale = torch.as_tensor(temperature).detach().item()
    largest = max(float(part.embeddings.detach().abs().max()) for part in rows)
    raise ValueError(
        f"logits must be finite, got NaN or infinity for {bad} of {len(losses)} pairs: "
        f"the largest coordinate is {largest:.3g} and the temperature {scale:.3g}"
    )
