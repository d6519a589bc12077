"""Fits of latent classes to items with two views each: how, with how many components, to which.

:func:`fit_latent_classes` fits mixtures in a metric that plays down what views change, and notes
between which components views of one item move.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import torch

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count, check_floating, check_shape
from bayescl.latent_classes.mixture import (
    fit_mixtures,
    responsibilities,
    start_mixtures,
    unit_rows,
    usable,
)
from bayescl.latent_classes.posterior import (
    LatentClasses,
    class_agreement,
    metric_shares,
    propagate,
    signatures,
    transition_power,
    unit_by_mixture,
    unit_or_nan,
)
from bayescl.latent_classes.trust import (
    mixture_alignment,
    positive_closeness,
    trust_of_share,
)

COMPONENTS_PER_CLASS = (2.0, 4.0)
"""Components of each mixture per expected class. Transitions of views rejoin the parts of a split
class, but nothing separates two classes merged in one component."""

MOST_COMPONENTS = 384  # in a mixture, whatever the number of classes: they bound a step's cost
SCALES = (5, 10, 20, 40, 80, 160)  # numbers of classes that are tried where none is given
ITEMS_PER_COMPONENT = 2  # that the memory must hold for a fit
_LARGEST_MEMORY = 8192  # more are worth little, since the encoder changes while they come
_FIT_PRODUCTS = 2**27  # items x components x coordinates of a fit; of more, a random part
_HELD_OUT = 0.25  # share of the items, the latest, that no fit sees where numbers are compared

_ITERATIONS = 3  # of expectation maximisation in each of the two fits of a metric
_SHRINKAGE = 0.3  # of the metric, epsilon below; large values leave it as it is
_DOUBT = 0.25  # labelled items in a component, of the mean, that weigh as much as its views
_ALIGNED_ROWS = 1024  # on which mixtures are compared: on fewer, they look more alike
_COMPARED_ROWS = 256  # whose views are compared: the latest, since the encoder changes

Labelled = tuple[Tensor, Tensor, Tensor]
"""Both views of some items, ``[labelled, dim]`` each, and their labels."""


def memory_for(tau_plus: float) -> int:
    """Items that a memory holds at a class prior: a power of two, at least 16 of each class.

    Example:
        >>> memory_for(0.1), memory_for(1 / 77), memory_for(1e-6)
        (1024, 2048, 8192)
    """
    return next((size for size in (1024, 2048, 4096) if size * tau_plus >= 16), _LARGEST_MEMORY)


def default_memory(tau_plus: float | None) -> int:
    """Items that a memory holds for classes of a prior: what it would for those it estimates."""
    return max(memory_for(1 / SCALES[-1]), 0 if tau_plus is None else memory_for(tau_plus))


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
    labelled: Labelled | None,
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
    labelled: Labelled | None,
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
            signatures(unit_or_nan(view), classes).nan_to_num(0.0)
            for view in held_out.chunk(2, dim=1)
        ]
        fits[scale] = classes, float(class_agreement(torch.cat(ahead), classes).mean())
    return fits


def fit_latent_classes(
    view_1: Float[Tensor, "items dim"],
    view_2: Float[Tensor, "items dim"],
    sizes: Sequence[int],
    *,
    generator: torch.Generator,
    labelled: Labelled | None = None,
) -> LatentClasses:
    r"""Find latent classes of items from two views of each, without labels.

    An item's row :math:`x` is the direction of the sum of its views. With the mean row :math:`m`
    and the scatter between views, and later within components, of equal trace,

    .. math::
        y = \frac{T^\top (x - m)}{\lVert T^\top (x - m) \rVert}, \qquad
        T\,T^\top = \Big(S + \epsilon\,\tfrac{\mathrm{tr}\,S}{d}\,I\Big)^{-1}, \qquad
        S = \frac{1}{n} \sum_i \frac{(v_{i1} - v_{i2})(v_{i1} - v_{i2})^\top}{2},

    the mixtures are fitted to :math:`y`, the scatter of rows within components is added to
    :math:`S`, and the mixtures are fitted once more. So directions which tell components apart
    stand out. Last, the views show between which components items move.

    Args:
        view_1: embeddings of one view of each item, of any length, oldest first. Not
            differentiated.
        view_2: embeddings of the other view, or of the partner in a pair.
        sizes: number of components of each mixture, at least 1 and at most the number of items;
            :math:`2C` and :math:`4C` work well for :math:`C` classes.
        generator: a CPU generator, so that the draws are the same on every device.
        labelled: both views of some items, ``[labelled, dim]`` each, and their labels, which say of
            which classes components are.

    Returns:
        Latent classes. Items with a view that is not finite or is all zero are ignored.

    Raises:
        ValueError: if shapes do not match, or a number is out of range.

    Example:
        >>> from bayescl.functional import class_responsibilities
        >>> generator = torch.Generator().manual_seed(0)
        >>> items = torch.eye(4).repeat(10, 1)
        >>> views = [items + 0.1 * torch.randn(40, 4, generator=generator) for _ in range(2)]
        >>> classes = fit_latent_classes(*views, sizes=[4], generator=generator)
        >>> shares = class_responsibilities(views[0], classes)
        >>> shares.argmax(dim=1).unique(return_counts=True)[1], classes.closeness
        (tensor([10, 10, 10, 10]), tensor(0.4833))
    """
    check_floating("rows", view_1)
    check_shape("rows", view_1, ("rows", "dim"))
    check_shape("view_2", view_2, view_1.shape)
    if not sizes:
        raise ValueError("sizes must name at least one mixture, got none")
    most, count = max(check_count("sizes", size, 1) for size in sizes), len(view_1)
    if most > count:
        raise ValueError(
            f"sizes must be at most the number of rows, got {most} components for {count} rows"
        )
    # With n items and d coordinates: views, rows and what is made of them are [n, d], metrics
    # [d, d], and shares [n, components].
    first, largest_1 = unit_rows(view_1)
    second, largest_2 = unit_rows(view_2)
    rows, largest = unit_rows(first + second)
    counted = (usable(largest) & usable(largest_1) & usable(largest_2)).to(rows.dtype)[:, None]
    center = (rows * counted).sum(dim=0) / counted.sum().clamp_min(1)
    centered = (rows - center) * counted
    apart = (first - second) * counted
    between_views = _unit_scatter(apart.T @ apart)

    transform = _whitening(between_views)
    unit, largest = unit_rows(centered @ transform)
    clean = usable(largest)
    start = start_mixtures(unit, clean, sizes, generator)
    mixtures = fit_mixtures(unit, clean.to(unit.dtype), start, _ITERATIONS)

    shares = responsibilities(unit, mixtures) * counted
    within = _unit_scatter(_scatter_within(centered, shares) / len(sizes))
    transform = _whitening(between_views + within)
    unit, largest = unit_rows(centered @ transform)
    # The same components, seen in the new metric.
    start = replace(mixtures, directions=unit_rows(shares.T @ unit)[0])
    mixtures = fit_mixtures(unit, usable(largest).to(unit.dtype), start, _ITERATIONS)

    metric = -(center @ transform), transform, mixtures
    shares_1, shares_2 = (metric_shares(view, *metric) * counted for view in (first, second))
    transitions = component_transitions(shares_1, shares_2, sizes)
    of_components: Tensor | None = None
    if labelled is not None:
        *views, labels = labelled
        seen = [metric_shares(unit_rows(view)[0], *metric) for view in views]
        of_components = component_labels(seen[0] + seen[1], labels, sizes)
    items = ((shares_1 + shares_2) / 2)[-_ALIGNED_ROWS:]
    ahead = propagate(items, transition_power(transitions))
    ahead = unit_by_mixture(ahead, sizes)
    # The mean inner product of two different rows: |sum of rows|^2 less each row's own.
    pairs = ahead.sum(dim=0).square().sum() - ahead.square().sum()
    share = pairs / max(1, len(ahead) * (len(ahead) - 1)) / len(sizes)
    latest = slice(-_COMPARED_ROWS, None)
    closeness = positive_closeness(
        first[latest] @ second[latest].T, ahead[latest] @ ahead[latest].T / len(sizes)
    )
    alignment = mixture_alignment(ahead, sizes)
    share = share.nan_to_num(nan=torch.inf)  # so that a failed fit is not trusted
    return LatentClasses(
        center, transform, mixtures, transitions, alignment, closeness, share, of_components
    )


def component_labels(
    responsibility: Float[Tensor, "items components"],
    labels: Int[Tensor, " items"],
    sizes: Sequence[int],
) -> Float[Tensor, "components mixtures*labels"]:
    r"""How surely each component is of each labelled class.

    With the labelled items' mean responsibility :math:`n_{kc}` of component :math:`k`, by class
    :math:`c`,

    .. math::
        K_{kc} = \lambda_k\, \frac{n_{kc}}{n_k}, \qquad n_k = \sum_c n_{kc}, \qquad
        \lambda_k = \frac{n_k}{n_k + \frac14\,\mathrm{mean}_j\, n_j}.

    Each mixture has its own columns, one for each label in ascending order.
    """
    _, numbers, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    responsibility = responsibility.detach().nan_to_num(0.0)
    means = responsibility.new_zeros(len(counts), sum(sizes))
    means = means.index_add_(0, numbers, responsibility) / counts[:, None]  # [labels, components]
    blocks = []
    for of_mixture in torch.split(means, list(sizes), dim=1):
        total = of_mixture.sum(dim=0)  # [size], n_k
        doubt = total.mean() * _DOUBT
        blocks.append((of_mixture / (total + doubt).clamp_min(1e-12)).T)
    joined: Tensor = torch.block_diag(*blocks)
    return joined


def component_transitions(
    first: Float[Tensor, "items components"],
    second: Float[Tensor, "items components"],
    sizes: Sequence[int],
) -> tuple[Float[Tensor, "size size"], ...]:
    r"""How likely views of an item move from one component to another.

    .. math::
        M_{cc'} = \frac{N_{cc'}}{\sum_k N_{ck}}, \qquad
        N_{cc'} = \sum_i r_{i1c}\,r_{i2c'} + r_{i2c}\,r_{i1c'}

    with the responsibilities :math:`r_{i1}` and :math:`r_{i2}` of an item's two views: components
    that views move between are parts of one class. One without views gets the identity's row.
    """
    matrices = []
    parts = (torch.split(shares, list(sizes), dim=1) for shares in (first, second))
    for part_1, part_2 in zip(*parts, strict=True):
        moved = part_1.T @ part_2
        moved = moved + moved.T
        total = moved.sum(dim=1, keepdim=True)
        stay = torch.eye(len(moved), dtype=moved.dtype, device=moved.device)
        matrices.append(torch.where(total > 0, moved / torch.where(total > 0, total, 1), stay))
    return tuple(matrices)


def _scatter_within(
    centered: Float[Tensor, "rows dim"], shares: Float[Tensor, "rows components"]
) -> Float[Tensor, "dim dim"]:
    """Scatter of rows about the means of their components, summed over mixtures and rows."""
    # sum_ic r_ic (x_i - m_c)(x_i - m_c)' = sum_ic r_ic x_i x_i' - sum_c n_c m_c m_c'
    counts = shares.sum(dim=0)
    sums = shares.T @ centered  # [components, dim], n_c m_c
    means = sums / torch.where(counts > 0, counts, 1)[:, None]
    weights = shares.sum(dim=1, keepdim=True)
    return (weights * centered).T @ centered - means.T @ sums


def _unit_scatter(scatter: Float[Tensor, "dim dim"]) -> Float[Tensor, "dim dim"]:
    """A scatter matrix of mean variance 1; without any variance 0."""
    mean = scatter.diagonal().mean()
    varies = mean > torch.finfo(scatter.dtype).tiny
    return torch.where(varies, scatter / torch.where(varies, mean, 1), 0)


def _whitening(scatter: Float[Tensor, "dim dim"]) -> Float[Tensor, "dim dim"]:
    """The factor T of the inverse of a shrunken scatter matrix, T T' = (S + epsilon I)^-1."""
    scatter = _unit_scatter(scatter)
    identity = torch.eye(len(scatter), dtype=scatter.dtype, device=scatter.device)
    lower, _ = torch.linalg.cholesky_ex(scatter + _SHRINKAGE * identity)
    inverse: Tensor = torch.linalg.solve_triangular(lower, identity, upper=False)
    return inverse.T
