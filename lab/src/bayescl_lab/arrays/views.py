"""Standardization, and views of rows and signals.

Random numbers are drawn on the CPU with the seed of the view, so all devices see the same views.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from bayescl_lab.items.augmentation import Augmentation, Views
from bayescl_lab.items.store import Items, ItemStore

CLIP = 5.0
"""Number of standard deviations to which standardized values are clipped."""
_ROWS_AT_ONCE = 1024


class Standardization(nn.Module):
    """Scale each feature of rows, or each channel of signals, to mean 0 and standard deviation 1.

    Standardized values are clipped to [-5, 5], because measurements have outliers. Constant
    features become 0. Mean and deviation are computed from the given items and are part of
    ``state_dict``.
    """

    mean: Float[Tensor, "..."]
    deviation: Float[Tensor, "..."]

    def __init__(self, store: ItemStore) -> None:
        super().__init__()
        features, *window = store.item_shape
        total, squares = torch.zeros(2, features, dtype=torch.float64)
        count, center = 0, store.take(torch.arange(1)).double().cpu()[0]
        center = center.flatten(1).mean(1) if window else center
        for rows in torch.arange(len(store), device=store.device).split(_ROWS_AT_ONCE):
            values = store.take(rows).double().cpu().view(len(rows), features, -1)
            values = values.transpose(1, 2).flatten(0, 1) - center  # no cancellation in the squares
            total, squares = total + values.sum(0), squares + values.square().sum(0)
            count += len(values)
        variance = squares / count - (total / count).square()
        is_constant = variance <= 1e-12 * (squares / count).clamp_min(1e-300)
        deviation = torch.where(is_constant, torch.inf, variance.clamp_min(0).sqrt())
        ones = [1] * len(window)
        self.register_buffer("mean", (center + total / count).float().view(-1, *ones))
        self.register_buffer("deviation", deviation.float().view(-1, *ones))

    def forward(self, items: Items) -> Views:
        """Standardize items."""
        return standardized(items, self.mean, self.deviation)


def standardized(items: Items, mean: Tensor, deviation: Tensor) -> Views:
    """Scale items to mean 0 and deviation 1, and clip them."""
    return ((items.float() - mean) / deviation).clamp(-CLIP, CLIP)


class ArrayViews(Augmentation):
    """Views of standardized items. Subclasses define ``view(items, generator)``.

    Args:
        standardization: Standardization of the items.
        noise: Standard deviation of Gaussian noise.
        dropout: Probability that a feature of a row, or a channel of a signal, is set to 0, its
            mean.
        scale: Standard deviation of the random factor of each row, or of each channel of a signal.
    """

    def __init__(
        self, standardization: Standardization, noise: float, dropout: float, scale: float
    ) -> None:
        super().__init__()
        self.standardization = standardization
        self.noise = noise
        self.scale = scale
        self.dropout = dropout

    def plain(self, items: Items) -> Views:
        """Return standardized items without augmentation."""
        views: Tensor = self.standardization(items)
        return views

    def forward(self, items: Items, *, seed: int) -> Views:
        """Draw one view of each item with a seed."""
        generator = torch.Generator().manual_seed(seed)
        with torch.autocast(items.device.type, enabled=False):
            views = self.view(self.plain(items), generator)
            shape = views.shape[:2] + (1,) * (views.ndim - 2)
            of_scale = shape if views.ndim > 2 else (len(views), 1)
            factors = 1 + self.scale * torch.randn(of_scale, generator=generator)
            kept = torch.rand(shape, generator=generator) >= self.dropout
            noise = self.noise * torch.randn(views.shape, generator=generator)
            return views * (factors * kept).to(views.device) + noise.to(views.device)

    def view(self, items: Views, generator: torch.Generator) -> Views:
        """Augment standardized items before scale, dropout and noise are applied."""
        raise NotImplementedError


class RowViews(ArrayViews):
    """Views of rows: features of other rows of the batch (SCARF), scale, dropout and noise.

    Args:
        swap: Probability that a feature is replaced by its value in another row.
        **strengths: Further arguments of :class:`ArrayViews`.

    Reference:
        Bahri et al., SCARF, ICLR 2022.
    """

    def __init__(self, *, swap: float, **strengths: object) -> None:
        super().__init__(**strengths)  # type: ignore[arg-type]
        self.swap = swap

    def view(self, items: Views, generator: torch.Generator) -> Views:
        """Replace some features by values of other rows."""
        if self.swap == 0:
            return items
        others = torch.randint(len(items), items.shape, generator=generator).to(items.device)
        swapped = torch.rand(items.shape, generator=generator) < self.swap
        return torch.where(swapped.to(items.device), items.gather(0, others), items)


class SignalViews(ArrayViews):
    """Views of signals: a crop resized to the whole length, scale, dropout and noise.

    Args:
        crop: Smallest share of the window that a crop keeps, in (0, 1].
        **strengths: Further arguments of :class:`ArrayViews`.
    """

    def __init__(self, *, crop: float, **strengths: object) -> None:
        super().__init__(**strengths)  # type: ignore[arg-type]
        self.crop = crop

    def view(self, items: Views, generator: torch.Generator) -> Views:
        """Crop and resize in time, with linear interpolation."""
        count, channels, length = items.shape
        share = self.crop + (1 - self.crop) * torch.rand(count, 1, generator=generator)
        start = (1 - share) * torch.rand(count, 1, generator=generator)
        position = (start + share * torch.linspace(0, 1, length)) * (length - 1)
        left = position.long().clamp(0, max(0, length - 2))
        right, part = (left + 1).clamp_max(length - 1), (position - left)[:, None].to(items.device)
        at_left, at_right = (
            items.gather(2, index[:, None].expand(-1, channels, -1).to(items.device))
            for index in (left, right)
        )
        return at_left + part * (at_right - at_left)
