"""Data sets by name, with training and evaluation images."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from bayescl_lab._arrays import UNKNOWN_WORDS, array_names, read_array
from bayescl_lab.images.catalog import DIGITS
from bayescl_lab.images.folder import load_folder
from bayescl_lab.images.pixels import store_from_arrays
from bayescl_lab.images.published import READERS, load_published
from bayescl_lab.images.table import unknown_words
from bayescl_lab.items.store import UNLABELED, ItemStore, Parts
from bayescl_lab.items.subsets import (
    SEED,
    chosen_classes,
    only_classes,
    stratified_split,
)

TRAIN_SHARE = 0.7  # share of each class for training when images are split


def load_images(
    data: str,
    *,
    evaluate_on: str = "test",
    classes: str | None = None,
    max_train_images: int | None = None,
    labels_per_class: int | None = None,
    unknown: Sequence[str] = UNKNOWN_WORDS,
    **of_folder: Any,
) -> Parts:
    """Load a data set as training and evaluation images. The result is deterministic.

    Use ``evaluate_on="validation"`` to choose settings. The evaluation images are then a stratified
    part held out of the training images, and the test images are not used. Images without a label
    are used only for training. Problems of a folder, such as files that cannot be read, are logged
    as a warning, once per process.

    Args:
        data: Known name (see :func:`known_data_sets`), folder of images (see
            :func:`~bayescl_lab.images.folder.find_images`), or path of an ``.npz`` file. The file
            has ``images`` and optionally ``labels`` and ``domains``, one integer or word per image.
            For the layout of the images, see
            :func:`~bayescl_lab.items.store.store_from_arrays`; an array ``layout`` names it. A
            boolean ``is_train`` is False for test images. Without a test part, 30 % of the labeled
            images of each class become the test part.
        evaluate_on: Part to evaluate on, "test" or "validation".
        classes: Comma-separated names of classes. Labels are renumbered, and images without a label
            are left out. Default: all classes.
        max_train_images: Approximate number of training images, with the same share of each class.
            Default: all.
        labels_per_class: Smallest number of labeled images of each class that stay in the training
            part when a part is split off. Default: 0.
        unknown: Words in an ``.npz`` file that mean an unknown label or domain.
        **of_folder: Options of :func:`~bayescl_lab.images.folder.load_folder`.

    Raises:
        ValueError: if the data cannot be read or do not match the arguments.

    Example:
        >>> parts = load_images("digits")
        >>> len(parts.train), len(parts.evaluation), parts.train.item_shape
        (1258, 539, (1, 8, 8))
        >>> load_images("digits", classes="3,8", max_train_images=100).train.labels.bincount()
        tensor([51, 49])
    """
    keep = labels_per_class or 0
    stores, remarks = _load(data, keep, unknown, **of_folder)
    if classes is not None:
        class_names = stores[0].class_names
        if not class_names:
            raise ValueError(f"{data}: classes cannot be chosen because the images have no labels")
        chosen = chosen_classes(class_names, classes)
        stores = [only_classes(store, chosen) for store in stores]
    if evaluate_on == "validation":
        stores = _split(stores[0], keep)
    train, evaluation = stores[0], stores[1] if len(stores) == 2 else None
    if evaluation is None and train.class_names and keep <= len(train):
        remarks += (
            f"{data}: all labeled images are used for training, and none is left for evaluation",
        )
    if evaluation is not None and keep:
        left, held = (int((it.labels != UNLABELED).sum()) for it in (evaluation, train))
        if left < held / 4:  # without this option, three tenths are held out
            remarks += (
                f"{data}: labels_per_class {keep} leaves {left} labeled images for evaluation",
            )
    for remark in remarks:
        announce(remark)
    if evaluation is not None and (evaluation.labels == UNLABELED).all():
        raise ValueError(f"{data}: no image of the {evaluate_on} part has a label")
    if evaluation is not None and len(train.class_names) < 2:  # every probe would be right
        only = f"{data}: all labels are {train.class_names[0]!r}, and probes need two classes"
        raise ValueError(f"{only}: images without labels are used only for training")
    if max_train_images is not None:
        share = min(1.0, max_train_images / len(train))
        train = train.subset(stratified_split(train.labels, share=share, seed=SEED)[0])
        if evaluation is not None and (train.labels == UNLABELED).all():
            raise ValueError(f"max_train_images leaves no labeled image, got {max_train_images}")
    return Parts(train, evaluation, remarks)


def _load(
    data: str, keep: int, unknown: Sequence[str], **of_folder: Any
) -> tuple[Sequence[ItemStore], tuple[str, ...]]:
    """Load training images, test images if there are labels, and remarks."""
    folder = Path(data)
    if not folder.is_dir():
        for name, given in of_folder.items():
            if given not in (None, "classes"):
                option = "value-range" if name == "values" else name.replace("_", "-")
                raise ValueError(f"--{option} is for folders of images, got {data}")
    if data == DIGITS.name:
        return _digits(), ()
    if data in READERS:
        return load_published(data), ()
    remarks: list[str] = []
    if data.endswith(".npz"):
        store, is_test, remarks = _npz(folder, unknown)
    elif folder.is_dir():
        store, is_test, remarks = load_folder(folder, **of_folder)
    elif folder.is_file():
        raise ValueError(
            f"{data} must be a folder of images or an .npz file; give a table of labels with "
            "--table, and the folder of its images with --data"
        )
    else:
        raise ValueError(
            f"no data set is called {data!r}; known are {', '.join(known_data_sets())}, "
            "or give a folder of images or the path of an .npz file"
        )
    if store.class_names and is_test.any():
        only_tested = set(store.labels[is_test].tolist()) - set(store.labels[~is_test].tolist())
        if unknown := sorted(store.class_names[label] for label in only_tested - {UNLABELED}):
            listed = ", ".join(unknown[:5])
            raise ValueError(f"{data}: the training part has no images of {listed}")
    train = store.subset(~is_test) if is_test.any() else store
    remarks += _about(data, store, train)
    if not store.class_names:
        return [train], tuple(remarks)
    return [train, store.subset(is_test)] if is_test.any() else _split(store, keep), tuple(remarks)


def _about(data: str, store: ItemStore, train: ItemStore) -> Iterator[str]:
    """Describe the number of images without a label and of each domain."""
    if not store.class_names:
        yield f"{data}: the images have no labels: they are used only for training"
    elif unknown := int((train.labels == UNLABELED).sum()):
        every = len(train)
        yield f"{data}: {unknown} of {every} images have no label: they are used only for training"
    if store.domains is not None:
        none, *sizes = (store.domains + 1).bincount().tolist()
        named = [f"{it} ({n})" for it, n in zip(store.domain_names, sizes, strict=True)]
        listed = ", ".join(named[:8]) + ", ..." * (len(named) > 8)
        domains = f"{len(named)} domain{'s' * (len(named) > 1)}"
        yield f"{data}: {domains}: {listed}" + f"; {none} images have none" * (none > 0)


@cache
def announce(remark: str) -> None:
    """Log a remark once per process."""
    logging.getLogger(__name__).warning("%s", remark)


def known_data_sets() -> tuple[str, ...]:
    """Return the names that :func:`load_images` accepts."""
    return (DIGITS.name, *READERS)


def _digits() -> tuple[ItemStore, ...]:
    """Load scikit-learn's handwritten digits: 8 x 8 pixels with 17 gray values."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return _split(store_from_arrays(bunch.images / 16, bunch.target, name=DIGITS.name))


def _npz(
    path: Path, unknown: Sequence[str]
) -> tuple[ItemStore, Bool[Tensor, " images"], list[str]]:
    """Load arrays saved with ``numpy.savez``, a mask of the test part, and remarks."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    dimensions = {
        "images": (3, 4),
        "labels": (1,),
        "is_train": (1,),
        "domains": (1,),
        "layout": (0,),
    }
    names = array_names(path)
    if "images" not in names:
        raise ValueError(f"{path} lacks the array images")
    given = {name: allowed for name, allowed in dimensions.items() if name in names}
    arrays = {name: read_array(path, name, dimensions=given[name]) for name in given}
    is_train, layout = arrays.pop("is_train", None), arrays.pop("layout", None)
    store = store_from_arrays(
        **arrays,
        name=path.name,
        layout=None if layout is None else str(layout),
        unknown=unknown,
    )
    named = [arrays[name] for name in ("labels", "domains") if name in arrays]
    words = (array.astype(str) for array in named if array.dtype.kind in "US")
    counts = Counter(word for array in words for word in array[np.isin(array, unknown)].tolist())
    remarks = [f"{path}: {line}" for line in unknown_words(counts)]
    if is_train is None:
        return store, torch.zeros(len(store), dtype=torch.bool), remarks
    if is_train.dtype != np.bool_ or len(is_train) != len(store):
        raise ValueError(
            f"{path}: is_train must hold one boolean per image, "
            f"got {is_train.dtype} of shape {list(is_train.shape)}"
        )
    if is_train.all() or not is_train.any():
        raise ValueError(f"{path}: is_train must leave images for both parts")
    return store, ~torch.from_numpy(is_train), remarks


def _split(store: ItemStore, keep: int = 0) -> tuple[ItemStore, ...]:
    """Split every class in the same proportion. Images without a label stay in the first part.

    At least ``keep`` labeled images of each class also stay. There is no second part if no image is
    left for it.
    """
    labeled = (store.labels != UNLABELED).nonzero().squeeze(1)
    if len(labeled) == 0:
        raise ValueError(f"{store.name}: the images have no labels, which a validation part needs")
    labels = store.labels[labeled]
    train, evaluation = stratified_split(labels, share=TRAIN_SHARE, seed=SEED, least=keep)
    if keep and len(evaluation) == 0:
        return (store,)
    if len(train) == 0 or len(evaluation) == 0:
        count = f"{len(labeled)} labeled image{'s' * (len(labeled) > 1)}"
        raise ValueError(f"{store.name}: {count} cannot be split into two parts")
    is_held_out = torch.zeros_like(store.labels, dtype=torch.bool)
    is_held_out[labeled[evaluation]] = True
    return store.subset(~is_held_out), store.subset(is_held_out)
