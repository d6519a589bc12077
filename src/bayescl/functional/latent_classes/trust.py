"""How far to trust latent classes, without labels.

:func:`trust_of_agreement` goes by how far views and mixtures agree, :func:`trust_of_share` by the
size of the classes, and :func:`trust_of_closeness` by whether there is anything to gain.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bayescl.axes import Float, Tensor
from bayescl.checks import check_interval, check_positive, check_shape
from bayescl.functional.latent_classes._rows import check_shares, sum_by_mixture


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
    total = items.abs().sum(dim=1, keepdim=True)
    known = ((total > 0) & total.isfinite()).to(items.dtype)  # [items, 1]
    items = items.nan_to_num(0.0, 0.0, 0.0)
    mean = (known.T @ items) / known.sum().clamp_min(1)
    centered = (items - mean) * known
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
    check_shares(first, second, sizes)
    known = (first + second).sum(dim=1, keepdim=True).isfinite().to(first.dtype)  # [items, 1]
    first, second = (view.nan_to_num(0.0, 0.0, 0.0) * known for view in (first, second))
    count = known.sum().clamp_min(1)

    def total(values: Tensor) -> Tensor:
        return sum_by_mixture(values, sizes)

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
    members = (same_class > threshold).to(similarity.dtype).fill_diagonal_(0)
    lost = (similarity - similarity.diagonal()[:, None]).sign_()  # 1, or -1 if the positive won
    count = members.sum()
    mean = (members * lost).sum() / count.clamp_min(1)
    return torch.where(count > 0, (1 - mean) / 2, 1.0)


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


def _check_bounds(low: float, high: float) -> None:
    """Refuse bounds of a ramp that do not lie in this order in [0, 1]."""
    check_interval("low", low, 0.0, 1.0, open_high=True)
    check_interval("high", high, low, 1.0, open_low=True)
