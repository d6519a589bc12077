"""How far what a memory of latent classes has found is trusted, and why not more, in words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

from bayescl.axes import Float, Tensor
from bayescl.functional.latent_classes.trust import (
    trust_of_agreement,
    trust_of_closeness,
    trust_of_share,
)
from bayescl.losses.class_fits import MOST_COMPONENTS, is_hopeless

if TYPE_CHECKING:
    from bayescl.losses.class_memory import ClassMemory

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


def trust_by_mixture(memory: ClassMemory) -> Float[Tensor, " mixtures"] | None:
    """How far each mixture is trusted, in [0, 1]; None before the first fit was looked at."""
    classes, agreement = memory.classes, memory.agreement
    if classes is None or agreement is None:
        return None
    sized = trust_of_share(classes.share, memory.prior)
    trust = trust_of_agreement(agreement) * sized * trust_of_closeness(classes.closeness)
    if memory.evidence == 0:
        return trust
    # What labels say replaces what views and mixtures say, as it gains weight.
    measured = min(1.0, max(0.0, (memory.precision.low - 0.3) / 0.3))
    return torch.lerp(trust, torch.full_like(trust, measured), memory.evidence)


def explanation(memory: ClassMemory, tau_plus: float | None) -> str:
    """What was found, how far it is trusted, and why not more.

    Args:
        memory: of items, fits and what was seen of them.
        tau_plus: the prior that the next fit would use; None if it is estimated.
    """
    if memory.calls == 0:
        return "No call in train() mode yet: nothing is remembered, and the loss is InfoNCE."
    classes, agreement = memory.classes, memory.agreement
    if classes is None or agreement is None:
        if tau_plus is not None and is_hopeless(tau_plus, memory.size):
            return too_many_classes(tau_plus, memory.size)
        return (
            f"No classes yet: {min(memory.came, memory.size)} items are remembered, and "
            f"{memory.enough(tau_plus)} are needed for the first fit. Until then the loss is "
            "InfoNCE."
        )
    share, trust = float(classes.share), memory.trust
    found = (
        f"Found about {1 / share if 0 < share < math.inf else math.nan:.0f} classes in "
        f"{memory.seen} items; trust is {trust:.2f}"
    )
    if memory.evidence > 0.5:
        value, low, high, pairs = memory.precision
        return (
            f"{found}. On labelled items, {value:.0%} of {pairs:.0f} attracting pairs are of "
            f"one class ({low:.0%} to {high:.0%})."
        )
    if trust > 0.95:
        return f"{found}: views and mixtures agree on them."
    alignment, closeness = classes.alignment.mean(), classes.closeness
    agreement = agreement.mean()
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
            trust_of_share(classes.share, memory.prior),
            memory.prior / classes.share,
            f"they are {share / memory.prior:.1f} times as large as expected: several classes seem "
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
