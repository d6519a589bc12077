r"""``tau_plus``: how likely a random candidate is of the anchor's class.

With classes of shares :math:`\pi_c`, an anchor of class :math:`c` meets false negatives at rate
:math:`\pi_c`, and the losses take one number for all anchors. The mean over anchors is the
probability that anchor and candidate, drawn at random, share their class,
:math:`\tau^+ = \sum_c \pi_c^2`. One over the number of classes, which ``num_classes`` gives, is the
same if classes are balanced and too small if not: large classes have both more anchors and more
false negatives.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bayescl.axes import Int, Tensor


def tau_plus_of_class_sizes(sizes: Sequence[int] | Int[Tensor, " classes"]) -> float:
    """Prior with classes of given sizes: the sum of their squared shares.

    Args:
        sizes: items per class, at least 0 each; at least two classes must have some.

    Returns:
        A value in (0, 1), at least one over the number of classes.

    Raises:
        ValueError: if a size is negative or fewer than two classes have items.

    Example:
        >>> [round(tau_plus_of_class_sizes(sizes), 4) for sizes in ([50, 50], [90, 10])]
        [0.5, 0.82]
    """
    counts = torch.as_tensor(sizes).double()
    if counts.ndim != 1 or bool((counts < 0).any()):
        raise ValueError(f"sizes must be a list of numbers of at least 0, got {counts.tolist()}")
    if int((counts > 0).sum()) < 2:
        raise ValueError(
            "sizes must name at least two classes with items: a single class has no negatives"
        )
    return round(float((counts / counts.sum()).square().sum()), 12)


def tau_plus_of_labels(labels: Int[Tensor, " items"]) -> float:
    """Prior counted on labels: the share of an item's candidates that are of its class.

    Unlike :func:`tau_plus_of_class_sizes`, it leaves out the item itself, which is not a candidate.

    Args:
        labels: the class of each item; at least two items.

    Returns:
        A value in [0, 1).

    Raises:
        ValueError: if there are fewer than two items or classes.

    Example:
        >>> round(tau_plus_of_labels(torch.tensor([0, 0, 1, 1])), 4)
        0.3333
    """
    if labels.ndim != 1 or len(labels) < 2:
        raise ValueError(
            f"labels must have shape [items] with at least 2 items, got {list(labels.shape)}"
        )
    counts = torch.unique(labels, return_counts=True)[1].double()
    if len(counts) < 2:
        raise ValueError("labels must name at least two classes: a single class has no negatives")
    total = counts.sum()
    return float((counts * (counts - 1)).sum() / (total * (total - 1)))
