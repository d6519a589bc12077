"""How far what a memory of latent classes has found is trusted, and why not more, in words."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch

from bayescl.axes import Float, Tensor
from bayescl.functional.latent_classes.trust import (
    trust_of_agreement,
    trust_of_closeness,
    trust_of_share,
)
from bayescl.losses.class_fits import MOST_COMPONENTS, enough_items, is_hopeless
from bayescl.losses.class_state import Remembered

_WORTH_OF_TRUST = 10.0
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
    def of(cls, held: Remembered) -> Precision:
        """Wilson's interval for the share of right pairs among those measured."""
        right, count = held.right, held.right + held.wrong
        if count == 0:
            return cls(math.nan, 0.0, 1.0, 0.0)
        share, square = right / count, _Z**2 / count
        middle = (share + square / 2) / (1 + square)
        half = _Z * math.sqrt(share * (1 - share) / count + square / (4 * count)) / (1 + square)
        return cls(share, max(0.0, middle - half), min(1.0, middle + half), count)


def evidence(held: Remembered) -> float:
    """Weight of the measured precision in the trust, in [0, 1); 0 without labels."""
    pairs = held.right + held.wrong
    return pairs / (pairs + _WORTH_OF_TRUST)


def trust_by_mixture(held: Remembered) -> Float[Tensor, " mixtures"] | None:
    """How far each mixture is trusted, in [0, 1]; None before the first fit was looked at."""
    if held.classes is None or held.agreement is None:
        return None
    sized = trust_of_share(held.classes.share, held.prior)
    worth = trust_of_closeness(held.classes.closeness)
    trust = trust_of_agreement(held.agreement) * sized * worth
    weight = evidence(held)
    if weight == 0:
        return trust
    # What labels say replaces what views and mixtures say, as it gains weight.
    measured = min(1.0, max(0.0, (Precision.of(held).low - 0.3) / 0.3))
    return torch.lerp(trust, torch.full_like(trust, measured), weight)


def explanation(
    held: Remembered, trust: Float[Tensor, " mixtures"] | None, tau_plus: float | None, size: int
) -> str:
    """What was found, how far it is trusted, and why not more.

    Args:
        held: what a memory of some size remembers.
        trust: :func:`trust_by_mixture`.
        tau_plus: the prior that the next fit would use; None if it is estimated.
        size: of the memory.
    """
    if held.calls == 0:
        return "No call in train() mode yet: nothing is remembered, and the loss is InfoNCE."
    if held.classes is None or held.agreement is None or trust is None:
        if tau_plus is not None and is_hopeless(tau_plus, size):
            return too_many_classes(tau_plus, size)
        return (
            f"No classes yet: {held.filled} items are remembered, and "
            f"{enough_items(tau_plus, size)} are needed for the first fit. Until then the loss is "
            "InfoNCE."
        )
    share, mean = float(held.classes.share), float(trust.mean())
    found = (
        f"Found about {1 / share if 0 < share < math.inf else math.nan:.0f} classes in "
        f"{held.seen} items; trust is {mean:.2f}"
    )
    if evidence(held) > 0.5:
        value, low, high, pairs = Precision.of(held)
        return (
            f"{found}. On labelled items, {value:.0%} of {pairs:.0f} attracting pairs are of "
            f"one class ({low:.0%} to {high:.0%})."
        )
    if mean > 0.95:
        return f"{found}: views and mixtures agree on them."
    alignment, closeness = held.classes.alignment.mean(), held.classes.closeness
    agreement = held.agreement.mean()
    views = torch.where(alignment > 0, agreement / alignment, 0.0)
    # By how far each reason alone lets trust rise; of several at 0, by what is measured.
    reasons = [
        (
            trust_of_agreement(views),
            views,
            f"two views of an item often lie in different classes (agreement {views:.2f}); "
            "stronger trust needs an encoder that is further trained, or views that keep the class",
        ),
        (
            trust_of_agreement(alignment),
            alignment,
            "coarse and fine mixtures disagree about who belongs together (agreement "
            f"{alignment:.2f}), as where the data have no gaps",
        ),
        (
            trust_of_share(held.classes.share, held.prior),
            held.prior / held.classes.share,
            f"they are {share / held.prior:.1f} times as large as expected: several classes seem "
            "merged, or there are fewer than num_classes says",
        ),
        (
            trust_of_closeness(closeness),
            closeness,
            "a positive is hardly closer than other members of its class "
            f"({closeness:.0%} of comparisons; half would be chance), so the pairs bring the class "
            "together by themselves",
        ),
    ]
    return f"{found}, not more, because {min(reasons, key=lambda each: each[:2])[2]}."


def too_many_classes(tau_plus: float, size: int) -> str:
    """Why nothing is fitted where :func:`~bayescl.losses.class_fits.is_hopeless` is True."""
    return (
        f"{1 / tau_plus:.10g} classes are more than {MOST_COMPONENTS} components or {size} "
        "remembered items can tell apart, so no classes are looked for and the loss is InfoNCE. "
        "With so many classes, few candidates of a batch are false negatives."
    )
