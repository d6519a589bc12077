"""What a memory of latent classes has found, how far it is trusted, and why not more, in words."""

from __future__ import annotations

import math

import torch

from bayescl.functional.latent_classes.trust import (
    trust_of_agreement,
    trust_of_closeness,
    trust_of_share,
)
from bayescl.losses.class_fits import MOST_COMPONENTS, is_hopeless
from bayescl.losses.class_memory import ClassMemory


def explanation(memory: ClassMemory, tau_plus: float | None) -> str:
    """Say what a memory has found; ``tau_plus`` is the prior of its next fit, None if estimated."""
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
    if not 0 < share < math.inf:
        return f"Found no classes in {memory.seen} items: embeddings are all zero or not finite."
    opening = f"Found about {1 / share:.0f} classes in {memory.seen} items; trust is {trust:.2f}"
    if memory.evidence > 0.5:
        value, low, high, pairs = memory.precision
        return (
            f"{opening}. On labelled items, {value:.0%} of {pairs:.0f} attracting pairs are of "
            f"one class ({low:.0%} to {high:.0%})."
        )
    if trust > 0.95:
        return f"{opening}: views and mixtures agree on them."
    alignment, closeness = classes.alignment.mean(), classes.closeness
    views = torch.where(alignment > 0, agreement.mean() / alignment, 0.0)
    # The reason that alone allows the least trust; of several at 0, that of the smallest reading.
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
    *_, reason = min(reasons, key=lambda row: row[:2])
    return f"{opening}, not more, because {reason}."


def too_many_classes(tau_plus: float, size: int) -> str:
    """Why nothing is fitted where :func:`~bayescl.losses.class_fits.is_hopeless` is True."""
    return (
        f"{1 / tau_plus:.10g} classes are more than {MOST_COMPONENTS} components or {size} "
        "remembered items can tell apart, so no classes are looked for and the loss is InfoNCE. "
        "With so many classes, few candidates of a batch are false negatives."
    )
