"""The posterior that two rows share a latent class.

Views of one item move between some components of a mixture, which are then parts of one class. A
row's signature is where further views of it would lie after a few such steps, as a direction for
each mixture, and :func:`same_class` compares signatures: two rows that share a component in coarse
and fine mixtures are more surely of one class than two that share only a coarse one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from bayescl.axes import Float, Tensor
from bayescl.checks import check_floating, check_shape
from bayescl.latent_classes.mixture import Mixtures, responsibilities, unit_rows
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
    def metric(self) -> tuple[Float[Tensor, " dim"], Float[Tensor, "dim dim"], Mixtures]:
        """What is added to a transformed row for the center, the transform, and the mixtures."""
        return -(self.center @ self.transform), self.transform, self.mixtures

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
        Values in [0, 1]; those of each mixture sum to 1 in every row. Rows that are not finite give
        NaN; all-zero rows give the mixing weights.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> mixtures = Mixtures(torch.eye(2), torch.tensor([0.5, 0.5]), torch.tensor([60.0]), (2,))
        >>> metric, signs = (torch.zeros(2), torch.eye(2)), (torch.ones(1), *torch.ones(2))
        >>> classes = LatentClasses(*metric, mixtures, (torch.eye(2),), *signs)
        >>> class_responsibilities(torch.tensor([[0.0, 9.0]]), classes).round()
        tensor([[0., 1.]])
    """
    return metric_shares(_checked_unit(rows, classes), *classes.metric)


def _checked_unit(rows: Tensor, classes: LatentClasses) -> Float[Tensor, "rows dim"]:
    """:func:`unit_or_nan`, for rows like those that classes were fitted to."""
    check_floating("rows", rows)
    check_shape("rows", rows, ("rows", len(classes.center)))
    return unit_or_nan(rows)


def unit_or_nan(rows: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows dim"]:
    """Rows of unit length; NaN where a row is not finite."""
    unit, size = unit_rows(rows)
    return unit + (size * 0)[:, None]


def metric_shares(
    unit: Float[Tensor, "rows dim"], offset: Tensor, transform: Tensor, mixtures: Mixtures
) -> Float[Tensor, "rows components"]:
    """Responsibilities of components for rows of unit length; NaN where a row is."""
    seen, size = unit_rows(torch.addmm(offset, unit, transform))
    return responsibilities(seen, mixtures) + (size * 0)[:, None]


def propagate(
    responsibility: Float[Tensor, "rows components"],
    powers: Sequence[Float[Tensor, "size size"]],
) -> Float[Tensor, "rows components"]:
    r"""Where further views of a row would lie, :math:`r_m M_m^2`, before scaling to unit length."""
    sizes = [len(matrix) for matrix in powers]
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
    shares = metric_shares(unit, *classes.metric)
    ahead = propagate(shares, classes.transition_power)
    if classes.component_labels is None:
        return ahead
    return torch.cat([ahead, shares @ classes.component_labels], dim=1)


def signature_factors(
    signature: Float[Tensor, "rows signature"], classes: LatentClasses
) -> Float[Tensor, "rows factors"]:
    r"""Factors of the same-class posterior before trust, with what labels say of components.

    With labels, rows :math:`i` and :math:`j` that are of labelled classes as surely as
    :math:`\lambda_i = \sum_c g_{ic}` are of one class in a mixture with probability

    .. math::
        \sum_c g_{ic}\, g_{jc} + \sqrt{(1 - \lambda_i^2)(1 - \lambda_j^2)}\, \cos(q_i, q_j).

    Without labels, the columns of each of :math:`F` mixtures have the length :math:`1/\sqrt{F}`.
    """
    sizes = classes.sizes
    length = len(sizes) ** -0.5
    factors = unit_by_mixture(signature[:, : sum(sizes)], sizes, length)
    if classes.component_labels is None:
        return factors
    labeled = signature[:, sum(sizes) :].unflatten(1, (len(sizes), -1))  # [rows, mixtures, labels]
    unsure = (1 - labeled.sum(dim=2).square()).clamp_min(0).sqrt()  # [rows, mixtures]
    views = torch.split(factors, list(sizes), dim=1)
    seen = [part * scale[:, None] for part, scale in zip(views, unsure.T, strict=True)]
    return torch.cat([*seen, (labeled * length).flatten(1)], dim=1)


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


def same_class(
    first: Float[Tensor, "rows dim"], second: Float[Tensor, "columns dim"], classes: LatentClasses
) -> Float[Tensor, "rows columns"]:
    r"""Probability that two rows are of one latent class, before trust.

    With the responsibilities :math:`r_{im}` of row :math:`i` in mixture :math:`m`, one of :math:`F`
    with transitions :math:`M_m`, and without labels,

    .. math::
        P_{ij} = \frac{1}{F} \sum_m \cos(q_{im}, q_{jm}), \qquad
        q_{im} = r_{im}\, M_m^2

    Two rows whose further views would lie in the same components after two steps are of one class;
    two without a common component are not. :func:`signature_factors` says what labels add.

    Args:
        first: embeddings of any length. Not differentiated.
        second: embeddings to compare with.
        classes: as :func:`fit_latent_classes` returns them.

    Returns:
        Values in [0, 1]; 0 for rows that are not finite.

    Raises:
        ValueError: if shapes do not match.

    Example:
        >>> mixtures = Mixtures(torch.eye(2), torch.tensor([0.5, 0.5]), torch.tensor([60.0]), (2,))
        >>> metric, signs = (torch.zeros(2), torch.eye(2)), (torch.ones(1), *torch.ones(2))
        >>> classes = LatentClasses(*metric, mixtures, (torch.eye(2),), *signs)
        >>> rows = torch.tensor([[0.0, 9.0], [0.1, 2.0], [3.0, 0.0]])
        >>> same_class(rows[:1], rows, classes).round()
        tensor([[1., 1., 0.]])
    """
    unit = (_checked_unit(rows, classes) for rows in (first, second))
    ahead = (signatures(rows, classes).nan_to_num(0.0) for rows in unit)
    left, right = (signature_factors(rows, classes) for rows in ahead)
    # Rounding may take the cosine of a row with itself past 1.
    return (left @ right.T).clamp(0, 1)


def unit_by_mixture(
    rows: Float[Tensor, "rows components"], sizes: Sequence[int], length: float = 1.0
) -> Float[Tensor, "rows components"]:
    """Rows with one length in the columns of each mixture."""
    parts = []
    for part in torch.split_with_sizes(rows, sizes, 1):
        norm = torch.linalg.vector_norm(part, dim=1, keepdim=True).clamp_min_(1e-12)
        parts.append(part * (length / norm))
    return torch.cat(parts, dim=1)
