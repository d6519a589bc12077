"""How far to trust latent classes: without labels, and by labels that only audit.

:func:`trust_of_agreement` goes by how far views and mixtures agree, :func:`trust_of_share` by the
size of the classes, and :func:`trust_of_closeness` by whether there is anything to gain.
:class:`Precision` is measured on audited items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch

from bayescl.axes import Bool, Float, Tensor
from bayescl.latent_classes.labelled import LabelledItems
from bayescl.latent_classes.mixture import sum_by_mixture

_Z = 1.64  # of the interval around a measured precision: 90 %


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
    of them cuts differently. It is 1 if there is only one, and 0 if a mixture tells no items apart.
    Items that are not finite are ignored.

    Reference:
        Cortes et al., "Algorithms for Learning Kernels Based on Centered Alignment", JMLR 2012.
    """
    items = items.detach()
    if len(sizes) == 1:
        return items.new_ones(1)
    total = items.abs().sum(dim=1, keepdim=True)
    known = ((total > 0) & total.isfinite()).to(items.dtype)  # [items, 1]
    items = items.nan_to_num(0.0, 0.0, 0.0)
    mean = (known.T @ items) / known.sum().clamp_min(1)
    centered = (items - mean) * known
    rows = torch.split(centered.T @ centered, list(sizes))  # F_m' F, [size, components] each
    squares = torch.stack(
        [
            torch.stack([block.square().sum() for block in torch.split(row, list(sizes), dim=1)])
            for row in rows
        ]
    )
    lengths = squares.diagonal().sqrt()  # of the squared norms [mixtures, mixtures]: |F_m' F_m|
    possible = lengths[:, None] * lengths
    varies = possible > torch.finfo(items.dtype).tiny
    alignment = torch.where(varies, squares / torch.where(varies, possible, 1), 0)
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
    confidence allows; 0 if there is nothing to agree on (one component, or collapsed embeddings).
    Items with a view that is not finite are ignored.
    """
    known = (first + second).sum(dim=1, keepdim=True).isfinite().to(first.dtype)  # [items, 1]
    first, second = (view.nan_to_num(0.0, 0.0, 0.0) * known for view in (first, second))
    count = known.sum().clamp_min(1)

    def total(values: Tensor) -> Tensor:
        return sum_by_mixture(values, sizes)

    agreement = total((first * second).sum(dim=0)) / count
    confidence = total((first.square() + second.square()).sum(dim=0)) / (2 * count)
    chance = total((first.sum(dim=0) / count) * (second.sum(dim=0) / count))
    possible = confidence - chance
    differs = possible > 1e-4
    agreed = (agreement - chance) / torch.where(differs, possible, 1)
    return torch.where(differs, agreed, 0).clamp(-1, 1)


def positive_closeness(
    similarity: Float[Tensor, "items items"], same_class: Float[Tensor, "items items"]
) -> Float[Tensor, ""]:
    r"""How often an item's positive is closer to it than another member of its latent class.

    .. math::
        \Pr\big(s_{ij} < s_{ii} \,\big|\, P_{ij} > \tfrac12,\ i \ne j\big),

    ties counting half. It is ½ if a positive is a random member of the class, as in pairs of two
    items with one label, which bring the class together by themselves, and 1 if no item has another
    member to compare with.

    Args:
        similarity: of each item's first view with each item's second; positives on the diagonal.
        same_class: probability that two items are of one class, in [0, 1].
    """
    members = (same_class > 0.5).to(similarity.dtype).fill_diagonal_(0)
    lost = (similarity - similarity.diagonal()[:, None]).sign_()  # 1, or -1 if the positive won
    count = members.sum()
    mean = (members * lost).sum() / count.clamp_min(1)
    return torch.where(count > 0, (1 - mean) / 2, 1.0)


def trust_of_closeness(closeness: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""How much attraction can add, given how much closer positives are than other members.

    .. math:: \mathrm{clip}\Big(\frac{c - 0.6}{0.7 - 0.6},\ 0,\ 1\Big)

    with the closeness :math:`c`, :attr:`LatentClasses.closeness`.

    Example:
        >>> trust_of_closeness(torch.tensor([0.5, 0.65, 0.9]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    return _ramp(closeness, 0.6, 0.7)


def trust_of_share(share: Float[Tensor, "*shape"], prior: float) -> Float[Tensor, "*shape"]:
    r"""How far to trust classes, given how many pairs they put into one class.

    .. math:: 1 - \mathrm{clip}\Big(\frac{s/\tau^+ - 1.75}{2.25 - 1.75},\ 0,\ 1\Big)

    with the share :math:`s`, :attr:`LatentClasses.share`, which should be :math:`\tau^+`. Classes
    that are much too large are several classes merged, in which views and mixtures still agree.

    Example:
        >>> trust_of_share(torch.tensor([0.05, 0.2, 0.3]), prior=0.1)
        tensor([1.0000, 0.5000, 0.0000])
    """
    return 1 - _ramp(share / prior, 1.75, 2.25)


def trust_of_agreement(agreement: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    r"""How far to trust a mixture, given how far views and mixtures agree.

    .. math:: \mathrm{clip}\Big(\frac{\rho - 0.5}{0.7 - 0.5},\ 0,\ 1\Big)

    with the agreement :math:`\rho`, :func:`class_agreement`, preferably a moving average.

    Example:
        >>> trust_of_agreement(torch.tensor([0.35, 0.6, 0.92]))
        tensor([0.0000, 0.5000, 1.0000])
    """
    return _ramp(agreement, 0.5, 0.7)


def trust_of_precision(precision: float) -> float:
    r"""How far to trust classes in which so many of the attracting pairs are of one class.

    .. math:: \mathrm{clip}\Big(\frac{p - 0.3}{0.6 - 0.3},\ 0,\ 1\Big)
    """
    return min(1.0, max(0.0, (precision - 0.3) / 0.3))


class Precision(NamedTuple):
    """Share of attracting pairs that are of one class, measured on audited items."""

    value: float
    low: float  # the ends of its 90 % interval
    high: float
    pairs: float  # independent ones behind it

    @classmethod
    def of_pairs(
        cls,
        audited: Bool[Tensor, "items items"],
        others: Bool[Tensor, "items others"],
        items: LabelledItems,
        prior: float,
    ) -> Precision | None:
        r"""Measure by Bayes' rule which of the attracting pairs of audited items are of one class.

        If an audited item attracts a share :math:`q` of any items and a share :math:`q_{\ne}` of
        audited items of other classes,

        .. math:: \Pr(\text{one class} \mid \text{attract}) = 1 - (1 - \tau^+)\, q_{\ne} / q.

        Pairs of one label are not looked at. Items come again in every epoch and have no names, so
        two of one label may be the same item, which always attracts itself.

        Args:
            audited: which audited items attract one another.
            others: which of any other items they attract.
            items: the audited items.
            prior: probability that two items are of one class; if smaller, that of two labels.

        Returns:
            None if no pair attracts, or all items have one label.
        """
        same = items.labels[:, None] == items.labels
        partners = (~same).sum(dim=1)
        rate = float(others.float().mean())
        if not rate or not bool(partners.all()):
            return None
        shares = (audited & ~same).sum(dim=1) / partners  # of each item
        wrong = float(shares.mean())
        # The variance of a mean over pairs of few items, which come again and again.
        distinct = items.num_different
        pairs = float((~same).float().mean()) * distinct**2 / 2
        noise = wrong * (1 - wrong) / pairs
        of_items = max(0.0, float(shares.var(correction=0)) - noise * distinct / 2)
        variance = noise + 4 * of_items / distinct
        pairs *= noise / variance if variance else 1
        prior = min(prior, float(same.float().mean()))
        low, high = _wilson(wrong, pairs)
        value, low, high = (
            min(1.0, max(0.0, 1 - (1 - prior) * share / rate)) for share in (wrong, high, low)
        )
        return cls(value, low, high, pairs)


def _wilson(share: float, count: float) -> tuple[float, float]:
    """Wilson's interval for a share of so many."""
    square = _Z**2 / count
    middle = (share + square / 2) / (1 + square)
    half = _Z * math.sqrt(share * (1 - share) / count + square / (4 * count)) / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def _ramp(values: Float[Tensor, "*shape"], low: float, high: float) -> Float[Tensor, "*shape"]:
    """0 up to the lower bound, 1 from the upper one, and linear in between."""
    return ((values - low) / (high - low)).clamp(0, 1)
