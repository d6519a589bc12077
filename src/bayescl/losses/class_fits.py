"""Fits of latent classes to remembered items: how many components, to which items, and when."""

from __future__ import annotations

from random import Random

import torch

from bayescl.axes import Float, Tensor
from bayescl.functional.latent_classes.posterior import (
    LatentClasses,
    class_agreement,
    class_responsibilities,
    fit_latent_classes,
    further_views,
)
from bayescl.functional.latent_classes.trust import trust_of_share

COMPONENTS_PER_CLASS = (2.0, 4.0)
"""Components of each mixture per expected class. Transitions of views rejoin the parts of a split
class, but nothing separates two classes merged in one component."""

MOST_COMPONENTS = 384  # in a mixture, whatever the number of classes: they bound a step's cost
SCALES = (5, 10, 20, 40, 80, 160)  # numbers of classes that are tried where none is given
ITEMS_PER_COMPONENT = 2  # that the memory must hold for a fit
_LARGEST_MEMORY = 8192  # more are worth little, since the encoder changes while they come
_FIT_PRODUCTS = 2**27  # items x components x coordinates of a fit; of more, a random part
_HELD_OUT = 0.25  # share of the items, the latest, that no fit sees where numbers are compared


def memory_for(tau_plus: float) -> int:
    """Items that a memory holds at a class prior: a power of two, at least 16 of each class.

    Example:
        >>> memory_for(0.1), memory_for(1 / 77), memory_for(1e-6)
        (1024, 2048, 8192)
    """
    return next((size for size in (1024, 2048, 4096) if size * tau_plus >= 16), _LARGEST_MEMORY)


def mixture_sizes(tau_plus: float, items: int) -> tuple[int, ...]:
    """Components of each mixture for classes of a prior, with so many items to fit to."""
    most = max(1, min(MOST_COMPONENTS, items // ITEMS_PER_COMPONENT))
    wanted = (min(parts / tau_plus, MOST_COMPONENTS) for parts in COMPONENTS_PER_CLASS)  # or inf
    return tuple(max(1, min(most, max(2, round(size)))) for size in wanted)


def is_hopeless(tau_plus: float, memory: int) -> bool:
    """Whether so few components would merge so many classes that none could be believed."""
    most = max(mixture_sizes(tau_plus, memory))
    return float(trust_of_share(torch.tensor(1 / most), tau_plus)) == 0


def fitted_classes(
    items: Float[Tensor, "items two_dim"],
    tau_plus: float,
    *,
    seed: int,
    labelled: tuple[Tensor, Tensor, Tensor] | None,
) -> LatentClasses:
    """Latent classes of items, of a random part of them where there are very many."""
    generator = torch.Generator().manual_seed(seed)
    sizes = mixture_sizes(tau_plus, len(items))
    most = max(2 * max(sizes), 2 * _FIT_PRODUCTS // (sum(sizes) * items.shape[1]))
    if len(items) > most:
        kept = torch.randperm(len(items), generator=generator)[:most].sort().values
        items = items[kept.to(items.device)]
    view_1, view_2 = items.chunk(2, dim=1)
    return fit_latent_classes(view_1, view_2, sizes, generator=generator, labelled=labelled)


def fits_at_scales(
    items: Float[Tensor, "items two_dim"],
    last: int | None,
    *,
    seed: int,
    labelled: tuple[Tensor, Tensor, Tensor] | None,
) -> dict[int, tuple[LatentClasses, float]]:
    """Fits at the last of :data:`SCALES` and one next to it, or at all, and how far each agrees.

    A number of classes is right where views of items that no fit has seen lie in one class, and
    coarse and fine mixtures tell the same items apart.
    """
    # A seeded coin: calls between two fits are often even, so their parity would always be one.
    neighbour = 1 if Random(seed).random() < 0.5 else -1
    latest = int(_HELD_OUT * len(items))
    seen, held_out = items.split([len(items) - latest, latest])
    largest = max(1, sum(4 * ITEMS_PER_COMPONENT * scale <= len(seen) for scale in SCALES))
    tried = set(range(largest)) if last is None else {last, last + neighbour}
    fits = {}
    for scale in sorted(tried & set(range(largest))):
        classes = fitted_classes(seen, 1 / SCALES[scale], seed=seed, labelled=labelled)
        ahead = [
            further_views(class_responsibilities(view, classes).nan_to_num(0.0), classes.moves)
            for view in held_out.chunk(2, dim=1)
        ]
        fits[scale] = classes, float(class_agreement(torch.cat(ahead), classes).mean())
    return fits
