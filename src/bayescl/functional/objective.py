"""What an objective is: any function of logits, or data that says which sums it needs.

A function is differentiated by autograd through the whole matrix of logits. An objective that is
data names the sums of exponentials that it sees its candidates through, and what it makes of
them; each engine computes those sums in its own way, once for all objectives.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch

from bayescl._axes import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.functional.log_space import contrast, log_count, masked_logsumexp
from bayescl.functional.ranks import Ranks, map_cdf


class Objective(Protocol):
    """What turns logits into one loss per anchor; any function of this form will do."""

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
    """What an objective makes of the posterior that pairs are of one class."""

    weights: Float[Tensor, "anchors candidates"]
    """Of the exponentials, at least 0; 0 for what is not a candidate."""
    targets: Float[Tensor, "anchors candidates"] | None
    """Shares of the target that candidates take from the positive; None where none does."""


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
        ranks: which rank of a candidate :meth:`weights_of_cdf` is given, as in
            :func:`~bayescl.functional.empirical_cdf`; None where all candidates weigh the same.
        bins: bins of the histogram, where one tells ranks apart.
        reads_same_class: whether :meth:`pair_parts` says what to make of a posterior that pairs
            are of one class, where a batch carries one.

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
        """Powers of the sums, at least 0; 0 stands for the number of candidates, unweighted."""
        return (1.0,)

    @property
    def may_drop(self) -> bool:
        """Whether a weight may be 0; where it says False that is not looked for."""
        return True

    def weights_of_cdf(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the weights at values of the unlabeled CDF; constants for the gradient.

        Args:
            cdf: values in (0, 1].
        """
        raise NotImplementedError(f"{type(self).__name__} has ranks but no weights_of_cdf")

    def pair_parts(self, same_class: Float[Tensor, "anchors candidates"]) -> PairTerms:
        """Return each pair's weight and pull by its posterior alone, not yet scaled.

        Args:
            same_class: probability that a candidate is of its anchor's class, in [0, 1].
        """
        raise NotImplementedError(f"{type(self).__name__} reads no posterior of pairs")

    def pair_terms(
        self,
        same_class: Float[Tensor, "anchors candidates"],
        *,
        valid: CandidateMask | None,
    ) -> PairTerms:
        """Return weights of mean 1 and targets by the posterior; constants for the gradient.

        The weights of an anchor's candidates are scaled to mean 1. A pull is its candidate's
        share of the target where the positive's own is 1, so it is divided by 1 and all pulls.

        Args:
            same_class: probability that a candidate is of its anchor's class, in [0, 1].
            valid: True where a candidate counts; all where None.
        """
        weights, pulls = self.pair_parts(same_class)
        count = weights.new_full((1, 1), weights.shape[1])
        if valid is not None:
            weights = torch.where(valid, weights, 0)
            count = valid.sum(dim=1, keepdim=True).to(weights.dtype)
        total = weights.sum(dim=1, keepdim=True)
        weights = weights * (count / torch.where(total > 0, total, 1))
        if pulls is None:
            return PairTerms(weights, None)
        if valid is not None:
            pulls = torch.where(valid, pulls, 0)
        return PairTerms(weights, pulls / (1 + pulls.sum(dim=1, keepdim=True)))

    def from_log_sums(
        self, positive: PositiveLogits, log_sums: tuple[Float[Tensor, "#anchors"], ...]
    ) -> PerAnchor:
        r"""Return one loss per anchor; :math:`-\log\frac{e^{s^+}}{e^{s^+} + S}` by default.

        Args:
            positive: logit of each anchor's positive. Differentiated.
            log_sums: logarithm of the sum of each of :attr:`powers`, in their order.
                Differentiated. That of the power 0 may be one number for all anchors.
        """
        return contrast(positive, log_sums[0])

    @property
    def is_softmax(self) -> bool:
        """Whether the gradient is a softmax: one sum, and the loss that is the default."""
        alone = type(self).from_log_sums is LogSumObjective.from_log_sums
        return alone and len(self.powers) == 1

    @property
    def tells_apart(self) -> bool:
        """Whether two candidates of one anchor may have different weights."""
        return self.ranks is not None or self.powers[0] != 1

    def weights(
        self, unlabeled: UnlabeledLogits, *, valid: CandidateMask | None
    ) -> UnlabeledLogits:
        """Every candidate's weight by its rank; 1 where there are no ranks."""
        if self.ranks is None:
            return torch.ones_like(unlabeled)
        return map_cdf(
            unlabeled, self.weights_of_cdf, valid=valid, ranks=self.ranks, bins=self.bins
        )

    def log_weights(
        self, unlabeled: UnlabeledLogits, *, valid: CandidateMask | None
    ) -> UnlabeledLogits:
        """Logarithms of :meth:`weights`, taken once per rank where rows share their ranks."""
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
    ) -> PerAnchor:
        """Return one loss per anchor from the whole matrix of logits.

        Args:
            positive: logit of each anchor's positive.
            unlabeled: logits of each anchor's candidates.
            valid: True where a candidate counts; all where None.
            same_class: posterior that candidates are of the anchor's class, in [0, 1]; read where
                :attr:`reads_same_class` says so.
        """
        if self.reads_same_class and same_class is not None:
            return self._from_pairs(positive, unlabeled, same_class.detach(), valid)
        log_weights = None if self.ranks is None else self.log_weights(unlabeled, valid=valid)
        counted = valid
        if log_weights is not None and self.may_drop:
            # Leave out what weighs nothing, lest a row hold nothing but logarithms of 0.
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
        valid: CandidateMask | None,
    ) -> PerAnchor:
        """The loss where a posterior weighs candidates and makes targets of them."""
        weights, targets = self.pair_terms(same_class, valid=valid)
        # Candidates of weight 0 do not count: a sum over -inf alone would have a NaN gradient.
        counted = weights > 0
        log_weights = torch.where(counted, weights, 1).log()
        loss = contrast(positive, masked_logsumexp(unlabeled + log_weights, counted))
        if targets is None:
            return loss
        # s+ less the mean over the targets, which is 0 exactly where nothing attracts.
        apart = torch.where(targets > 0, positive[:, None] - unlabeled, 0)
        return loss + (targets * apart).sum(dim=1)


@dataclass(frozen=True)
class Maskless:
    """A function of logits that takes no ``valid``, for calls in which all candidates count.

    Attributes:
        function: called with the logits of positives and of candidates.
    """

    function: Callable[[PositiveLogits, UnlabeledLogits], PerAnchor]

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Return the function's losses.

        Raises:
            ValueError: if a candidate does not count, which the function could not know.
        """
        if valid is not None and not bool(valid.all()):
            raise ValueError(
                "objective must take valid=mask here: some candidates do not count (the anchor "
                "itself, its positive, or what groups and valid exclude)"
            )
        return self.function(positive, unlabeled)


def takes_mask(objective: Callable[..., PerAnchor]) -> bool:
    """Whether an objective has an argument ``valid``; True where that cannot be told."""
    try:
        arguments = inspect.signature(objective).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(one.name == "valid" or one.kind is one.VAR_KEYWORD for one in arguments)


def as_data(objective: Objective) -> LogSumObjective | None:
    """Return an objective as data, or None where it is a function that only autograd can see."""
    return objective if isinstance(objective, LogSumObjective) else None
