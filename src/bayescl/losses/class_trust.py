"""How far what a memory of latent classes has found is trusted."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from bayescl.axes import Float, Tensor
from bayescl.functional import LatentClasses
from bayescl.functional.latent_classes.trust import (
    trust_of_agreement,
    trust_of_closeness,
    trust_of_share,
)

WORTH_OF_TRUST = 10.0
"""Pairs with known labels that weigh as much as what views and mixtures say."""

_Z = 1.64
"""Of the interval around a measured precision: 90 %."""


class Precision(NamedTuple):
    """Share of attracting pairs that are of one class, measured on labelled items.

    Attributes:
        value: the estimate; NaN where nothing was measured.
        low: lower end of its 90 % interval.
        high: upper end.
        pairs: number of pairs behind it, after decay.
    """

    value: float
    low: float
    high: float
    pairs: float

    @classmethod
    def of(cls, right: float, wrong: float) -> Precision:
        """Wilson's interval for the share of right pairs among those measured."""
        count = right + wrong
        if count == 0:
            return cls(math.nan, 0.0, 1.0, 0.0)
        share, square = right / count, _Z**2 / count
        middle = (share + square / 2) / (1 + square)
        half = _Z * math.sqrt(share * (1 - share) / count + square / (4 * count)) / (1 + square)
        return cls(share, max(0.0, middle - half), min(1.0, middle + half), count)


def trust_by_mixture(
    classes: LatentClasses,
    agreement: Float[Tensor, " mixtures"],
    prior: float,
    precision: Precision,
    evidence: float,
) -> Float[Tensor, " mixtures"]:
    """How far each mixture is trusted, in [0, 1]."""
    sized = trust_of_share(classes.share, prior)
    trust = trust_of_agreement(agreement) * sized * trust_of_closeness(classes.closeness)
    if evidence == 0:
        return trust
    # What labels say replaces what views and mixtures say, as it gains weight.
    measured = min(1.0, max(0.0, (precision.low - 0.3) / 0.3))
    return torch.lerp(trust, torch.full_like(trust, measured), evidence)
