"""Objectives: functions of logits, or losses defined by sums of exponentials.

Autograd differentiates a plain function through the whole matrix of logits. A
:class:`LogSumObjective` names the sums of exponentials that it needs and computes the loss from
them. Each engine computes the sums in its own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import torch

from bayescl._ops.log_space import (
    at_least_float32,
    log_count,
    masked_logsumexp,
    softplus,
)
from bayescl._ops.ranks import ROUNDING, Ranks, map_cdf
from bayescl._types import (
    CandidateMask,
    Float,
    PerAnchor,
    PositiveLogits,
    Tensor,
    UnlabeledLogits,
)


class Objective(Protocol):
    """Function of logits that returns one loss per anchor."""

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Compute one loss per anchor from the logits of its positive and its candidates."""
        ...


class Slopes(NamedTuple):
    """Losses and their derivatives."""

    losses: PerAnchor
    pull: PerAnchor
    """Derivatives with respect to the logits of the positives, with the opposite sign."""
    log_sums: tuple[PerAnchor, ...]
    """Derivatives with respect to the log of each sum, without the power 0."""


def tensors(log_sums: Sequence[Tensor | float], like: Tensor) -> tuple[Tensor, ...]:
    """Convert numbers among the logs of sums to tensors with one entry."""
    return tuple([log if isinstance(log, Tensor) else like.new_full((1,), log) for log in log_sums])


class LogSumObjective:
    r"""Objective that depends on its candidates only through sums of weighted exponentials.

    For each power :math:`p` of :attr:`powers` an engine computes

    .. math::
        S_p = \sum_i w_i\,e^{p\,s_i},

    and :meth:`from_log_sums` computes the loss from their logarithms. The weights are 1, or depend
    on the candidate's rank among the anchor's candidates. To define an objective, derive a frozen
    dataclass, override the methods that differ, and pass it to :class:`~bayescl.ContrastiveLoss`.

    Attributes:
        ranks: Kind of rank that :meth:`weights_of_cdf` receives, as in
            :func:`~bayescl.functional.empirical_cdf`. ``None`` if all weights are 1. On a GPU,
            ranks of cosines come from a histogram of each row with 1,025 bins.
        powers: Powers of the sums, at least 0. The power 0 is the unweighted number of candidates.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class MeanExponential(LogSumObjective):
        ...     powers = (1.0, 0.0)
        ...
        ...     def from_log_sums(self, positive, log_sums):
        ...         total, count = log_sums
        ...         return total - count - positive
        >>> MeanExponential()(torch.tensor([2.0]), torch.tensor([[0.0, 1.0]]))
        tensor([-1.3799])
    """

    ranks: Ranks | None = None
    powers: tuple[float, ...] = (1.0,)

    @cached_property
    def sum_powers(self) -> list[float]:
        """Powers without 0."""
        return [power for power in self.powers if power != 0]

    def weights_of_cdf(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the weights at values of the CDF in (0, 1]. They are not differentiated."""
        raise NotImplementedError(f"{type(self).__name__} must implement weights_of_cdf")

    def from_log_sums(
        self, positive: PositiveLogits, log_sums: tuple[Float[Tensor, "#anchors"], ...]
    ) -> PerAnchor:
        r"""Compute one loss per anchor. Default: :math:`-\log\frac{e^{s^+}}{e^{s^+} + S}`.

        Args:
            positive: Logit of each anchor's positive. Differentiated.
            log_sums: :math:`\log S_p` for each :math:`p` in :attr:`powers`, in the same order. For
                the power 0 it may be one number for all anchors. Differentiated. An anchor without
                candidates has the log-sum -inf, and must get the loss 0.
        """
        return softplus(log_sums[0] - positive)  # log(exp(s+) + S) - s+

    def slopes(self, positive: PositiveLogits, log_sums: tuple[PerAnchor | float, ...]) -> Slopes:
        """Compute :meth:`from_log_sums` and its derivatives, without a graph.

        The log-sum of power 0 is a number if all anchors have equally many candidates. The default
        loss has a closed form; other losses use autograd. Override this method to give the
        derivatives in closed form, which takes half the time in small batches.
        """
        if self.is_softmax:
            gap = log_sums[0] - positive
            slope = gap.sigmoid()
            return Slopes(softplus(gap), slope, (slope,))
        with torch.enable_grad():
            start = positive.detach().requires_grad_()
            logs = [log.detach().requires_grad_() for log in tensors(log_sums, positive)]
            losses = self.from_log_sums(start, tuple(logs))
        wanted = [log for log, power in zip(logs, self.powers, strict=True) if power != 0]
        grad_positive, *grad_log_sums = torch.autograd.grad(
            losses, [start, *wanted], torch.ones_like(losses), materialize_grads=True
        )
        return Slopes(losses.detach(), -grad_positive, tuple(grad_log_sums))

    @cached_property
    def is_softmax(self) -> bool:
        """Whether the gradient is a softmax: one sum, and the default :meth:`from_log_sums`."""
        alone = type(self).from_log_sums is LogSumObjective.from_log_sums
        return alone and len(self.powers) == 1

    def weights(
        self, unlabeled: UnlabeledLogits, *, valid: CandidateMask | None
    ) -> UnlabeledLogits:
        """Compute the weight of every candidate from its rank; 1 if no ranks are used."""
        return self.log_weights(unlabeled, valid=valid).exp()

    def log_weights(
        self, unlabeled: UnlabeledLogits, *, valid: CandidateMask | None
    ) -> UnlabeledLogits:
        """Compute the logs of :meth:`weights`, only once for rows with equal sorted ranks."""
        if self.ranks is None:
            return torch.zeros_like(unlabeled)
        return map_cdf(
            unlabeled,
            lambda cdf: self.weights_of_cdf(cdf).log(),
            valid=valid,
            ranks=self.ranks,
            ties_up_to=ROUNDING * torch.finfo(unlabeled.dtype).eps,
        )

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Compute one loss per anchor from the whole matrix of logits, in float32 or better."""
        positive, unlabeled = at_least_float32(positive), at_least_float32(unlabeled)
        log_weights = None if self.ranks is None else self.log_weights(unlabeled, valid=valid)
        counted = valid
        if log_weights is not None:
            # Exclude candidates of weight 0: the gradient of a sum of zeros alone is NaN.
            kept = log_weights > -torch.inf
            counted = kept if valid is None else valid & kept
        sums = []
        for power in self.powers:
            if power == 0:
                sums.append(log_count(unlabeled, valid))
                continue
            terms = unlabeled if power == 1 else power * unlabeled
            terms = terms if log_weights is None else terms + log_weights
            sums.append(masked_logsumexp(terms, counted))
        return self.from_log_sums(positive, tuple(sums))
