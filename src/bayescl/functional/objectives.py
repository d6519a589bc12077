"""The objectives with their parameters bound, as engines receive them.

Each is called as ``objective(positive, unlabeled, valid=mask)`` and returns one loss per anchor.
Engines that know an objective by its class may compute the same value in a cheaper way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import torch
from torch.nn import functional as F

from bayescl._axes import CandidateMask, Float, PerAnchor, PositiveLogits, Tensor, UnlabeledLogits
from bayescl.functional._log_space import contrast
from bayescl.functional.bayesian import bayesian_loss
from bayescl.functional.debiased import debiased_loss, subtract_positives
from bayescl.functional.hard import hard_loss
from bayescl.functional.info_nce import info_nce_loss
from bayescl.functional.ranks import Ranks
from bayescl.functional.weights import logit_log_weights, weights_of_cdf


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


@dataclass(frozen=True)
class InfoNCE:
    """:func:`~bayescl.functional.info_nce_loss`."""

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Return one loss per anchor."""
        return info_nce_loss(positive, unlabeled, valid=valid)


@dataclass(frozen=True)
class Bayesian:
    """:func:`~bayescl.functional.bayesian_loss` at given parameters."""

    alpha: float
    beta: float
    tau_plus: float
    ranks: Ranks = "mid"
    bins: int = 256

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Return one loss per anchor."""
        return bayesian_loss(
            positive,
            unlabeled,
            alpha=self.alpha,
            beta=self.beta,
            tau_plus=self.tau_plus,
            valid=valid,
            ranks=self.ranks,
            bins=self.bins,
        )

    def log_weights(
        self, unlabeled: UnlabeledLogits, *, valid: CandidateMask | None
    ) -> UnlabeledLogits:
        """Return the logarithm of every candidate's importance weight."""
        return logit_log_weights(
            unlabeled,
            alpha=self.alpha,
            beta=self.beta,
            tau_plus=self.tau_plus,
            valid=valid,
            ranks=self.ranks,
            bins=self.bins,
        )

    def log_weights_of_cdf(self, cdf: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """Return the same for values of the empirical CDF."""
        return weights_of_cdf(self.alpha, self.beta, self.tau_plus)(cdf).log()

    @lru_cache(maxsize=512)  # noqa: B019 - instances are a few frozen numbers
    def log_weights_by_place(
        self, count: int, places: int, dtype: torch.dtype
    ) -> Float[Tensor, "places"]:
        """Return the same for ``count`` untied candidates in ascending order, then -inf.

        Remembered: do not write to it.
        """
        place = torch.arange(count, dtype=dtype)
        cdf = (place + 1.0 if self.ranks == "upper" else place + 0.5) / max(1, count)
        return F.pad(self.log_weights_of_cdf(cdf), (0, places - count), value=-torch.inf)


@dataclass(frozen=True)
class Debiased:
    """:func:`~bayescl.functional.debiased_loss` at given parameters."""

    tau_plus: float
    minimum_logit: float | Tensor

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Return one loss per anchor."""
        return debiased_loss(
            positive,
            unlabeled,
            tau_plus=self.tau_plus,
            minimum_logit=self.minimum_logit,
            valid=valid,
        )

    def from_log_sums(
        self,
        positive: PositiveLogits,
        log_sum: PerAnchor,
        *,
        log_count: Float[Tensor, "#anchors"],
    ) -> PerAnchor:
        """Return the same from the log of the candidates' sum and of their number."""
        return contrast(
            positive,
            subtract_positives(log_sum, positive, log_count, self.tau_plus, self.minimum_logit),
        )


@dataclass(frozen=True)
class Hard:
    """:func:`~bayescl.functional.hard_loss` at given parameters."""

    tau_plus: float
    concentration: float
    minimum_logit: float | Tensor

    def __call__(
        self,
        positive: PositiveLogits,
        unlabeled: UnlabeledLogits,
        *,
        valid: CandidateMask | None = None,
    ) -> PerAnchor:
        """Return one loss per anchor."""
        return hard_loss(
            positive,
            unlabeled,
            tau_plus=self.tau_plus,
            concentration=self.concentration,
            minimum_logit=self.minimum_logit,
            valid=valid,
        )

    def from_log_sums(
        self,
        positive: PositiveLogits,
        log_sum: PerAnchor,
        log_tilt: PerAnchor | None = None,
        *,
        log_count: Float[Tensor, "#anchors"],
    ) -> PerAnchor:
        """Return the same from logs of sums over the candidates and of their number.

        Args:
            positive: logit of each anchor's positive.
            log_sum: log of the sum of exponentials of ``1 + concentration`` times the logits.
            log_tilt: the same of ``concentration`` times the logits; not needed where it is 0.
            log_count: log of the number of candidates.
        """
        if log_tilt is not None:
            log_sum = log_sum - (log_tilt - log_count)
        return contrast(
            positive,
            subtract_positives(log_sum, positive, log_count, self.tau_plus, self.minimum_logit),
        )
