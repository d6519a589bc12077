"""The posterior that two rows share a latent class.

Views of one item move between some components of a mixture, which are then parts of one class. A
row's signature is where further views of it would lie after a few such steps, as a direction for
each mixture, and :func:`same_class` compares signatures: two rows that share a component in coarse
and fine mixtures are more surely of one class than two that share only a coarse one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat

import torch

from bayescl.axes import Float, Tensor
from bayescl.checks import check_floating, check_shape
from bayescl.latent_classes.mixture import Mixtures, shares_of, unit_rows
from bayescl.latent_classes.trust import view_agreement

NUM_STEPS = 2
"""Steps between components that a signature looks ahead; more steps merge more components."""


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
        component_labels: how surely each component is of each labelled class, for each mixture;
            None without labels.
    """

    center: Float[Tensor, " dim"]
    transform: Float[Tensor, "dim dim"]
    mixtures: Mixtures
    transitions: tuple[Float[Tensor, "size size"], ...]
    alignment: Float[Tensor, " mixtures"]
    closeness: Float[Tensor, ""]
    share: Float[Tensor, ""]
    component_labels: Float[Tensor, "components mixtures*labels"] | None = None

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of components of each mixture."""
        return self.mixtures.sizes

    @cached_property
    def offset(self) -> Float[Tensor, " dim"]:
        """What is added to a transformed row for the center."""
        return -(self.center @ self.transform)

    @cached_property
    def transition_power(self) -> tuple[Float[Tensor, "size size"], ...]:
        """The transitions of :data:`NUM_STEPS` steps."""
        return transition_power(self.transitions)


def transition_power(
    transitions: Sequence[Float[Tensor, "size size"]],
) -> tuple[Float[Tensor, "size size"], ...]:
    """Transitions of :data:`NUM_STEPS` steps."""
    return tuple(torch.linalg.matrix_power(matrix, NUM_STEPS) for matrix in transitions)


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
    metric = classes.offset, classes.transform, classes.mixtures
    return torch.cat(metric_shares(unit_or_nan(rows), *metric), dim=1)


def unit_or_nan(rows: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
    """Rows of unit length; NaN where a row is not finite."""
    unit, size = unit_rows(rows)
    return unit + (size * 0)[:, None]


def metric_shares(
    unit: Float[Tensor, "rows dim"], offset: Tensor, transform: Tensor, mixtures: Mixtures
) -> list[Tensor]:
    """Responsibilities of each mixture for rows of unit length; NaN where a row is."""
    seen, size = unit_rows(torch.addmm(offset, unit, transform))
    nothing = (size * 0)[:, None]
    return [shares + nothing for shares in shares_of(seen, mixtures)]


def propagate(
    responsibility: Float[Tensor, "rows components"],
    powers: Sequence[Float[Tensor, "size size"]],
) -> Float[Tensor, "rows components"]:
    r"""Where further views of a row would lie, :math:`r_m M_m^2`, before scaling to unit length."""
    sizes = [len(matrix) for matrix in powers]
    check_shape("responsibility", responsibility, (responsibility.shape[0], sum(sizes)))
    parts = torch.split(responsibility.detach(), sizes, dim=1)
    return torch.cat([part @ matrix for part, matrix in zip(parts, powers, strict=True)], dim=1)


def signatures(
    unit: Float[Tensor, "rows dim"], classes: LatentClasses
) -> Float[Tensor, "rows signature"]:
    """Where further views of rows would lie, and how surely rows are of each labelled class.

    It is linear in responsibilities, so an item's is the mean over its views.

    Args:
        unit: rows of length 1, 0 or NaN; those that are NaN give NaN.
        classes: as :func:`fit_latent_classes` returns them.
    """
    shares = metric_shares(unit, classes.offset, classes.transform, classes.mixtures)
    joined = torch.cat(shares, dim=1)
    ahead = propagate(joined, classes.transition_power)
    if classes.component_labels is None:
        return ahead
    return torch.cat([ahead, joined @ classes.component_labels], dim=1)


def signature_factors(
    signature: Float[Tensor, "rows signature"], classes: LatentClasses
) -> Float[Tensor, "rows factors"]:
    r"""Factors of the same-class posterior before trust, with what labels say of components.

    With labels, rows :math:`i` and :math:`j` that are of labelled classes as surely as
    :math:`\lambda_i = \sum_c g_{ic}` are of one class in a mixture with probability

    .. math::
        \sum_c g_{ic}\, g_{jc} + \sqrt{(1 - \lambda_i^2)(1 - \lambda_j^2)}\, \cos(q_i, q_j).

    Their lengths are at most 1; without labels they are those of :func:`same_class_factors`.
    """
    sizes = classes.sizes
    length = len(sizes) ** -0.5
    factors = unit_by_mixture(signature[:, : sum(sizes)], sizes, repeat(length))
    if classes.component_labels is None:
        return factors
    labeled = signature[:, sum(sizes) :].unflatten(1, (len(sizes), -1))  # [rows, mixtures, labels]
    unsure = (1 - labeled.sum(dim=2).square()).clamp_min(0).sqrt()  # [rows, mixtures]
    views = torch.split(factors, list(sizes), dim=1)
    seen = [part * scale[:, None] for part, scale in zip(views, unsure.T, strict=True)]
    return torch.cat([*seen, (labeled * length).flatten(1)], dim=1)


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
    return (first + second) / 2, class_agreement(propagate(both, classes.transition_power), classes)


def class_agreement(
    signature: Float[Tensor, "two_items signature"], classes: LatentClasses
) -> Float[Tensor, " mixtures"]:
    """How far mixtures and the signatures of two views, end to end, agree, in [-1, 1].

    Either alone can be fooled: weak augmentation leaves a view in its component even if components
    cut through classes at random, and mixtures find the same styles if views differ by style.
    """
    ahead = signature[:, : sum(classes.sizes)]
    first, second = unit_by_mixture(ahead, classes.sizes).chunk(2)
    return view_agreement(first, second, classes.sizes) * classes.alignment


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
    check_shape("trust", trust, (len(sizes),))
    ahead = propagate(responsibility, transition_power(transitions))
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

    Two rows whose further views would lie in the same components after two steps are of one class;
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
        >>> steps = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
        >>> same_class(rows, rows, trust=torch.tensor([1.0]), transitions=[steps])
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
    lengths: Iterable[float | Tensor] = repeat(1.0),
) -> Float[Tensor, "rows components"]:
    """Rows with length 1, or the given one, in the columns of each mixture."""
    parts = []
    for part, length in zip(torch.split_with_sizes(rows, sizes, 1), lengths, strict=False):
        norm = torch.linalg.vector_norm(part, dim=1, keepdim=True).clamp_min_(1e-12)
        parts.append(part * (length / norm))
    return torch.cat(parts, dim=1)
