"""Parts of a data set: splits drawn with fixed seeds, and some of the classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from bayescl_lab._fields import listed, separated
from bayescl_lab.items.store import ItemStore

SEED = 0  # seed of splits and subsets, independent of the seed of a run


def stratified_split(
    labels: Int[Tensor, " images"], *, share: float, seed: int, least: int = 0
) -> tuple[Int[Tensor, " first"], Int[Tensor, " second"]]:
    """Split rows in two, with the same proportion for every label, including -1.

    The first set gets ``share``, in (0, 1], of the rows of every class, rounded, but at least
    ``least`` rows. Rows are ascending, and every row is in exactly one set.

    Example:
        >>> labels = torch.tensor([0] * 10 + [1] * 20)
        >>> first, second = stratified_split(labels, share=0.7, seed=0)
        >>> labels[first].bincount().tolist(), labels[second].bincount().tolist()
        ([7, 14], [3, 6])
    """
    labels, generator = labels.cpu(), torch.Generator().manual_seed(seed)
    parts = []
    for label in labels.unique():
        rows = (labels == label).nonzero().squeeze(1)
        rows = rows[torch.randperm(len(rows), generator=generator)]
        parts.append(rows.tensor_split([max(least, round(share * len(rows)))]))
    first, second = (torch.cat(half).sort().values for half in zip(*parts, strict=True))
    return first, second


def chosen_classes(class_names: Sequence[str], classes: str) -> tuple[str, ...]:
    """Return the chosen classes, given by comma-separated names, in the order of ``class_names``.

    Example:
        >>> chosen_classes(("airplane", "bird", "ship"), "ship,airplane")
        ('airplane', 'ship')
    """
    chosen = separated(classes)
    unknown = [name for name in chosen if name not in class_names]
    if unknown:
        known = listed(class_names, 20)
        raise ValueError(f"unknown class {', '.join(unknown)}; the classes are {known}")
    if len(set(chosen)) < 2:
        raise ValueError(f"classes must name at least two classes, got {classes!r}")
    return tuple(name for name in class_names if name in chosen)


def only_classes(store: ItemStore, classes: Sequence[str]) -> ItemStore:
    """Return the items of the given classes, with labels in the order of ``classes``.

    Raises:
        ValueError: if there are no items of these classes.
    """
    position = {name: index for index, name in enumerate(classes)}
    # The last entry is for images without a label, which have index -1.
    table = torch.tensor([*(position.get(name, -1) for name in store.class_names), -1])
    labels = table.to(store.device)[store.labels]
    kept = labels >= 0
    if not kept.any():
        raise ValueError(f"{store.name}: there are no {store.noun} of {', '.join(classes)}")
    return replace(store.subset(kept), labels=labels[kept], class_names=tuple(classes))
