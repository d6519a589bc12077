"""Items with labels and domains in one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Shaped
from numpy.typing import NDArray
from torch import Tensor

from bayescl_lab._arrays import UNKNOWN_WORDS, numbered

UNLABELED = -1  # the label of an image of unknown class

Items = Shaped[Tensor, "items *shape"]
"""Images, rows of numbers or windows of signals."""


@dataclass(frozen=True)
class ItemStore:
    """Items in one tensor. A batch is selected by one indexing operation.

    The tensor may be a memory-mapped file. A store may have only some rows of the tensor, so
    subsets do not copy items.
    """

    tensor: Items
    labels: Int[Tensor, " items"]  # counted from 0; -1 where unknown
    class_names: tuple[str, ...]
    name: str = "images"  # in tables and messages
    rows: Int[Tensor, " items"] | None = None  # rows of the tensor that are the items; None for all
    ids: NDArray[np.str_] | None = None  # in the data set: files in a folder, or numbers
    domains: Int[Tensor, " items"] | None = None  # -1 if unknown; None if all are unknown
    domain_names: tuple[str, ...] = ()
    noun: str = "images"  # what the items are, in messages

    def __post_init__(self) -> None:
        count = len(self)
        if self.tensor.shape.numel() == 0 or count == 0:
            raise ValueError(f"{self.name}: there are no {self.noun}")
        if self.labels.shape != (count,):
            raise ValueError(
                f"{self.name}: there must be one label per item, "
                f"got {count} {self.noun} and labels of shape {list(self.labels.shape)}"
            )

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self.tensor if self.rows is None else self.rows)

    @property
    def items(self) -> Items:
        """All items. A copy if the store has only some rows of the tensor."""
        return self.tensor if self.rows is None else self.tensor[self.rows]

    @property
    def num_classes(self) -> int:
        """Number of classes, including classes without items."""
        return len(self.class_names)

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of every item, such as channels, height and width."""
        return tuple(self.tensor.shape[1:])

    @property
    def device(self) -> torch.device:
        """Device of items and labels."""
        return self.labels.device

    def take(self, rows: Int[Tensor, " rows"]) -> Items:
        """Return the items of some rows as a new tensor.

        The indices ``rows`` are not copied if they are on the device of the store.
        """
        return self.tensor[rows if self.rows is None else self.rows[rows]]

    def to(self, device: torch.device | str) -> ItemStore:
        """Copy the items to another device."""
        if torch.device(device) == self.device:
            return self
        domains = None if self.domains is None else self.domains.to(device)
        tensor, labels = self.items.to(device), self.labels.to(device)
        return replace(self, tensor=tensor, labels=labels, domains=domains, rows=None)

    def subset(self, rows: Tensor) -> ItemStore:
        """Return a store of some rows, in this order, or of a mask, without copying items."""
        rows = (rows.nonzero().squeeze(1) if rows.dtype == torch.bool else rows).cpu()
        ids = None if self.ids is None else self.ids[rows.numpy()]
        domains = None if self.domains is None else self.domains[rows]
        labels, own = self.labels[rows], rows if self.rows is None else self.rows[rows]
        return replace(self, labels=labels, rows=own, ids=ids, domains=domains)

    def labeled(self) -> ItemStore:
        """Return the items with a known class; raise ``ValueError`` if there are none."""
        known = self.labels != UNLABELED
        if not known.any():
            raise ValueError(f"{self.name}: the {self.noun} have no labels")
        return self if known.all() else self.subset(known)


def copied_to(values: Tensor, device: torch.device) -> Tensor:
    """Copy values from the CPU to a device, through pinned memory for a GPU.

    The copy is asynchronous.
    """
    if device.type == "cuda" and torch.cuda.is_available():
        values = values.pin_memory()
    return values.to(device, non_blocking=True)


def labeled_store(
    tensor: Items,
    labels: NDArray[np.generic] | None,
    domains: NDArray[np.generic] | None,
    *,
    name: str,
    rows: Int[Tensor, " items"] | None = None,
    ids: NDArray[np.str_] | None = None,
    unknown: Sequence[str] = UNKNOWN_WORDS,
    **about: Any,
) -> ItemStore:
    """Create a store with numbered labels and domains; -1 if unknown."""
    count = len(tensor if rows is None else rows)
    numbers = []
    for what, given in (("labels", labels), ("domains", domains)):
        named = np.full(count, "") if given is None else np.asarray(given)
        if named.shape != (count,):
            raise ValueError(
                f"{name}: {what} must have one value per item, "
                f"got {count} items and {what} of shape {list(named.shape)}"
            )
        try:
            codes, names = numbered(named, ("", *unknown))
        except ValueError as error:
            raise ValueError(f"{name}: {what} {error}") from None
        numbers.append((torch.from_numpy(codes), names))
    (label_codes, class_names), (domain_codes, domain_names) = numbers
    return ItemStore(
        tensor,
        label_codes,
        class_names,
        name,
        rows,
        np.arange(count).astype(str) if ids is None else ids,
        domain_codes if domain_names else None,
        domain_names,
        **about,
    )
