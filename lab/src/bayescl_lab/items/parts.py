"""Training and evaluation items of a data set."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from bayescl_lab._fields import listed
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab._types import AnyArray
from bayescl_lab.items.store import UNLABELED, ItemStore
from bayescl_lab.items.subsets import SEED, chosen_classes, only_classes, stratified_split

TRAIN_SHARE = 0.7  # share of each class for training when items are split


@dataclass(frozen=True)
class Parts:
    """Training and evaluation items, without overlap.

    Probes, and training with labels, use training labels, some or all of which may be unknown.
    """

    train: ItemStore
    evaluation: ItemStore | None  # None if no item has a label
    remarks: tuple[str, ...] = ()  # one line for each kind of file left out of the data set

    @property
    def has_labels(self) -> bool:
        """Whether both parts have labels for probes."""
        return self.evaluation is not None

    def labeled(self) -> tuple[ItemStore, ItemStore]:
        """Return the labeled items of both parts; raise ``ValueError`` if there are none."""
        if self.evaluation is None:
            raise ValueError(
                f"{self.train.name}: the {self.train.noun} have no labels to evaluate with"
            )
        return self.train.labeled(), self.evaluation.labeled()

    def to(self, device: torch.device | str) -> Parts:
        """Copy both parts to another device."""
        evaluation = None if self.evaluation is None else self.evaluation.to(device)
        return replace(self, train=self.train.to(device), evaluation=evaluation)


def mask_of_test(store: ItemStore, is_train: AnyArray | None) -> Bool[Tensor, " items"]:
    """Return a mask of the test split, given the array ``is_train`` of a file.

    Without the array, no item is in the test split.
    """
    if is_train is None:
        return torch.zeros(len(store), dtype=torch.bool)
    if is_train.dtype != np.bool_ or len(is_train) != len(store):
        raise ValueError(
            f"{store.name}: is_train must have one boolean per item, "
            f"got {is_train.dtype} of shape {list(is_train.shape)}"
        )
    if is_train.all() or not is_train.any():
        raise ValueError(f"{store.name}: is_train must be true for some {store.noun}, not all")
    return ~torch.from_numpy(is_train)


def train_and_test(
    data: str,
    store: ItemStore,
    is_test: Tensor,
    keep: int,
    remarks: Sequence[str],
    *,
    split: bool = True,
) -> tuple[Sequence[ItemStore], tuple[str, ...]]:
    """Split items into training and test items, and describe them.

    Without test items, some items of each class are held out; see :func:`split_labeled`.
    Only the training store is returned if there are no labels, or if there is no test split and
    ``split`` is False.
    """
    remarks = [*remarks]
    if store.class_names and is_test.any():
        only_tested = set(store.labels[is_test].tolist()) - set(store.labels[~is_test].tolist())
        if unknown := sorted(store.class_names[label] for label in only_tested - {UNLABELED}):
            raise ValueError(f"{data}: the training split has no {store.noun} of {listed(unknown)}")
    train = store.subset(~is_test) if is_test.any() else store
    remarks += _about(data, store, train)
    if not store.class_names or not (is_test.any() or split):
        return [train], tuple(remarks)
    stores = [train, store.subset(is_test)] if is_test.any() else split_labeled(store, keep)
    return stores, tuple(remarks)


def left_out(store: ItemStore, count: int, fold: int) -> Bool[Tensor, " items"]:
    """Return a mask of the items of one fold of at most ``count`` domains.

    Consecutive folds have different domains, until each domain has been left out once.

    Raises:
        ValueError: if there are no domains, or not more than ``count`` of them.

    Example:
        >>> domains = torch.tensor([0, 0, 1, 2])
        >>> store = ItemStore(domains[:, None], domains, ("a", "b", "c"), domains=domains)
        >>> sum(left_out(store, 1, fold).long() for fold in range(3))
        tensor([1, 1, 1, 1])
    """
    domains = torch.empty(0) if store.domains is None else store.domains
    known = domains[domains >= 0].unique().tolist()
    if len(known) <= count:
        raise ValueError(
            f"{store.name}: leave_out must be below the number of domains, got {count} for "
            f"{len(known)} domains"
        )
    folds = -(-len(known) // count)
    generator = torch.Generator().manual_seed(derived_seed(SEED, Purpose.ORDER, fold // folds))
    order = torch.tensor(known)[torch.randperm(len(known), generator=generator)]
    left = order.tensor_split(folds)[fold % folds]
    return torch.isin(domains, left)


def parts_of(
    data: str,
    stores: Sequence[ItemStore],
    remarks: Sequence[str],
    *,
    evaluate_on: str = "test",
    classes: str | None = None,
    max_train_items: int | None = None,
    labels_per_class: int = 0,
) -> Parts:
    """Choose the items of a run among training and test items, and log the remarks.

    Args:
        data: Name of the data set, or path.
        stores: Training items and, if there are labels, test items.
        remarks: Remarks on the items.
        evaluate_on: Part to evaluate on, "test" or "validation".
        classes: Comma-separated names of classes. Default: all classes.
        max_train_items: Approximate number of training items. Default: all.
        labels_per_class: Smallest number of labeled items of each class that stay in the training
            part.

    Raises:
        ValueError: if the items do not match the arguments.
    """
    keep, remarks = labels_per_class, tuple(remarks)
    if classes is not None:
        class_names = stores[0].class_names
        if not class_names:
            raise ValueError(
                f"{data}: classes cannot be chosen because the {stores[0].noun} have no labels"
            )
        chosen = chosen_classes(class_names, classes)
        stores = [only_classes(store, chosen) for store in stores]
    if evaluate_on == "validation":
        stores = split_labeled(stores[0], keep)
    train, evaluation = stores[0], stores[1] if len(stores) == 2 else None
    if evaluation is None and train.class_names and keep:
        every = f"all labeled {train.noun} are used for training"
        remarks += (f"{data}: {every}, and none is left for evaluation",)
    if evaluation is not None and keep:
        left, held = (int((it.labels != UNLABELED).sum()) for it in (evaluation, train))
        if left < held / 4:  # without this option, three tenths are held out
            few = f"{left} labeled {train.noun} for evaluation"
            remarks += (f"{data}: labels_per_class {keep} leaves {few}",)
    for remark in remarks:
        announce(remark)
    if evaluation is not None and (evaluation.labels == UNLABELED).all():
        raise ValueError(f"{data}: no item of the {evaluate_on} split has a label")
    if evaluation is not None and len(train.class_names) < 2:  # every probe would be right
        only = f"{data}: all labels are {train.class_names[0]!r}, and probes need two classes"
        raise ValueError(f"{only}: {train.noun} without labels are not a class")
    if max_train_items is not None:
        share = min(1.0, max_train_items / len(train))
        train = train.subset(stratified_split(train.labels, share=share, seed=SEED)[0])
        if evaluation is not None and (train.labels == UNLABELED).all():
            raise ValueError(
                f"max_train_{train.noun} leaves no labeled item, got {max_train_items}"
            )
    return Parts(train, evaluation, remarks)


def _about(data: str, store: ItemStore, train: ItemStore) -> Iterator[str]:
    """Describe the number of items without a label and of each domain."""
    if not store.class_names:
        yield f"{data}: the {store.noun} have no labels: they are used only for training"
    elif unknown := int((train.labels == UNLABELED).sum()):
        some = f"{unknown} of {len(train)} {store.noun} have no label"
        yield f"{data}: {some}: they are used only for training"
    if store.domains is not None:
        counts = (store.domains + 1).bincount(minlength=len(store.domain_names) + 1)
        none, *sizes = counts.tolist()
        named = [f"{it} ({n})" for it, n in zip(store.domain_names, sizes, strict=True)]
        domains = f"{len(named)} domain{'s' * (len(named) > 1)}"
        yield f"{data}: {domains}: {listed(named)}" + f"; {none} {store.noun} have none" * (
            none > 0
        )


def split_labeled(store: ItemStore, keep: int = 0) -> tuple[ItemStore, ...]:
    """Split every class in the same proportion. Items without a label stay in the first part.

    At least ``keep`` labeled items of each class also stay. There is no second part if no item is
    left for it.
    """
    labeled = (store.labels != UNLABELED).nonzero().squeeze(1)
    if len(labeled) == 0:
        raise ValueError(
            f"{store.name}: the {store.noun} have no labels, which a validation split needs"
        )
    labels = store.labels[labeled]
    train, evaluation = stratified_split(labels, share=TRAIN_SHARE, seed=SEED, least=keep)
    if keep and len(evaluation) == 0:
        return (store,)
    if len(train) == 0 or len(evaluation) == 0:
        count = f"{len(labeled)} labeled {store.noun[:-1]}{'s' * (len(labeled) > 1)}"
        raise ValueError(f"{store.name}: {count} cannot be split into two parts")
    is_held_out = torch.zeros_like(store.labels, dtype=torch.bool)
    is_held_out[labeled[evaluation]] = True
    return store.subset(~is_held_out), store.subset(is_held_out)


@cache
def announce(remark: str) -> None:
    """Log a remark once per process."""
    logging.getLogger(__name__).warning("%s", remark)
