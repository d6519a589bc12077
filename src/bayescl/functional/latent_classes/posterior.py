"""Latent classes of items with two views each, and the posterior that two items share a class.

:func:`fit_latent_classes` fits mixtures in a metric that plays down what views change, and notes
between which components views of one item move. A row's signature is where further views of it
would lie after a few moves, as a direction for each mixture, and :func:`same_class` compares
signatures: two rows that share a component in coarse and fine mixtures are more surely of one class
than two that share only a coarse one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count, check_floating, check_positive, check_shape
from bayescl.functional.latent_classes.mixture import (
    Mixtures,
    fit_mixtures,
    shares_of,
    softmax_by_mixture,
    start_mixtures,
    unit_rows,
    usable,
)
from bayescl.functional.latent_classes.trust import (
    check_shares,
    mixture_alignment,
    positive_closeness,
    view_agreement,
)

_HOPS = 2
"""How many moves between components a signature looks ahead; more merge more components."""

_DOUBT = 0.25
"""Labelled items in a component, as a share of the mean, that weigh as much as its views."""

_ALIGNED_ROWS = 1024
"""Items on which mixtures are compared: on fewer, mixtures look more alike than they are."""

_COMPARED_ROWS = 256
"""Items whose views are compared with one another: the latest, since the encoder changes."""


@dataclass(frozen=True)
class LatentClasses:
    """Mixtures fitted in a metric that plays down differences between views of an item.

    Attributes:
        center: subtracted from rows of unit length.
        transform: applied next, from the right; then rows are scaled to unit length again.
        mixtures: fitted to the resulting rows.
        transitions: for each mixture, the probability that one view of an item lies in a component
            (column) if the other view lies in another (row).
        alignment: how far each mixture tells the same items apart as the others do, in [0, 1].
        closeness: how often an item's other view is closer than another item of its class.
        share: mean probability that two items are of one class, over all mixtures.
        known: how surely each component is of each class that labels name, for each mixture; None
            without labels.
    """

    center: Float[Tensor, " dim"]
    transform: Float[Tensor, "dim dim"]
    mixtures: Mixtures
    transitions: tuple[Float[Tensor, "size size"], ...]
    alignment: Float[Tensor, " mixtures"]
    closeness: Float[Tensor, ""]
    share: Float[Tensor, ""]
    known: Float[Tensor, "components mixtures*labels"] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of components of each mixture."""
        return self.mixtures.sizes

    @cached_property
    def offset(self) -> Float[Tensor, " dim"]:
        """What is added to a transformed row for the center."""
        return -(self.center @ self.transform)

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
    labelled: tuple[Tensor, Tensor, Tensor] | None = None,
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
        iterations: steps of expectation maximisation in each of the two fits.
        shrinkage: :math:`\epsilon`, positive; large values leave the metric as it is.
        labelled: both views of some items, ``[labelled, dim]`` each, and their labels, which say of
            which classes components are.

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

    """
    check_count("iterations", iterations, 0)
    check_positive("shrinkage", shrinkage)
    check_floating("rows", view_1)
    check_shape("rows", view_1, ("rows", "dim"))
    check_shape("view_2", view_2, view_1.shape)
    if not sizes:
        raise ValueError("sizes must name at least one mixture, got none")
    most, items = max(check_count("sizes", size, 1) for size in sizes), len(view_1)
    if most > items:
        raise ValueError(
            f"sizes must be at most the number of rows, got {most} components for {items} rows"
        )
    # With n items and d coordinates: views, rows and what is made of them are [n, d], metrics
    # [d, d], and shares [n, components].
    first, largest_1 = unit_rows(view_1)
    second, largest_2 = unit_rows(view_2)
    rows, largest = unit_rows(first + second)
    counted = (usable(largest) & usable(largest_1) & usable(largest_2)).to(rows.dtype)[:, None]
    count = counted.sum().clamp_min(1)
    center = (rows * counted).sum(dim=0) / count
    centered = (rows - center) * counted
    apart = (first - second) * counted
    between_views = _unit_scatter(apart.T @ apart)

    transform = _whitening(between_views, shrinkage)
    unit, largest = unit_rows(centered @ transform)
    clean = usable(largest)
    start = start_mixtures(unit, clean, sizes, generator)
    mixtures = fit_mixtures(unit, clean.to(unit.dtype), start, iterations)

    shares = softmax_by_mixture(unit, mixtures) * counted
    within = _unit_scatter(_scatter_within(centered, shares) / len(sizes))
    transform = _whitening(between_views + within, shrinkage)
    unit, largest = unit_rows(centered @ transform)
    # The same components, seen in the new metric.
    start = replace(mixtures, directions=unit_rows(shares.T @ unit)[0])
    mixtures = fit_mixtures(unit, usable(largest).to(unit.dtype), start, iterations)

    metric = -(center @ transform), transform, mixtures
    shares_1, shares_2 = (_shares(view, *metric) * counted for view in (first, second))
    transitions = component_transitions(shares_1, shares_2, sizes)
    known: Tensor | None = None
    if labelled is not None:
        *views, labels = labelled
        seen = [_shares(unit_rows(view)[0], *metric) for view in views]
        known = known_classes(seen[0] + seen[1], labels, sizes)
    ahead = further_views(((shares_1 + shares_2) / 2)[-_ALIGNED_ROWS:], _moves(transitions))
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
        center, transform, mixtures, transitions, alignment, closeness, share, known
    )


def known_classes(
    responsibility: Float[Tensor, "items components"],
    labels: Int[Tensor, " items"],
    sizes: Sequence[int],
) -> Float[Tensor, "components mixtures*labels"]:
    r"""How surely each component is of each class that labels name.

    With the labelled items' mean responsibility :math:`n_{kc}` of component :math:`k`, by class
    :math:`c`,

    .. math::
        K_{kc} = \lambda_k\, \frac{n_{kc}}{n_k}, \qquad n_k = \sum_c n_{kc}, \qquad
        \lambda_k = \frac{n_k}{n_k + \frac14\,\mathrm{mean}_j\, n_j}.

    Each mixture has its own columns, one for each label in ascending order.
    """
    check_shape("responsibility", responsibility, (len(labels), sum(sizes)))
    _, numbers, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    responsibility = responsibility.detach().nan_to_num(0.0)
    means = responsibility.new_zeros(len(counts), sum(sizes))
    means = means.index_add_(0, numbers, responsibility) / counts[:, None]  # [labels, components]
    blocks = []
    for of_mixture in torch.split(means, list(sizes), dim=1):
        total = of_mixture.sum(dim=0)  # [size], n_k
        doubt = total.mean() * _DOUBT
        blocks.append((of_mixture / (total + doubt).clamp_min(1e-12)).T)
    known: Tensor = torch.block_diag(*blocks)
    return known


def outlooks(
    rows: Float[Tensor, "rows dim"], classes: LatentClasses
) -> Float[Tensor, "rows outlook"]:
    """Where further views of rows would lie, and how surely rows are of each known class.

    It is linear in responsibilities, so an item's is the mean over its views.

    Args:
        rows: of length 1, 0 or NaN; those that are NaN give NaN.
        classes: as :func:`fit_latent_classes` returns them.
    """
    seen, size = unit_rows(torch.addmm(classes.offset, rows, classes.transform))
    shares = shares_of(seen, classes.mixtures)
    ahead = [share @ matrix for share, matrix in zip(shares, classes.moves, strict=True)]
    if classes.known is not None:
        ahead.append(torch.cat(shares, dim=1) @ classes.known)
    return torch.cat(ahead, dim=1).add_((size * 0)[:, None])  # NaN where a size is not finite


def outlook_factors(
    outlook: Float[Tensor, "rows outlook"],
    trust: Float[Tensor, " mixtures"],
    classes: LatentClasses,
) -> Float[Tensor, "rows factors"]:
    r"""Factors of the same-class posterior, with what labels say of components.

    With labels, rows :math:`i` and :math:`j` that are of known classes as surely as
    :math:`\lambda_i = \sum_c g_{ic}` are of one class in a mixture with probability

    .. math::
        \sum_c g_{ic}\, g_{jc} + \sqrt{(1 - \lambda_i^2)(1 - \lambda_j^2)}\, \cos(q_i, q_j).

    Their lengths are at most 1; without labels they are those of :func:`same_class_factors`.
    """
    sizes = classes.sizes
    factors = _factors(outlook[:, : sum(sizes)], trust, sizes)
    if classes.known is None:
        return factors
    known = outlook[:, sum(sizes) :].unflatten(1, (len(sizes), -1))  # [rows, mixtures, labels], g
    unsure = (1 - known.sum(dim=2).square()).clamp_min(0).sqrt()  # [rows, mixtures]
    views = torch.split(factors, list(sizes), dim=1)
    seen = [part * scale[:, None] for part, scale in zip(views, unsure.T, strict=True)]
    known = known * (trust / len(sizes)).sqrt()[:, None]
    return torch.cat([*seen, known.flatten(1)], dim=1)


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
    check_shares(first, second, sizes)
    matrices = []
    parts = (torch.split(shares, list(sizes), dim=1) for shares in (first, second))
    for part_1, part_2 in zip(*parts, strict=True):
        moved = part_1.T @ part_2
        moved = moved + moved.T
        total = moved.sum(dim=1, keepdim=True)
        stay = torch.eye(len(moved), dtype=moved.dtype, device=moved.device)
        matrices.append(torch.where(total > 0, moved / torch.where(total > 0, total, 1), stay))
    return tuple(matrices)


def class_responsibilities(
    rows: Float[Tensor, "rows dim"], classes: LatentClasses
) -> Float[Tensor, "rows components"]:
    """Probability of each component given a row, in the metric of the latent classes.

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
    unit, size = unit_rows(rows)
    shares = _shares(unit, classes.offset, classes.transform, classes.mixtures)
    return shares.add_((size * 0)[:, None])  # NaN where a size is not finite


def _shares(
    unit: Float[Tensor, "rows dim"], offset: Tensor, transform: Tensor, mixtures: Mixtures
) -> Float[Tensor, "rows components"]:
    """Responsibilities of rows of unit length that are yet to be seen in the metric."""
    seen, _ = unit_rows(torch.addmm(offset, unit, transform))
    return softmax_by_mixture(seen, mixtures)


def item_responsibilities(
    view_1: Float[Tensor, "items dim"], view_2: Float[Tensor, "items dim"], classes: LatentClasses
) -> tuple[Float[Tensor, "items components"], Float[Tensor, " mixtures"]]:
    r"""Responsibilities of items from two views each, and how far the views agree.

    An item's responsibility is the mean over its views.

    Args:
        view_1: embeddings of one view of each item. Not differentiated.
        view_2: embeddings of the other view.
        classes: as :func:`fit_latent_classes` returns them.

    Returns:
        Responsibilities, as :func:`responsibilities`, and the agreement of each mixture: that of
        the views, times :attr:`LatentClasses.alignment`.

    Raises:
        ValueError: if shapes do not match.

    Example:
        See :func:`fit_latent_classes`.
    """
    check_shape("view_2", view_2, view_1.shape)
    both = class_responsibilities(torch.cat([view_1, view_2]), classes)
    first, second = both.chunk(2)
    return (first + second) / 2, class_agreement(further_views(both, classes.moves), classes)


def class_agreement(
    outlook: Float[Tensor, "two_items outlook"], classes: LatentClasses
) -> Float[Tensor, " mixtures"]:
    """How far mixtures and two views' outlooks, end to end, agree, in [-1, 1], without labels.

    Either alone can be fooled: weak augmentation leaves a view in its component even if components
    cut through classes at random, and mixtures find the same styles if views differ by style.
    """
    ahead = outlook[:, : sum(classes.sizes)]
    first, second = unit_by_mixture(ahead, classes.sizes).chunk(2)
    return view_agreement(first, second, classes.sizes) * classes.alignment


def further_views(
    responsibility: Float[Tensor, "rows components"],
    moves: Sequence[Float[Tensor, "size size"]],
) -> Float[Tensor, "rows components"]:
    r"""Where further views of a row would lie, :math:`r_m M_m`, before scaling to unit length."""
    sizes = [len(matrix) for matrix in moves]
    check_shape("responsibility", responsibility, (responsibility.shape[0], sum(sizes)))
    parts = torch.split(responsibility.detach(), sizes, dim=1)
    return torch.cat([part @ matrix for part, matrix in zip(parts, moves, strict=True)], dim=1)


def same_class_factors(
    responsibility: Float[Tensor, "rows components"],
    trust: Float[Tensor, " mixtures"],
    transitions: Sequence[Float[Tensor, "size size"]],
) -> Float[Tensor, "rows components"]:
    r"""Factors of the same-class posterior: for two rows it is the product of their factors.

    The columns of mixture :math:`m`, one of :math:`F` with transitions :math:`M_m`, hold

    .. math::
        \sqrt{\frac{t_m}{F}}\; \frac{q_{im}}{\lVert q_{im} \rVert}, \qquad
        q_{im} = r_{im}\, M_m^2,

    so that ``first @ second.T`` is :func:`same_class`, and its row sums are
    ``first @ second.sum(dim=0)``.

    Args:
        responsibility: of rows or items. Not differentiated.
        trust: of each mixture, in [0, 1], as :func:`trust_of_agreement`.
        transitions: of each mixture, as :attr:`LatentClasses.transitions`.

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
    sizes = [len(matrix) for matrix in transitions]
    return _factors(further_views(responsibility, _moves(transitions)), trust, sizes)


def _factors(
    ahead: Float[Tensor, "rows components"], trust: Float[Tensor, " mixtures"], sizes: Sequence[int]
) -> Float[Tensor, "rows components"]:
    """Factors from where further views would lie."""
    check_shape("trust", trust, (len(sizes),))
    return unit_by_mixture(ahead, sizes, (trust / len(sizes)).sqrt())


def same_class(
    first: Float[Tensor, "rows components"],
    second: Float[Tensor, "columns components"],
    *,
    trust: Float[Tensor, " mixtures"],
    transitions: Sequence[Float[Tensor, "size size"]],
) -> Float[Tensor, "rows columns"]:
    r"""Probability that two rows are of one latent class.

    .. math::
        P_{ij} = \frac{1}{F} \sum_m t_m \cos(q_{im}, q_{jm}), \qquad
        q_{im} = r_{im}\, M_m^2

    Two rows whose further views would lie in the same components after two moves are of one class;
    two without a common component are not. Each mixture counts by its trust :math:`t_m`.

    The rows' responsibilities are those of :func:`item_responsibilities` or
    :func:`class_responsibilities`; for ``trust`` and ``transitions`` see
    :func:`same_class_factors`.

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
    """
    left, right = (same_class_factors(rows, trust, transitions) for rows in (first, second))
    posterior = left @ right.T
    # Rounding may take the cosine of a row with itself past 1.
    return posterior.clamp_max(1)


def unit_by_mixture(
    rows: Float[Tensor, "rows components"],
    sizes: Sequence[int],
    lengths: Float[Tensor, " mixtures"] | None = None,
) -> Float[Tensor, "rows components"]:
    """Rows with length 1, or the given one, in the columns of each mixture."""
    parts: list[Tensor] = []
    wanted = [1.0] * len(sizes) if lengths is None else lengths.unbind()
    for part, length in zip(torch.split_with_sizes(rows, sizes, 1), wanted, strict=True):
        norm = torch.linalg.vector_norm(part, dim=1, keepdim=True).clamp_min_(1e-12)
        parts.append(part * (length / norm))
    return torch.cat(parts, dim=1)


def _moves(
    transitions: Sequence[Float[Tensor, "size size"]],
) -> tuple[Float[Tensor, "size size"], ...]:
    """Transitions followed as often as a signature does."""
    return tuple(torch.linalg.matrix_power(matrix, _HOPS) for matrix in transitions)


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


def _whitening(scatter: Float[Tensor, "dim dim"], shrinkage: float) -> Float[Tensor, "dim dim"]:
    """The factor T of the inverse of a shrunken scatter matrix, T T' = (S + shrinkage I)^-1."""
    scatter = _unit_scatter(scatter)
    identity = torch.eye(len(scatter), dtype=scatter.dtype, device=scatter.device)
    lower, _ = torch.linalg.cholesky_ex(scatter + shrinkage * identity)
    inverse: Tensor = torch.linalg.solve_triangular(lower, identity, upper=False)
    return inverse.T
