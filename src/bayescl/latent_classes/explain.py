"""What a memory of latent classes has found, how far that is trusted, and why not more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import torch

from bayescl.latent_classes.fit import MOST_COMPONENTS
from bayescl.latent_classes.posterior import LatentClasses
from bayescl.latent_classes.trust import (
    Precision,
    trust_of_agreement,
    trust_of_closeness,
    trust_of_share,
)


class Reason(Enum):
    """Why trust is what it is; the value is the template of a sentence about a finding."""

    NOTHING_REMEMBERED = (
        "No call in train() mode yet: nothing is remembered, and the loss is InfoNCE."
    )
    TOO_FEW_ITEMS = (
        "No classes yet: {num_items} items are remembered, and {num_needed} are needed for the "
        "first fit. Until then the loss is InfoNCE."
    )
    TOO_MANY_CLASSES = (
        f"{{num_classes:.10g}} classes are more than {MOST_COMPONENTS} components can tell apart, "
        "so no classes are looked for and the loss is InfoNCE. With so many classes, few "
        "candidates of a batch are false negatives."
    )
    NO_CLASSES = "Found no classes in {num_items} items: embeddings are all zero or not finite."
    TRUSTED = "views and mixtures agree on them"
    VIEWS_DIFFER = (
        "two views of an item often lie in different classes (agreement {reading:.2f}); stronger "
        "trust needs an encoder that is further trained, or views that keep the class"
    )
    MIXTURES_DIFFER = (
        "coarse and fine mixtures disagree about who belongs together (agreement {reading:.2f}), "
        "as where the data have no gaps"
    )
    CLASSES_TOO_LARGE = (
        "they are {reading:.1f} times as large as expected: several classes seem merged, or there "
        "are fewer than num_classes says"
    )
    POSITIVES_NOT_CLOSER = (
        "a positive is hardly closer than other members of its class ({reading:.0%} of "
        "comparisons; half would be chance), so the pairs bring the class together by themselves"
    )
    AUDIT = "audit labels say so"


_UNFITTED = (
    Reason.NOTHING_REMEMBERED,
    Reason.TOO_FEW_ITEMS,
    Reason.TOO_MANY_CLASSES,
    Reason.NO_CLASSES,
)


@dataclass(frozen=True)
class Finding:
    """What was found; ``str`` makes sentences of it.

    Attributes:
        reason: why trust is what it is.
        num_items: remembered, or of the last fit.
        num_needed: items needed for the first fit.
        num_classes: found, or given where they are too many.
        trust: how far the classes are trusted, in [0, 1].
        reading: the number behind the reason.
        precision: share of attracting pairs that are of one class; None if it is not measured.
    """

    reason: Reason
    num_items: int = 0
    num_needed: int = 0
    num_classes: float = math.nan
    trust: float = 0.0
    reading: float = math.nan
    precision: Precision | None = None

    @property
    def is_fitted(self) -> bool:
        """Whether classes were found."""
        return self.reason not in _UNFITTED

    def __str__(self) -> str:
        """Say it in a few sentences."""
        reason = self.reason.value.format(**vars(self))
        if not self.is_fitted:
            return reason
        found = f"Found about {self.num_classes:.0f} classes in {self.num_items} items; trust is "
        limits = self.reason not in (Reason.TRUSTED, Reason.AUDIT)
        because = f", not more, because {reason}." if limits else f": {reason}."
        return f"{found}{self.trust:.2f}{because} {self._precision}"

    @property
    def _precision(self) -> str:
        if self.precision is None:
            return "Its precision is not measured: pass audit labels."
        value, low, high, _ = self.precision
        return (
            f"On audit labels, {value:.0%} of attracting pairs are of one class "
            f"({low:.0%} to {high:.0%})."
        )


def limit_of_trust(
    classes: LatentClasses, agreement: torch.Tensor, prior: float
) -> tuple[Reason, float]:
    """What allows trust the least without labels, and its reading; TRUSTED if nothing limits it."""
    alignment, closeness = classes.alignment.mean(), classes.closeness
    views = torch.where(alignment > 0, agreement.mean() / alignment, 0.0)
    size = classes.share / prior
    limits = [
        (trust_of_agreement(views), views, views, Reason.VIEWS_DIFFER),
        (trust_of_agreement(alignment), alignment, alignment, Reason.MIXTURES_DIFFER),
        (trust_of_share(classes.share, prior), 1 / size, size, Reason.CLASSES_TOO_LARGE),
        (trust_of_closeness(closeness), closeness, closeness, Reason.POSITIVES_NOT_CLOSER),
    ]
    # Of several at 0, that of the smallest reading.
    trust, _, reading, reason = min(limits, key=lambda limit: (float(limit[0]), float(limit[1])))
    return (reason if trust < 1 else Reason.TRUSTED), float(reading)
