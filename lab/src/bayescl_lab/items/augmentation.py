"""The interface of augmentations."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor, nn

from bayescl_lab.items.store import Items

Views = Float[Tensor, "items *shape"]
"""Views of items, or items without augmentation, as floating-point numbers."""


class Augmentation(nn.Module):
    """Draw views of items. Subclasses define ``forward(items, *, seed)`` for one view per item."""

    def views(self, items: Items, seeds: Sequence[int]) -> tuple[Views, ...]:
        """Draw one view of each item per seed."""
        return tuple(self(items, seed=seed) for seed in seeds)

    def plain(self, items: Items) -> Views:
        """Return items without augmentation. By default, values are divided by 255."""
        return items.float() / 255
