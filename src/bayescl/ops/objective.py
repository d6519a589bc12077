"""What an objective is: any function of logits, or data that says which sums it needs.

Autograd differentiates a function through the whole matrix of logits. An objective that is data
names the sums of exponentials it needs and how they become a loss; each engine computes those sums
in its own way, for all objectives alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch

from bayescl.axes import (
    CandidateMask,
    Float,
    PerAnchor,
    PositiveLogits,
    Tensor,
    UnlabeledLogits,
)
from bayescl.ops.log_space import contrast, log_count, masked_logsumexp, softplus
from bayescl.ops.ranks import Ranks, map_cdf


class Objective(Protocol):
    """A function that turns logits into one loss per anchor."""

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Return one loss per anchor from its positive's and its candidates' logits."""
        ...


class Slopes(NamedTuple):
    """Losses and their derivatives."""

    losses: PerAnchor
    positive: PerAnchor
    """With respect to the positives' logits."""
    log_sums: tuple[PerAnchor, ...]
    """With respect to the log of the sum of each power, except 0."""


class LogSumObjective:
    r"""An objective that sees its candidates through sums of weighted exponentials alone.

    For each power :math:`p` of :attr:`powers` an engine computes

    .. math::
        S_p = \sum_i w_i\,e^{p\,s_i},

    and :meth:`from_log_sums` turns the logarithms into a loss. The weights are 1, or depend on a
    candidate's rank among its anchor's. So all engines can compute a new objective without
    knowing it: derive a frozen dataclass, override what differs, and pass it to
    :class:`~bayescl.ContrastiveLoss`.

    Attributes:
        ranks: kind of rank that :meth:`weights_of_cdf` receives, as in
            :func:`~bayescl.functional.empirical_cdf`; None if all candidates weigh the same.
        powers: of the sums, at least 0; 0 stands for the unweighted number of candidates.

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
        """The powers but 0."""
        return [power for power in self.powers if power != 0]

    @property
    def may_drop(self) -> bool:
        """Whether a weight may be 0; if False, engines do not check."""
        return True

    def weights_of_cdf(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the weights at values of the CDF in (0, 1], constants for the gradient."""
        raise NotImplementedError(f"{type(self).__name__} sets ranks without weights_of_cdf")

    def from_log_sums(
        self, positive: PositiveLogits, log_sums: tuple[Float[Tensor, "#anchors"], ...]
    ) -> PerAnchor:
        r"""Return one loss per anchor; :math:`-\log\frac{e^{s^+}}{e^{s^+} + S}` by default.

        Args:
            positive: logit of each anchor's positive. Differentiated.
            log_sums: logarithm of the sum of each of :attr:`powers`, in their order; for the power
                0 it may be one number for all anchors. Differentiated.
        """
        return contrast(positive, log_sums[0])

    def slopes(self, positive: PositiveLogits, log_sums: tuple[PerAnchor, ...]) -> Slopes:
        """Return :meth:`from_log_sums` with its derivatives, all without gradient.

        The derivatives come from autograd, except those of the default loss. In small batches
        closed forms take half the time: override this method if that matters.
        """
        if self.is_softmax:
            gap = log_sums[0] - positive
            slope = gap.sigmoid()
            return Slopes(softplus(gap), -slope, (slope,))
        with torch.enable_grad():
            start = positive.detach().requires_grad_()
            logs = [log.detach().requires_grad_() for log in log_sums]
            losses = self.from_log_sums(start, tuple(logs))
        wanted = [log for log, power in zip(logs, self.powers, strict=True) if power != 0]
        grad_positive, *grad_log_sums = torch.autograd.grad(
            losses, [start, *wanted], torch.ones_like(losses), materialize_grads=True
        )
        return Slopes(losses.detach(), grad_positive, tuple(grad_log_sums))

    @cached_property
    def is_softmax(self) -> bool:
        """Whether the gradient is a softmax: one sum and the default loss."""
        alone = type(self).from_log_sums is LogSumObjective.from_log_sums
        return alone and len(self.powers) == 1

    @property
    def tells_apart(self) -> bool:
        """Whether two candidates of one anchor may have different weights."""
        return self.ranks is not None or self.powers[0] != 1

    def weights(
        self, unlabeled: UnlabeledLogits, *, valid: CandidateMask | None
    ) -> UnlabeledLogits:
        """Every candidate's weight by its rank; 1 if the objective uses no ranks."""
        if self.ranks is None:
            return torch.ones_like(unlabeled)
        return map_cdf(unlabeled, self.weights_of_cdf, valid=valid, ranks=self.ranks)

    def log_weights(
        self, unlabeled: UnlabeledLogits, *, valid: CandidateMask | None
    ) -> UnlabeledLogits:
        """Logarithms of :meth:`weights`, computed once per rank if rows share their ranks."""
        if self.ranks is None:
            return torch.zeros_like(unlabeled)
        return map_cdf(
            unlabeled, lambda cdf: self.weights_of_cdf(cdf).log(), valid=valid, ranks=self.ranks
        )

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Return one loss per anchor from the whole matrix of logits."""
        log_weights = None if self.ranks is None else self.log_weights(unlabeled, valid=valid)
        counted = valid
        if log_weights is not None and self.may_drop:
            # Leave out what weighs nothing: a row of nothing but logarithms of 0 has no gradient.
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


@dataclass(frozen=True)
class Maskless:
    """Wrapper for a function of logits without a ``valid`` argument; all candidates must count."""

    function: Callable[[PositiveLogits, UnlabeledLogits], PerAnchor]

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Return the function's losses; refuse a mask that excludes a candidate."""
        if valid is not None and not bool(valid.all()):
            raise ValueError(
                "objective must accept valid=mask here, because some candidates do not count (the "
                "anchor itself, its positive, or those that groups or valid exclude)"
            )
        return self.function(positive, unlabeled)


def takes_mask(objective: Callable[..., PerAnchor]) -> bool:
    """Whether an objective has an argument ``valid``; True if that cannot be determined."""
    try:
        arguments = inspect.signature(objective).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(named.name == "valid" or named.kind is named.VAR_KEYWORD for named in arguments)


def as_data(objective: Objective) -> LogSumObjective | None:
    """Return an objective as data, or None if it is a plain function for autograd."""
    return objective if isinstance(objective, LogSumObjective) else None
