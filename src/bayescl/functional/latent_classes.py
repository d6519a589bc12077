r"""Latent classes of embeddings: mixtures of von Mises-Fisher components.

A row of unit length :math:`x` in :math:`d` dimensions comes from component :math:`c` with density

.. math::
    f(x) = \sum_c \pi_c\, C_d(\kappa)\, e^{\kappa\, \mu_c \cdot x},

with unit directions :math:`\mu_c`, mixing weights :math:`\pi_c` that sum to 1, and one
concentration :math:`\kappa` for all components. :func:`fit_latent_classes` fits such mixtures to
two views of many items. :func:`item_responsibilities` says which components items come from and how
far their views agree. Three functions decide how far to trust the result:
:func:`trust_of_agreement` by that agreement, :func:`trust_of_share` by the size of the classes, and
:func:`trust_of_closeness` by whether there is anything to gain. :func:`same_class` then says which
items are probably of one class. The mixture itself is in :func:`start_mixtures`,
:func:`fit_mixtures` and :func:`responsibilities`.

A :class:`Mixtures` holds several mixtures of the same rows, coarse and fine: two rows that share a
component in both are more surely of one class than two that share only a coarse one.

Reference:
    Banerjee et al., "Clustering on the Unit Hypersphere using von Mises-Fisher Distributions",
    JMLR 2005; Sra, "A short note on parameter approximation for von Mises-Fisher distributions",
    Computational Statistics 2012; Arthur and Vassilvitskii, "k-means++", SODA 2007.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch.nn import functional as F

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_count, check_floating, check_interval, check_positive, check_shape
from bayescl.functional.similarity import ordinary_lengths

MAX_KAPPA = 60.0
"""The largest concentration of a fit: tight components grow no sharper than this."""

HOPS = 2
"""How many moves between components a signature looks ahead."""

_NEXT_TO_NOTHING = 1e-30
"""Added to any distance, it vanishes in rounding."""

_ALIGNED_ROWS = 1024
"""Items on which mixtures are compared: on fewer, mixtures look more alike than they are."""

_COMPARED_ROWS = 256
"""Items that are compared with one another: the latest, as the encoder changes."""


@dataclass(frozen=True)
class Mixtures:
    """Mixtures of von Mises-Fisher components, fitted to the same rows, side by side.

    Attributes:
        directions: unit vectors: the components of the first mixture, then those of the next.
        weights: mixing weights; those of each mixture sum to 1.
        kappa: concentration of each mixture, at least 0.
        sizes: number of components of each mixture.
    """

    directions: Float[Tensor, "components dim"]
    weights: Float[Tensor, " components"]
    kappa: Float[Tensor, " mixtures"]
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class LatentClasses:
    """Mixtures fitted in a metric that plays down differences between views of an item.

    Attributes:
        center: subtracted from rows of unit length.
        transform: applied next, from the right; then rows are scaled to unit length again.
        mixtures: fitted to the resulting rows.
        transitions: for each mixture, the probability that one view of an item lies in a component
            (column) if the other view lies in another (row); see :func:`component_transitions`.
        alignment: how far each mixture agrees with the others; see :func:`mixture_alignment`.
        closeness: how often an item's other view is closer than another item of its class; see
            :func:`positive_closeness`.
        share: mean probability that two items are of one class, over all mixtures.
    """

    center: Float[Tensor, " dim"]
    transform: Float[Tensor, "dim dim"]
    mixtures: Mixtures
    transitions: tuple[Float[Tensor, "size size"], ...]
    alignment: Float[Tensor, " mixtures"]
    closeness: Float[Tensor, ""]
    share: Float[Tensor, ""]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of components of each mixture."""
        return self.mixtures.sizes

    @cached_property
    def moves(self) -> tuple[Float[Tensor, "size size"], ...]:
        """The transitions, raised to the number of moves that a signature follows."""
        return _moves(self.transitions)


def fit_latent_classes(
    view_1: Float[Tensor, "items dim"],
    view_2: Float[Tensor, "items dim"],
    sizes: Sequence[int],
    *,
    generator: torch.Generator,
    iterations: int = 3,
    shrinkage: float = 0.3,
    max_kappa: float = MAX_KAPPA,
) -> LatentClasses:
    r"""Find latent classes of items from two views of each, without labels.

    An item's row :math:`x` is the direction of the sum of its views. With the mean row :math:`m`
    and the scatter between views, and later within components, of equal trace,

    .. math::
        y = \frac{T^\top (x - m)}{\lVert T^\top (x - m) \rVert}, \qquad
        T\,T^\top = \Big(S + \epsilon\,\tfrac{\mathrm{tr}\,S}{d}\,I\Big)^{-1}, \qquad
        S = \frac{1}{n} \sum_i \frac{(v_{i1} - v_{i2})(v_{i1} - v_{i2})^\top}{2},

    the mixtures are fitted to :math:`y`, the scatter of rows within components is added to
    :math:`S`, and the mixtures are fitted once more. This plays down directions that augmentation
    changes or in which the rows of a component differ, so that directions which tell components
    apart stand out. Last, the views show between which components items move
    (:func:`component_transitions`).

    Args:
        view_1: embeddings of one view of each item, of any length, oldest first. Not
            differentiated.
        view_2: embeddings of the other view, or of the partner in a pair.
        sizes: number of components of each mixture, at least 1 and at most the number of items. For
            :math:`C` classes, :math:`2C`, :math:`3C`, :math:`4C` and :math:`6C` work well.
        generator: a CPU generator, so that the draws are the same on every device.
        iterations: steps of expectation maximisation in each of the two fits.
        shrinkage: :math:`\epsilon`, positive; large values leave the metric as it is.
        max_kappa: the largest concentration, positive.

    Returns:
        Latent classes. Items with a view that is not finite or is all zero are ignored.

    Raises:
        ValueError: if shapes do not match, or a number is out of range.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> items = torch.eye(4).repeat(10, 1)
        >>> views = [items + 0.1 * torch.randn(40, 4, generator=generator) for _ in range(2)]
        >>> classes = fit_latent_classes(*views, sizes=[4], generator=generator)
        >>> shares, agreement = item_responsibilities(*views, classes)
        >>> shares.argmax(dim=1).unique(return_counts=True)[1], agreement.round()
        (tensor([10, 10, 10, 10]), tensor([1.]))

    Reference:
        Fisher's linear discriminant, with views of an item and then components for classes;
        mixtures as in Banerjee et al., JMLR 2005.
    """
    check_count("iterations", iterations, 0)
    check_positive("shrinkage", shrinkage)
    check_positive("max_kappa", max_kappa)
    check_shape("view_2", view_2, view_1.shape)
    _check_sizes(view_1, sizes)
    first, largest_1 = _unit_rows(view_1)
    second, largest_2 = _unit_rows(view_2)
    rows, largest = _unit_rows(first + second)
    usable = _usable(largest) & _usable(largest_1) & _usable(largest_2)
    counted = usable.to(rows.dtype)[:, None]
    count = counted.sum().clamp_min(1)
    center = (rows * counted).sum(dim=0) / count
    centered = (rows - center) * counted
    apart = (first - second) * counted
    between_views = _unit_scatter(apart.T @ apart)

    transform = _whitening(between_views, shrinkage)
    unit, largest = _unit_rows(centered @ transform)
    known = _usable(largest)
    start = _started(unit, known, sizes, generator, max_kappa)
    mixtures = _fitted(unit, known.to(unit.dtype), start, iterations, max_kappa)

    shares = _softmax_by_mixture(unit, mixtures) * counted
    within = _unit_scatter(_scatter_within(centered, shares) / len(sizes))
    transform = _whitening(between_views + within, shrinkage)
    unit, largest = _unit_rows(centered @ transform)
    # The same components, seen in the new metric.
    start = replace(mixtures, directions=_unit_rows(shares.T @ unit)[0])
    mixtures = _fitted(unit, _usable(largest).to(unit.dtype), start, iterations, max_kappa)
    shares_1, shares_2 = (
        _softmax_by_mixture(_unit_rows((view - center) @ transform)[0], mixtures) * counted
        for view in (first, second)
    )
    transitions = component_transitions(shares_1, shares_2, sizes)
    latest = slice(-_ALIGNED_ROWS, None)
    ahead = further_views(((shares_1 + shares_2) / 2)[latest], _moves(transitions))
    ahead = _unit_by_mixture(ahead, sizes)
    # A fit that failed is not believed.
    share = (_mean_product(ahead) / len(sizes)).nan_to_num(nan=torch.inf)
    latest = slice(-_COMPARED_ROWS, None)
    closeness = positive_closeness(
        first[latest] @ second[latest].T, ahead[latest] @ ahead[latest].T / len(sizes)
    )
    alignment = mixture_alignment(ahead, sizes)
    return LatentClasses(center, transform, mixtures, transitions, alignment, closeness, share)


def component_transitions(
    first: Float[Tensor, "items components"],
    second: Float[Tensor, "items components"],
    sizes: Sequence[int],
) -> tuple[Float[Tensor, "size size"], ...]:
    r"""How likely views of an item move from one component to another.

    .. math::
        M_{cc'} = \frac{N_{cc'}}{\sum_k N_{ck}}, \qquad
        N_{cc'} = \sum_i r_{i1c}\,r_{i2c'} + r_{i2c}\,r_{i1c'}

    An item has the same class in every view, so components that views move between are parts of one
    class.

    Args:
        first: responsibilities of the items' first views, of one or more mixtures.
        second: of their second views.
        sizes: number of components of each mixture.

    Returns:
        One matrix per mixture, with rows that sum to 1. A component without views gets the row of
        the identity.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> first = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> second = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        >>> component_transitions(first, second, [2])
        (tensor([[0.6667, 0.3333],
                [0.3333, 0.6667]]),)
    """
    _check_shares(first, second, sizes)
    matrices = []
    for part_1, part_2 in zip(*_by_mixture(sizes, first, second), strict=True):
        moved = part_1.T @ part_2
        moved = moved + moved.T
        total = moved.sum(dim=1, keepdim=True)
        stay = torch.eye(len(moved), dtype=moved.dtype, device=moved.device)
        matrices.append(torch.where(total > 0, moved / torch.where(total > 0, total, 1), stay))
    return tuple(matrices)


def start_mixtures(
    rows: Float[Tensor, "rows dim"],
    sizes: Sequence[int],
    *,
    generator: torch.Generator,
    max_kappa: float = MAX_KAPPA,
) -> Mixtures:
    r"""Choose the first directions of each mixture among the rows, by k-means++.

    The first is a random row. Each further row is drawn with probability proportional to
    :math:`1 - \max_c \mu_c \cdot x`, its distance from the rows chosen so far.

    Args:
        rows: embeddings of any length, scaled to unit length here. Rows that are not finite or all
            zero are never chosen. Not differentiated.
        sizes: number of components of each mixture, at least 1 and at most the number of rows.
        generator: a CPU generator, so that the draws are the same on every device.
        max_kappa: the concentration to start with, positive.

    Returns:
        Mixtures with equal weights. Directions repeat if there are fewer distinct rows than
        components.

    Raises:
        ValueError: if ``sizes`` is empty, or a mixture has more components than there are rows.

    Example:
        >>> rows = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
        >>> start = start_mixtures(rows, [2], generator=torch.Generator().manual_seed(0))
        >>> start.directions.sort(dim=0).values
        tensor([[0., 0.],
                [1., 1.]])

    Reference:
        Arthur and Vassilvitskii, SODA 2007.
    """
    _check_sizes(rows, sizes)
    check_positive("max_kappa", max_kappa)
    unit, largest = _unit_rows(rows)
    return _started(unit, _usable(largest), sizes, generator, max_kappa)


def fit_mixtures(
    rows: Float[Tensor, "rows dim"],
    start: Mixtures,
    *,
    iterations: int,
    max_kappa: float = MAX_KAPPA,
) -> Mixtures:
    r"""Fit every mixture to the rows by expectation maximisation.

    With responsibilities :math:`r_{ic}` of the mixture before, one iteration is

    .. math::
        \pi_c = \tfrac{1}{n}\sum_i r_{ic}, \qquad
        \mu_c = \frac{m_c}{\lVert m_c \rVert},\quad m_c = \sum_i r_{ic}\,x_i, \qquad
        R = \tfrac{1}{n}\sum_c \lVert m_c \rVert, \qquad
        \kappa = \frac{R\,(d - R^2)}{1 - R^2}.

    Args:
        rows: embeddings of any length, scaled to unit length here. Rows that are not finite or all
            zero are ignored. Not differentiated.
        start: where to begin: :func:`start_mixtures`, or an earlier fit.
        iterations: number of steps, at least 0.
        max_kappa: the largest concentration, positive; identical rows would have an infinite one.

    Returns:
        Mixtures of the same sizes. A component without rows keeps its direction, with weight 0. If
        no row is usable, ``start`` is returned unchanged.

    Raises:
        ValueError: if rows and directions differ in length.

    Example:
        >>> rows = torch.tensor([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]])
        >>> start = start_mixtures(rows, [2], generator=torch.Generator().manual_seed(0))
        >>> fit = fit_mixtures(rows, start, iterations=5)
        >>> fit.weights, fit.directions[:, 0].abs()
        (tensor([0.5000, 0.5000]), tensor([1., 1.]))

    Reference:
        Banerjee et al., JMLR 2005, Eqs. 4.4 (kappa) and Table 2 (EM).
    """
    check_count("iterations", iterations, 0)
    check_positive("max_kappa", max_kappa)
    _check_rows(rows, start)
    unit, largest = _unit_rows(rows)
    return _fitted(unit, _usable(largest).to(unit.dtype), start, iterations, max_kappa)


def mean_kappa(
    mean_length: Float[Tensor, "*shape"], dim: int, max_kappa: float = MAX_KAPPA
) -> Float[Tensor, "*shape"]:
    r"""Concentration of a von Mises-Fisher density from the length of its rows' mean.

    .. math:: \kappa \approx \frac{R\,(d - R^2)}{1 - R^2}

    Args:
        mean_length: :math:`R`, in [0, 1]: 0 if rows point in all directions, 1 if all are equal.
        dim: :math:`d`, coordinates of a row.
        max_kappa: the largest value returned.

    Returns:
        Values in [0, max_kappa], increasing in ``mean_length``.

    Example:
        >>> mean_kappa(torch.tensor([0.0, 0.5, 1.0]), dim=3)
        tensor([ 0.0000,  1.8333, 60.0000])

    Reference:
        Banerjee et al., JMLR 2005, Eq. 4.4; Sra, 2012, for its error.
    """
    square = mean_length.square()
    # At length 1 it is infinite, and rounding may take the length past 1.
    kappa = mean_length * (dim - square) / (1 - square).clamp_min(0)
    # In one dimension 0 / 0 at length 1.
    return torch.where(square >= 1, max_kappa, kappa).clamp(0, max_kappa)


def responsibilities(
    rows: Float[Tensor, "rows dim"], mixtures: Mixtures
) -> Float[Tensor, "rows components"]:
    r"""Probability of each component given a row.

    .. math:: r_{ic} \propto \pi_c\,e^{\kappa\,\mu_c \cdot x_i}

    Args:
        rows: embeddings of any length, scaled to unit length here. Not differentiated.
        mixtures: fitted mixtures.

    Returns:
        Values in [0, 1]; those of each mixture sum to 1 in every row. Rows that are not finite give
        NaN; all-zero rows give the mixing weights.

    Raises:
        ValueError: if rows and directions differ in length.

    Example:
        >>> mixtures = Mixtures(torch.eye(2), torch.tensor([0.5, 0.5]), torch.tensor([2.0]), (2,))
        >>> responsibilities(torch.tensor([[3.0, 0.0], [1.0, 1.0]]), mixtures)
        tensor([[0.8808, 0.1192],
                [0.5000, 0.5000]])
    """
    _check_rows(rows, mixtures)
    unit, largest = _unit_rows(rows)
    shares = _softmax_by_mixture(unit, mixtures)
    return torch.where(largest.isfinite()[:, None], shares, torch.nan)


def class_responsibilities(
    rows: Float[Tensor, "rows dim"], classes: LatentClasses
) -> Float[Tensor, "rows components"]:
    """Probability of each component given a row, in the metric of the latent classes.

    For rows without a second view; see :func:`item_responsibilities` for those with one.

    Args:
        rows: embeddings of any length. Not differentiated.
        classes: as :func:`fit_latent_classes` returns them.

    Returns:
        As :func:`responsibilities`.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> mixtures = Mixtures(torch.eye(2), torch.tensor([0.5, 0.5]), torch.tensor([60.0]), (2,))
        >>> metric, signs = (torch.zeros(2), torch.eye(2)), (torch.ones(1), *torch.ones(2))
        >>> classes = LatentClasses(*metric, mixtures, (torch.eye(2),), *signs)
        >>> class_responsibilities(torch.tensor([[0.0, 9.0]]), classes).round()
        tensor([[0., 1.]])
    """
    check_floating("rows", rows)
    check_shape("rows", rows, ("rows", len(classes.center)))
    unit, largest = _unit_rows(rows)
    seen, _ = _unit_rows((unit - classes.center) @ classes.transform)
    shares = _softmax_by_mixture(seen, classes.mixtures)
    return torch.where(largest.isfinite()[:, None], shares, torch.nan)


def item_responsibilities(
    view_1: Float[Tensor, "items dim"], view_2: Float[Tensor, "items dim"], classes: LatentClasses
) -> tuple[Float[Tensor, "items components"], Float[Tensor, " mixtures"]]:
    r"""Responsibilities of items from two views each, and how far the views agree.

    An item's responsibility is the mean over its views. If the views disagree it is spread over
    several components, so the item is not sure to share its class with any other.

    Args:
        view_1: embeddings of one view of each item. Not differentiated.
        view_2: embeddings of the other view.
        classes: as :func:`fit_latent_classes` returns them.

    Returns:
        Responsibilities of the items, as :func:`responsibilities`, and the agreement of each
        mixture, as :func:`class_agreement`.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> mixtures = Mixtures(torch.eye(2), torch.tensor([0.5, 0.5]), torch.tensor([60.0]), (2,))
        >>> metric, signs = (torch.zeros(2), torch.eye(2)), (torch.ones(1), *torch.ones(2))
        >>> classes = LatentClasses(*metric, mixtures, (torch.eye(2),), *signs)
        >>> items, agreement = item_responsibilities(torch.eye(2), torch.eye(2), classes)
        >>> items.round(), agreement
        (tensor([[1., 0.],
                [0., 1.]]), tensor([1.]))
    """
    check_shape("view_2", view_2, view_1.shape)
    both = class_responsibilities(torch.cat([view_1, view_2]), classes)
    first, second = both.chunk(2)
    return (first + second) / 2, class_agreement(first, second, classes)


def class_agreement(
    first: Float[Tensor, "items components"],
    second: Float[Tensor, "items components"],
    classes: LatentClasses,
) -> Float[Tensor, " mixtures"]:
    """How far views and mixtures agree; the input of :func:`trust_of_agreement`.

    The agreement of two views' signatures, :func:`view_agreement`, times the agreement of the
    mixture with the others, :func:`mixture_alignment`. Either alone can be fooled: weak
    augmentation leaves a view in its component even if components cut through classes at random,
    and mixtures find the same styles if views differ by style.

    Args:
        first: responsibilities of the items' first views.
        second: responsibilities of their second views; preferably of items that were not used in
            the fit.
        classes: as :func:`fit_latent_classes` returns them.

    Returns:
        One value per mixture, in [-1, 1].

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> mixtures = Mixtures(torch.eye(2), torch.tensor([0.5, 0.5]), torch.tensor([60.0]), (2,))
        >>> metric, signs = (torch.zeros(2), torch.eye(2)), (torch.tensor([0.75]), *torch.ones(2))
        >>> classes = LatentClasses(*metric, mixtures, (torch.eye(2),), *signs)
        >>> class_agreement(torch.eye(2), torch.eye(2), classes)
        tensor([0.7500])
    """
    _check_shares(first, second, classes.sizes)
    first, second = (signatures(shares, classes.transitions) for shares in (first, second))
    return view_agreement(first, second, classes.sizes) * classes.alignment


def signatures(
    responsibility: Float[Tensor, "rows components"],
    transitions: Sequence[Float[Tensor, "size size"]],
    *,
    hops: int = HOPS,
) -> Float[Tensor, "rows components"]:
    r"""Where further views of a row would lie, as a direction for each mixture.

    .. math:: \frac{r_m M_m^{\,hops}}{\lVert r_m M_m^{\,hops} \rVert}

    Args:
        responsibility: of rows or items. Not differentiated.
        transitions: of each mixture, as :attr:`LatentClasses.transitions`.
        hops: number of moves to follow, at least 0; more moves merge more components.

    Returns:
        Non-negative values; the columns of each mixture have length 1.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> moves = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
        >>> signatures(torch.eye(3), [moves])
        tensor([[0.7071, 0.7071, 0.0000],
                [0.7071, 0.7071, 0.0000],
                [0.0000, 0.0000, 1.0000]])
    """
    check_count("hops", hops, 0)
    ahead = responsibility.detach()
    for _ in range(hops):
        ahead = further_views(ahead, transitions)
    return _unit_by_mixture(ahead, [len(matrix) for matrix in transitions])


def further_views(
    responsibility: Float[Tensor, "rows components"],
    moves: Sequence[Float[Tensor, "size size"]],
) -> Float[Tensor, "rows components"]:
    r"""Where further views of a row would lie, :math:`r_m M_m`, before scaling to unit length.

    It is linear, so an item's is the mean over its views.

    Args:
        responsibility: of rows or items. Not differentiated.
        moves: of each mixture, as :attr:`LatentClasses.transitions` for one move, or
            :attr:`LatentClasses.moves` for as many as a signature follows.

    Returns:
        Non-negative values; those of each mixture sum to 1.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> further_views(torch.eye(2), [torch.tensor([[0.5, 0.5], [0.0, 1.0]])])
        tensor([[0.5000, 0.5000],
                [0.0000, 1.0000]])
    """
    sizes = [len(matrix) for matrix in moves]
    check_shape("responsibility", responsibility, (responsibility.shape[0], sum(sizes)))
    parts = torch.split(responsibility.detach(), sizes, dim=1)
    return torch.cat([part @ matrix for part, matrix in zip(parts, moves, strict=True)], dim=1)


def mixture_alignment(
    items: Float[Tensor, "items components"], sizes: Sequence[int]
) -> Float[Tensor, " mixtures"]:
    r"""How far each mixture tells the same items apart as the others do.

    With the centred signatures :math:`F_m` of the items in mixture :math:`m`, the mean over the
    other mixtures of

    .. math::
        \frac{\lVert F_m^\top F_k \rVert^2}
        {\lVert F_m^\top F_m \rVert\,\lVert F_k^\top F_k \rVert}.

    Mixtures of different sizes and starts agree where the data have gaps; a cloud without gaps each
    of them cuts differently.

    Args:
        items: signatures, as :func:`signatures` returns them; hundreds, since a few look alike by
            chance. Not differentiated.
        sizes: number of components of each mixture.

    Returns:
        Values in [0, 1]: 1 if all mixtures say the same of every pair of items, or if there is only
        one mixture; 0 if a mixture tells no items apart. Items that are not finite are ignored.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> mixture_alignment(torch.eye(2).repeat(4, 2), [2, 2])
        tensor([1., 1.])

    Reference:
        Cortes et al., "Algorithms for Learning Kernels Based on Centered Alignment", JMLR 2012.
    """
    check_shape("items", items, (items.shape[0], sum(sizes)))
    items = items.detach()
    if len(sizes) == 1:
        return items.new_ones(1)
    known = (items.isfinite().all(dim=1) & (items != 0).any(dim=1))[:, None]
    mean = torch.where(known, items, 0).sum(dim=0) / known.sum().clamp_min(1)
    centered = torch.where(known, items - mean, 0)
    products = centered.T @ centered
    squares = torch.stack(
        [
            torch.stack([block.square().sum() for block in torch.split(row, list(sizes), dim=1)])
            for row in torch.split(products, list(sizes))
        ]
    )
    lengths = squares.diagonal().sqrt()
    possible = lengths[:, None] * lengths
    some = possible > torch.finfo(items.dtype).tiny
    alignment = torch.where(some, squares / torch.where(some, possible, 1), 0)
    others = alignment.sum(dim=1) - alignment.diagonal()
    return (others / (len(sizes) - 1)).clamp(0, 1)


def view_agreement(
    first: Float[Tensor, "items components"],
    second: Float[Tensor, "items components"],
    sizes: Sequence[int],
) -> Float[Tensor, " mixtures"]:
    r"""How far two views of an item lie in the same component, beyond chance.

    With the responsibilities :math:`r_{i1}` and :math:`r_{i2}` of the views of item :math:`i`,

    .. math::
        \rho = \frac{A - B}{S - B}, \qquad
        A = \overline{r_{i1} \cdot r_{i2}}, \quad
        S = \tfrac12\,\overline{r_{i1} \cdot r_{i1} + r_{i2} \cdot r_{i2}}, \quad
        B = \overline{r}_1 \cdot \overline{r}_2,

    where bars are means over items: agreement, measured between what chance gives and what
    confidence allows.

    Args:
        first: responsibilities of the items' first views, of one or more mixtures.
        second: of their second views.
        sizes: number of components of each mixture.

    Returns:
        One value per mixture: 1 if all views agree, about 0 if they agree by chance, and 0 if there
        is nothing to agree on (one component, or collapsed embeddings). Items with a view that is
        not finite are ignored.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> one = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
        >>> view_agreement(one, one, [2]), view_agreement(one, one.flip(0), [2])
        (tensor([1.]), tensor([-1.]))
    """
    _check_shares(first, second, sizes)
    known = (first.isfinite() & second.isfinite()).all(dim=1)[:, None]
    first, second = torch.where(known, first, 0), torch.where(known, second, 0)
    count = known.sum().clamp_min(1)

    def total(values: Tensor) -> Tensor:
        return _sum_by_mixture(values, sizes)

    agreement = total((first * second).sum(dim=0)) / count
    confidence = total((first.square() + second.square()).sum(dim=0)) / (2 * count)
    chance = total((first.sum(dim=0) / count) * (second.sum(dim=0) / count))
    possible = confidence - chance
    some = possible > 1e-4
    return torch.where(some, (agreement - chance) / torch.where(some, possible, 1), 0).clamp(-1, 1)


def positive_closeness(
    similarity: Float[Tensor, "items items"],
    same_class: Float[Tensor, "items items"],
    *,
    threshold: float = 0.5,
) -> Float[Tensor, ""]:
    r"""How often an item's positive is closer to it than another member of its latent class.

    .. math::
        \Pr\big(s_{ij} < s_{ii} \,\big|\, P_{ij} > \text{threshold},\ i \ne j\big),

    ties counting half: the area under the ROC curve that tells positives from other members. It is
    ½ if a positive is a random member of the class, as in pairs of two items with one label. Such
    pairs bring the class together by themselves, and attracting further members only speeds that
    up.

    Args:
        similarity: similarity of each item's first view with each item's second; positives on the
            diagonal.
        same_class: probability that two items are of one class, in [0, 1].
        threshold: probability above which two items count as members of one class.

    Returns:
        A value in [0, 1]; 1 if no item has another member to compare with.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> similarity = torch.tensor([[0.9, 0.5], [0.7, 0.6]])
        >>> positive_closeness(similarity, torch.ones(2, 2))
        tensor(0.5000)
    """
    check_shape("same_class", same_class, similarity.shape)
    positive = similarity.diagonal()[:, None]
    others = ~torch.eye(len(similarity), dtype=torch.bool, device=similarity.device)
    members = (same_class > threshold) & others
    won = (similarity < positive).to(similarity.dtype) + (similarity == positive) / 2
    count = members.sum()
    return torch.where(count > 0, (won * members).sum() / count.clamp_min(1), 1.0)


def trust_of_closeness(
    closeness: Float[Tensor, "*shape"], *, low: float = 0.6, high: float = 0.7
) -> Float[Tensor, "*shape"]:
    r"""How much attraction can add, given how much closer positives are than other members.

    .. math:: \mathrm{clip}\Big(\frac{c - low}{high - low},\ 0,\ 1\Big)

    Args:
        closeness: :func:`positive_closeness`.
        low: closeness up to which there is nothing to gain, in [0, 1).
        high: closeness from which trust is 1, above ``low``, at most 1.

    Returns:
        Values in [0, 1].

    Raises:
        ValueError: if a bound is out of range.

    Example:
        >>> trust_of_closeness(torch.tensor([0.5, 0.65, 0.9]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    _check_bounds(low, high)
    return _ramp(closeness, low, high)


def trust_of_share(
    share: Float[Tensor, "*shape"], prior: float, *, low: float = 1.75, high: float = 2.25
) -> Float[Tensor, "*shape"]:
    r"""How far to trust classes, given how many pairs they put into one class.

    .. math:: 1 - \mathrm{clip}\Big(\frac{s/\tau^+ - low}{high - low},\ 0,\ 1\Big)

    A posterior is calibrated in the large if its mean is the prior. Classes that are much too large
    are several classes merged, in which views and mixtures still agree.

    Args:
        share: mean probability that two items are of one class, :attr:`LatentClasses.share`.
        prior: what that mean should be, :math:`\tau^+`, in (0, 1].
        low: multiple of the prior up to which classes are fully trusted, positive.
        high: multiple from which they are not trusted at all, above ``low``.

    Returns:
        Values in [0, 1].

    Raises:
        ValueError: if a number is out of range.

    Example:
        >>> trust_of_share(torch.tensor([0.05, 0.2, 0.3]), prior=0.1)
        tensor([1.0000, 0.5000, 0.0000])
    """
    check_interval("prior", prior, 0.0, 1.0, open_low=True)
    check_positive("low", low)
    check_interval("high", high, low, float("inf"), open_low=True)
    return 1 - _ramp(share / prior, low, high)


def trust_of_agreement(
    agreement: Float[Tensor, "*shape"], *, low: float = 0.5, high: float = 0.7
) -> Float[Tensor, "*shape"]:
    r"""How far to trust a mixture, given how far views and mixtures agree.

    .. math:: \mathrm{clip}\Big(\frac{\rho - low}{high - low},\ 0,\ 1\Big)

    Args:
        agreement: :func:`class_agreement`, preferably a moving average.
        low: agreement up to which a mixture is not trusted at all, in [0, 1).
        high: agreement from which it is fully trusted, above ``low``, at most 1.

    Returns:
        Values in [0, 1].

    Raises:
        ValueError: if a bound is out of range.

    Example:
        >>> trust_of_agreement(torch.tensor([0.35, 0.6, 0.92]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    _check_bounds(low, high)
    return _ramp(agreement, low, high)


def _ramp(values: Float[Tensor, "*shape"], low: float, high: float) -> Float[Tensor, "*shape"]:
    """0 up to the lower bound, 1 from the upper one, and linear in between."""
    return ((values - low) / (high - low)).clamp(0, 1)


def same_class_factors(
    responsibility: Float[Tensor, "rows components"],
    trust: Float[Tensor, " mixtures"],
    transitions: Sequence[Float[Tensor, "size size"]],
    *,
    hops: int = HOPS,
) -> Float[Tensor, "rows components"]:
    r"""Factors of the same-class posterior: for two rows it is the product of their factors.

    The columns of mixture :math:`m`, one of :math:`F` with transitions :math:`M_m`, hold

    .. math::
        \sqrt{\frac{t_m}{F}}\; \frac{q_{im}}{\lVert q_{im} \rVert}, \qquad
        q_{im} = r_{im}\, M_m^{\,hops},

    so that ``first @ second.T`` is :func:`same_class`, and its row sums are
    ``first @ second.sum(dim=0)``.

    Args:
        responsibility: of rows or items. Not differentiated.
        trust: of each mixture, in [0, 1], as :func:`trust_of_agreement`.
        transitions: of each mixture, as :attr:`LatentClasses.transitions`.
        hops: number of moves to follow, at least 0; more moves merge more components.

    Returns:
        Factors of length at most 1.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> factors = same_class_factors(torch.eye(2), torch.tensor([0.25]), [torch.eye(2)])
        >>> factors @ factors.T
        tensor([[0.2500, 0.0000],
                [0.0000, 0.2500]])
    """
    ahead = signatures(responsibility, transitions, hops=hops)
    sizes = [len(matrix) for matrix in transitions]
    check_shape("trust", trust, (len(sizes),))
    return ahead * _by_component((trust / len(sizes)).sqrt(), sizes)


def same_class(
    first: Float[Tensor, "rows components"],
    second: Float[Tensor, "columns components"],
    *,
    trust: Float[Tensor, " mixtures"],
    transitions: Sequence[Float[Tensor, "size size"]],
    hops: int = HOPS,
) -> Float[Tensor, "rows columns"]:
    r"""Probability that two rows are of one latent class.

    .. math::
        P_{ij} = \frac{1}{F} \sum_m t_m \cos(q_{im}, q_{jm}), \qquad
        q_{im} = r_{im}\, M_m^{\,hops}

    A row's signature is the components in which further views of it would lie after a few moves.
    Two rows with the same signature are of one class; two without a common component are not. Each
    mixture counts by its trust :math:`t_m`.

    Args:
        first: responsibilities, as :func:`item_responsibilities` or
            :func:`class_responsibilities`. Not differentiated.
        second: those of the rows to compare with.
        trust: of each mixture, in [0, 1], as :func:`trust_of_agreement`.
        transitions: of each mixture, as :attr:`LatentClasses.transitions`.
        hops: how many moves to follow, at least 0.

    Returns:
        Values in [0, 1]; all 0 if no mixture is trusted.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> rows = torch.eye(3)
        >>> moves = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
        >>> same_class(rows, rows, trust=torch.tensor([1.0]), transitions=[moves])
        tensor([[1.0000, 1.0000, 0.0000],
                [1.0000, 1.0000, 0.0000],
                [0.0000, 0.0000, 1.0000]])

    See Also:
        :func:`same_class_factors`, whose product gives one tile of it at a time.
    """
    posterior = same_class_factors(first, trust, transitions, hops=hops) @ (
        same_class_factors(second, trust, transitions, hops=hops).T
    )
    # Rounding may take the cosine of a row with itself past 1.
    return posterior.clamp_max(1)


def _softmax_by_mixture(
    unit: Float[Tensor, "rows dim"], mixtures: Mixtures
) -> Float[Tensor, "rows components"]:
    """Responsibilities of rows of unit length."""
    kappa = _by_component(mixtures.kappa, mixtures.sizes)
    logits = torch.addmm(mixtures.weights.log(), unit, (mixtures.directions * kappa[:, None]).T)
    parts = torch.split(logits, list(mixtures.sizes), dim=1)
    return torch.cat([torch.softmax(part, dim=1) for part in parts], dim=1)


def _check_bounds(low: float, high: float) -> None:
    """Refuse bounds of a ramp that do not lie in this order in [0, 1]."""
    check_interval("low", low, 0.0, 1.0, open_high=True)
    check_interval("high", high, low, 1.0, open_low=True)


def _moves(
    transitions: Sequence[Float[Tensor, "size size"]],
) -> tuple[Float[Tensor, "size size"], ...]:
    """Transitions followed as often as a signature does."""
    return tuple(torch.linalg.matrix_power(matrix, HOPS) for matrix in transitions)


def _mean_product(rows: Float[Tensor, "rows components"]) -> Float[Tensor, ""]:
    """Mean inner product of two different rows, without the matrix; 0 where there are no two."""
    pairs = rows.sum(dim=0).square().sum() - rows.square().sum()
    return pairs / max(1, len(rows) * (len(rows) - 1))


def _unit_by_mixture(
    rows: Float[Tensor, "rows components"], sizes: Sequence[int]
) -> Float[Tensor, "rows components"]:
    """Rows with length 1 in the columns of each mixture."""
    parts = torch.split(rows, list(sizes), dim=1)
    return torch.cat([F.normalize(part, dim=1) for part in parts], dim=1)


def _by_component(
    values: Float[Tensor, " mixtures"], sizes: Sequence[int]
) -> Float[Tensor, " components"]:
    """Each mixture's value for each of its components."""
    return torch.cat([value.expand(size) for value, size in zip(values, sizes, strict=True)])


def _by_mixture(sizes: Sequence[int], *shares: Tensor) -> list[tuple[Tensor, ...]]:
    """The columns of each mixture, of several matrices."""
    return [torch.split(share, list(sizes), dim=1) for share in shares]


def _check_shares(first: Tensor, second: Tensor, sizes: Sequence[int]) -> None:
    """Refuse responsibilities of two views that do not belong together."""
    check_shape("first", first, (first.shape[0], sum(sizes)))
    check_shape("second", second, first.shape)


def _sum_by_mixture(
    values: Float[Tensor, " components"], sizes: Sequence[int]
) -> Float[Tensor, " mixtures"]:
    """Sums over the components of each mixture."""
    return torch.stack([part.sum() for part in torch.split(values, list(sizes))])


def _scatter_within(
    centered: Float[Tensor, "rows dim"], shares: Float[Tensor, "rows components"]
) -> Float[Tensor, "dim dim"]:
    """Scatter of rows about the means of their components, summed over mixtures and rows."""
    counts = shares.sum(dim=0)
    sums = shares.T @ centered
    means = sums / torch.where(counts > 0, counts, 1)[:, None]
    weights = shares.sum(dim=1, keepdim=True)
    return (weights * centered).T @ centered - means.T @ sums


def _unit_scatter(scatter: Float[Tensor, "dim dim"]) -> Float[Tensor, "dim dim"]:
    """A scatter matrix of mean variance 1; without any variance 0."""
    mean = scatter.diagonal().mean()
    some = mean > torch.finfo(scatter.dtype).tiny
    return torch.where(some, scatter / torch.where(some, mean, 1), 0)


def _whitening(scatter: Float[Tensor, "dim dim"], shrinkage: float) -> Float[Tensor, "dim dim"]:
    """The factor T of the inverse of a shrunken scatter matrix, T T' = (S + shrinkage I)^-1."""
    scatter = _unit_scatter(scatter)
    identity = torch.eye(len(scatter), dtype=scatter.dtype, device=scatter.device)
    lower, _ = torch.linalg.cholesky_ex(scatter + shrinkage * identity)
    inverse: Tensor = torch.linalg.solve_triangular(lower, identity, upper=False)
    return inverse.T


def _unit_rows(
    rows: Float[Tensor, "rows dim"],
) -> tuple[Float[Tensor, "rows dim"], Float[Tensor, " rows"]]:
    """Rows of unit length, and a size of each, which says whether it has a direction.

    Rows that are not finite, or have no direction, become 0.
    """
    rows = rows.detach()
    if rows.dtype not in (torch.float32, torch.float64):
        rows = rows.float()
    lengths = ordinary_lengths(rows)
    if lengths is not None:
        return rows / lengths, lengths.squeeze(1)
    # By the largest entry first: squares of tiny or huge entries would leave the range.
    largest = rows.abs().amax(dim=1)
    usable = _usable(largest)[:, None]
    clean = torch.where(usable, rows / largest[:, None], 0)
    return F.normalize(clean, dim=1), largest


def _usable(size: Float[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
    """Which rows are finite and have a direction, by their sizes."""
    return size.isfinite() & (size > 0)


def _started(
    unit: Float[Tensor, "rows dim"],
    usable: Bool[Tensor, " rows"],
    sizes: Sequence[int],
    generator: torch.Generator,
    max_kappa: float,
) -> Mixtures:
    """:func:`start_mixtures` of rows of unit length."""
    draws = torch.rand(len(sizes), max(sizes), generator=generator, dtype=torch.float64)
    spread = _spread_rows(unit, usable, draws.to(unit.device, unit.dtype))
    chosen = [one[:size] for one, size in zip(spread, sizes, strict=True)]
    weights = torch.cat([unit.new_full((size,), 1 / size) for size in sizes])
    kappa = unit.new_full((len(sizes),), max_kappa)
    return Mixtures(unit[torch.cat(chosen)], weights, kappa, tuple(sizes))


def _spread_rows(
    unit: Float[Tensor, "rows dim"],
    usable: Bool[Tensor, " rows"],
    draws: Float[Tensor, "mixtures draws"],
) -> Int[Tensor, "mixtures draws"]:
    """Numbers of rows by k-means++ for each mixture, from uniform draws."""
    uniform = usable.to(unit.dtype)
    evenly = uniform.cumsum(dim=0)
    place = evenly.repeat(len(draws), 1)
    distance, one = uniform, unit.new_ones(())
    chosen: list[Tensor] = []
    for draw in draws.T[:, :, None]:
        row = torch.searchsorted(place, draw * place[:, -1:], right=True).squeeze(1)
        chosen.append(row.clamp_max_(len(unit) - 1))
        # Rounding leaves a trace of distance between equal rows.
        away = F.threshold(torch.addmm(one, unit[row], unit.T, alpha=-1), 1e-6, 0.0)
        distance = torch.minimum(distance, away) if len(chosen) > 1 else away * uniform
        # Where all rows lie on those chosen already, any usable row will do.
        place = torch.add(distance.cumsum(dim=1), evenly, alpha=_NEXT_TO_NOTHING)
    return torch.stack(chosen, dim=1)


def _fitted(
    unit: Float[Tensor, "rows dim"],
    counted: Float[Tensor, " rows"],
    start: Mixtures,
    iterations: int,
    max_kappa: float,
) -> Mixtures:
    """:func:`fit_mixtures` to rows of unit length; those that do not count are 0."""
    count = counted.sum()
    mixtures = start
    for _ in range(iterations):
        shares = _softmax_by_mixture(unit, mixtures)
        sums = shares.T @ unit
        lengths = sums.norm(dim=1)
        found = lengths > 0
        kappa = mean_kappa(_sum_by_mixture(lengths, start.sizes) / count, unit.shape[1], max_kappa)
        mixtures = Mixtures(
            torch.where(
                found[:, None], sums / torch.where(found, lengths, 1)[:, None], mixtures.directions
            ),
            # 0 / 0, without usable rows, keeps what was there.
            torch.where(count > 0, counted @ shares / count, mixtures.weights),
            torch.where(count > 0, kappa, mixtures.kappa),
            start.sizes,
        )
    return mixtures


def _check_sizes(rows: Tensor, sizes: Sequence[int]) -> None:
    """Refuse rows that cannot start mixtures of these sizes."""
    check_floating("rows", rows)
    check_shape("rows", rows, ("rows", "dim"))
    if not sizes:
        raise ValueError("sizes must name at least one mixture, got none")
    for size in sizes:
        check_count("sizes", size, 1)
    if max(sizes) > len(rows):
        raise ValueError(
            f"sizes must be at most the number of rows, got {max(sizes)} components "
            f"for {len(rows)} rows"
        )


def _check_rows(rows: Tensor, mixtures: Mixtures) -> None:
    """Refuse rows that are not of the mixtures' length."""
    check_floating("rows", rows)
    check_shape("rows", rows, ("rows", mixtures.directions.shape[1]))
