"""What an objective is: any function of logits, or data that says which sums it needs.

Autograd differentiates a function through the whole matrix of logits. An objective that is data
names the sums of exponentials it needs and how they become a loss; each engine computes those sums
in its own way, for all objectives alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch.nn.functional import logsigmoid

from bayescl.axes import (
    Bool,
    CandidateMask,
    Float,
    PerAnchor,
    PositiveLogits,
    Tensor,
    UnlabeledLogits,
)
from bayescl.functional.excluded import Excluded
from bayescl.functional.log_space import contrast, log_count, masked_logsumexp, softplus
from bayescl.functional.ranks import Ranks, map_cdf


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


class PairTerms(NamedTuple):
    r"""What an objective makes of the posterior of pairs; constants for the gradient.

    An anchor's loss is

    .. math::
        \log\Big(e^{s^+} + c \sum_j w_j e^{s_j}\Big) - s^+ + h \sum_j p_j (s^+ - s_j)
        + \frac{g}{\kappa} \sum_j m_j
        \log\Big(1 + \frac{d \sum_k o_k e^{\kappa s_k}}{e^{\kappa s_j}}\Big).

    Factors of rows are kept apart, since scaling a row's sums is cheaper than scaling a matrix.
    Every matrix is 0 for what is not a candidate.
    """

    weights: Float[Tensor, "anchors candidates"] | None
    """Of the exponentials, :math:`w`; None if all candidates weigh 1."""
    scale: Float[Tensor, " anchors"] | None
    """Factor that gives an anchor's weights mean 1, :math:`c`; None where they are 1."""
    pulls: Float[Tensor, "anchors candidates"] | None
    """Candidates' parts of the target, :math:`p`; None where the positive has all of it."""
    share: Float[Tensor, " anchors"]
    """Factor that turns pulls into shares of the target, :math:`h`; the positive has the rest."""
    members: Float[Tensor, "anchors candidates"] | None
    """How strongly a member is drawn past all that are not members, :math:`m`, or None."""
    draw: Float[Tensor, " anchors"]
    """Factor of these, :math:`g`."""
    others: Float[Tensor, "anchors candidates"] | None
    """How far a candidate is not a member, :math:`o`; None where there are no members."""
    others_scale: Float[Tensor, " anchors"]
    """Factor that gives these mean 1, :math:`d`."""
    sharpness: float = 1.0
    r"""How soon a member that leads the others is left alone, :math:`\kappa`."""


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
        bins: bins of the histogram, if ranks come from one.
        reads_same_class: whether the objective uses the posterior that pairs are of one class,
            through :meth:`pair_terms`, if a batch has one.

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
    bins: int = 256
    reads_same_class: bool = False

    @property
    def powers(self) -> tuple[float, ...]:
        """Powers of the sums, at least 0; 0 stands for the unweighted number of candidates."""
        return (1.0,)

    @property
    def may_drop(self) -> bool:
        """Whether a weight may be 0; if False, engines do not check."""
        return True

    def weights_of_cdf(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the weights at values of the CDF in (0, 1], constants for the gradient."""
        raise NotImplementedError(f"{type(self).__name__} sets ranks without weights_of_cdf")

    def pair_terms(
        self,
        same_class: Float[Tensor, "anchors candidates"],
        excluded: Excluded,
        certain: Bool[Tensor, "anchors candidates"] | None = None,
    ) -> PairTerms:
        """Return weights and pulls from the posterior of pairs.

        Args:
            same_class: the posterior, in [0, 1]; may be overwritten.
            excluded: which columns are not candidates; their entries may hold any number.
            certain: True where the posterior is known to be right, from labels.
        """
        raise NotImplementedError(f"{type(self).__name__} does not use a posterior of pairs")

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
        of_positive, *of_logs = torch.autograd.grad(
            losses, [start, *wanted], torch.ones_like(losses), materialize_grads=True
        )
        return Slopes(losses.detach(), of_positive, tuple(of_logs))

    @property
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
        return map_cdf(
            unlabeled, self.weights_of_cdf, valid=valid, ranks=self.ranks, bins=self.bins
        )

    def log_weights(
        self, unlabeled: UnlabeledLogits, *, valid: CandidateMask | None
    ) -> UnlabeledLogits:
        """Logarithms of :meth:`weights`, computed once per rank if rows share their ranks."""
        if self.ranks is None or self.ranks == "histogram":
            # A bin's weight is a mean: take its logarithm, not the mean of logarithms.
            return self.weights(unlabeled, valid=valid).log()
        return map_cdf(
            unlabeled, lambda cdf: self.weights_of_cdf(cdf).log(), valid=valid, ranks=self.ranks
        )

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
        same_class: Float[Tensor, "anchors candidates"] | None = None,
        certain: Bool[Tensor, "anchors candidates"] | None = None,
    ) -> PerAnchor:
        """Return one loss per anchor from the whole matrix of logits.

        The posterior ``same_class``, in [0, 1], and where it is ``certain`` are used only if
        :attr:`reads_same_class` is True.
        """
        if self.reads_same_class and same_class is not None:
            return self._from_pairs(positive, unlabeled, same_class.detach(), certain, valid)
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

    def _from_pairs(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        same_class: Float[Tensor, "anchors candidates"],
        certain: Bool[Tensor, "anchors candidates"] | None,
        valid: CandidateMask | None,
    ) -> PerAnchor:
        """The loss if a posterior gives weights and targets."""
        terms = self.pair_terms(same_class.clone(), Excluded.without(valid), certain)
        loss = contrast(positive, _weighted_logsumexp(unlabeled, terms.weights, terms.scale, valid))
        if terms.pulls is not None:
            # s+ less the mean over the targets, which is 0 exactly where nothing attracts.
            targets = terms.pulls * terms.share[:, None]
            apart = torch.where(targets > 0, positive[:, None] - unlabeled, 0)
            loss = loss + (targets * apart).sum(dim=1)
        if terms.members is not None and terms.others is not None:
            sharp = unlabeled if terms.sharpness == 1 else terms.sharpness * unlabeled
            rest = _weighted_logsumexp(sharp, terms.others, terms.others_scale, None)
            ahead = torch.where(terms.members > 0, sharp, 0) - rest[:, None]
            behind = (terms.members * logsigmoid(ahead)).sum(dim=1)
            loss = loss - terms.draw * behind / terms.sharpness
        return loss


def _weighted_logsumexp(
    logits: UnlabeledLogits,
    weights: Float[Tensor, "anchors candidates"] | None,
    scale: Float[Tensor, " anchors"] | None,
    valid: CandidateMask | None,
) -> PerAnchor:
    """Log of each row's weighted sum of exponentials."""
    if weights is None or scale is None:
        return masked_logsumexp(logits, valid)
    # Candidates of weight 0 do not count: a sum over -inf alone would have a NaN gradient.
    counted = weights > 0
    log_weights = (torch.where(counted, weights, 1) * scale[:, None]).log()
    return masked_logsumexp(logits + log_weights, counted)


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
