"""Denominators that move: what small batches remember of each anchor's sum over candidates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count, check_interval
from bayescl.engines import ContrastiveBatch
from bayescl.functional.log_space import softplus
from bayescl.functional.similarity import pair_logits
from bayescl.functional.sorting import is_eager_cpu
from bayescl.losses.gathering import Gathering
from bayescl.losses.hyperparameters import Hyperparameter, state_numbers
from bayescl.losses.layouts import check_groups


class MovingDenominators(nn.Module):
    r"""A moving estimate of every anchor's sum over the candidates of the whole data set.

    The gradient of a contrastive loss divides by a sum over candidates. A small batch estimates
    that sum badly, and the reciprocal of a noisy estimate is biased. With this option of
    :class:`~bayescl.InfoNCELoss` and :class:`~bayescl.BayesianContrastiveLoss`, an estimate is kept
    for each item and moves whenever the item is in a batch:

    .. math::
        u_i \leftarrow (1 - \gamma)\,u_i + \gamma\,\hat S_i, \qquad
        \hat S_i = \frac{N - 1}{B - 1} \sum_j w_j e^{s_{ij}}, \qquad
        \ell_i = \log\big(e^{s_i^+} + u_i\big) - s_i^+,

    with :math:`\gamma` the rate, N items in the data, B of them in the batch (of all processes, if
    the loss gathers) and weights of 1 for InfoNCE. The gradient takes :math:`u_i` as a constant and
    divides by it the gradient of :math:`\hat S_i`, so the batch's candidates pull as hard as they
    would among those of the whole set. If the whole set is one batch and the rate is 1, this is the
    plain loss. At an item's first visit its estimate is the batch's.

    Two views of an item share an estimate; the two directions of ``in_batch`` have one each. They
    move only in training mode. In evaluation mode, a call with ``indices`` looks at them, and a
    call without is the plain loss. They are part of ``state_dict``, with the rate. If a loss
    gathers, all processes hold the same estimates, else those of their own calls.

    Args:
        size: number of items in the data set, at least 2; indices count them from 0.
        rate: weight of the current batch, in (0, 1]; settable during training. The smaller it is,
            the more batches an estimate averages, and the older they are.

    Raises:
        ValueError: if ``size`` is not a whole number of at least 2, or ``rate`` is out of range.

    Example:
        >>> moving = MovingDenominators(size=1000, rate=0.5)
        >>> from bayescl import InfoNCELoss
        >>> loss = InfoNCELoss(temperature=0.5, denominators=moving)
        >>> loss(torch.eye(3), torch.eye(3), indices=torch.tensor([4, 0, 998]))
        tensor(5.6036)
        >>> moving.log_sums[0, :5]
        tensor([7.5999,   -inf,   -inf,   -inf, 7.5999])

    Reference:
        Yuan et al., "Provable Stochastic Optimization for Global Contrastive Learning: Small Batch
        Does Not Harm Performance", ICML 2022 (SogCLR). There the positive is not part of the
        denominator, which among many candidates changes little.
    """

    log_sums: Tensor
    """Logarithms of the estimates, ``[directions, size]``; -inf before an item's first visit."""

    rate = Hyperparameter(lambda value: check_interval("rate", value, 0.0, 1.0, open_low=True))

    def __init__(self, size: int, *, rate: float = 0.9) -> None:
        super().__init__()
        self.size = check_count("size", size, 2)
        self.rate = rate
        self.register_buffer("log_sums", torch.full((2, size), -torch.inf))

    def checked(self, indices: Int[Tensor, " items"], items: int) -> Int[Tensor, " items"]:
        """Return a batch's indices as int64, on the estimates' device, or refuse them."""
        on_host = isinstance(indices, Tensor) and indices.is_cpu
        check_groups("indices", indices, (items,), None if on_host else self.log_sums.device)
        indices = indices.long()
        if is_eager_cpu(indices):
            low, high = indices.min().item(), indices.max().item()
            if low < 0 or high >= self.size:
                raise ValueError(
                    f"indices must lie in [0, {self.size - 1}], got {low if low < 0 else high}"
                )
            _refuse_repeats(indices)
        return indices.to(self.log_sums.device)

    def moved(
        self,
        losses: Sequence[Float[Tensor, " anchors"]],
        batches: Sequence[ContrastiveBatch],
        temperature: float | Tensor,
    ) -> tuple[list[Float[Tensor, " anchors"]], Float[Tensor, "items directions"]]:
        """Return each direction's losses with moved estimates, and the estimates, for `keep`."""
        moved, fresh = [], []
        for direction, (plain, batch) in enumerate(zip(losses, batches, strict=True)):
            views = 2 if batch.layout == "two_views" else 1
            positive = pair_logits(batch.anchors, batch.positives, temperature)
            with torch.no_grad():
                others = batch.num_candidates // views - 1
                log_scale = math.log((self.size - 1) / others)
                # Gaps are logs of sums less the positive's logit s+; a loss is log(1 + e^gap).
                # The batch's own: log S - s+, S the scaled sum, from plain = log(1 + S' e^-s+).
                gap = plain + torch.log(-torch.expm1(-plain)) + log_scale
                past = self.log_sums[direction, batches[0].indices].to(gap).repeat(views)
                gap_now = torch.where(past > -torch.inf, self._mixed(past - positive, gap), gap)
                value = softplus(gap_now)
                # With D = e^s+ + u, the gradient dS / D + (e^s+ / D - 1) ds+ is a multiple of the
                # plain loss's, (dS' - S' ds+) / (e^s+ + S'), and the rest, (S - u) / D ds+.
                of_plain = (log_scale + plain - value).exp()
                of_positive = (gap - value).exp() - gap_now.sigmoid()
                now = (gap_now + positive).view(views, -1)
                fresh.append(now.logsumexp(dim=0) - math.log(views))
            moving = of_plain * (plain - plain.detach())
            moved.append(value + moving + of_positive * (positive - positive.detach()))
        return moved, torch.stack(fresh, dim=1)

    def _mixed(self, past: Tensor, present: Tensor) -> Tensor:
        """The logarithm of a moving mean, from those of its two parts."""
        if self.rate == 1:
            return present
        return torch.logaddexp(past + math.log1p(-self.rate), present + math.log(self.rate))

    @torch.no_grad()
    def keep(
        self,
        indices: Int[Tensor, " items"],
        fresh: Float[Tensor, "items directions"],
        gathering: Gathering,
    ) -> None:
        """Keep the estimates of a batch, of all processes if they gather; none that are NaN."""
        if torch._C._are_functorch_transforms_active():
            return  # a transform's values must not outlive it
        if gathering.active:
            indices, fresh = gathering.rows_of_all(indices, fresh, calls=0)
            _refuse_repeats(indices)
        directions = fresh.shape[1]
        kept = self.log_sums[:directions, indices]
        fresh = fresh.T.to(kept)
        self.log_sums[:directions, indices] = torch.where(fresh.isnan(), kept, fresh)

    def get_extra_state(self) -> dict[str, float]:
        """Return the rate for ``state_dict``."""
        return {"rate": self.rate}

    def set_extra_state(self, state: Any) -> None:
        """Take the rate out of a ``state_dict``, or raise ``ValueError``."""
        self.rate = state_numbers(type(self).__name__, state, ("rate",))["rate"]

    def extra_repr(self) -> str:
        """Show both settings."""
        return f"size={self.size}, rate={self.rate:g}"


def for_engine(denominators: MovingDenominators | None, engine: str) -> MovingDenominators | None:
    """Return a loss's denominators, or refuse them beside an engine that cannot move them."""
    if denominators is not None:
        if not isinstance(denominators, MovingDenominators):
            kind = type(denominators).__name__
            raise TypeError(f"denominators must be MovingDenominators, got {kind}")
        if engine == "fused":
            raise ValueError("engine must be auto, dense or chunked with denominators, got 'fused'")
    return denominators


def _refuse_repeats(indices: Int[Tensor, " items"]) -> None:
    """Refuse indices that name an item twice."""
    values, counts = indices.unique(return_counts=True)
    if len(values) < len(indices):
        again = values[counts.argmax()].item()
        raise ValueError(f"indices must be distinct, got {again} {int(counts.max())} times")
