"""Data sets by name, with training and evaluation images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from bayescl_lab._arrays import UNKNOWN_WORDS, about_unknown, array_names, read_array
from bayescl_lab.images.folder import load_folder
from bayescl_lab.images.pixels import store_from_arrays
from bayescl_lab.images.published import READERS, load_published
from bayescl_lab.items.parts import Parts, mask_of_test, parts_of, split_labeled, train_and_test
from bayescl_lab.items.store import ItemStore

DIGITS = "digits"
"""Name of the data set that comes with scikit-learn."""


def load_images(
    data: str,
    *,
    evaluate_on: str = "test",
    classes: str | None = None,
    max_train_images: int | None = None,
    labels_per_class: int | None = None,
    split: bool = True,
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
            :func:`~bayescl_lab.images.pixels.store_from_arrays`. A boolean ``is_train`` is False
            for test images. Without a test split, 30 % of the labeled images of each class become
            the test split.
        evaluate_on: Split to evaluate on, "test" or "validation".
        classes: Comma-separated names of classes. Labels are renumbered, and images without a label
            are left out. Default: all classes.
        max_train_images: Approximate number of training images, with the same share of each class.
            Default: all.
        labels_per_class: Smallest number of labeled images of each class that stay in the training
            split when a part is split off. Default: 0.
        split: Whether to split off a test split if the files have none.
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
    stores, remarks = _load(data, keep, unknown, split=split, **of_folder)
    return parts_of(
        data,
        stores,
        remarks,
        evaluate_on=evaluate_on,
        classes=classes,
        max_train_items=max_train_images,
        labels_per_class=keep,
    )


def _load(
    data: str, keep: int, unknown: Sequence[str], *, split: bool, **of_folder: Any
) -> tuple[Sequence[ItemStore], tuple[str, ...]]:
    """Load training images, test images if there are labels, and remarks."""
    folder = Path(data)
    if not folder.is_dir():
        for name, given in of_folder.items():
            if given not in (None, "classes"):
                option = name.replace("_", "-")
                raise ValueError(f"--{option} is for folders of images, got {data}")
    if data == DIGITS:
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
            f"there is no data set {data!r}; choose {', '.join(known_data_sets())}, "
            "or give a folder of images or the path of an .npz file"
        )
    return train_and_test(data, store, is_test, keep, remarks, split=split)


def known_data_sets() -> tuple[str, ...]:
    """Return the names that :func:`load_images` accepts."""
    return (DIGITS, *READERS)


def _digits() -> tuple[ItemStore, ...]:
    """Load scikit-learn's handwritten digits: 8 x 8 pixels with 17 gray values."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return split_labeled(store_from_arrays(bunch.images / 16, bunch.target, name=DIGITS))


def _npz(
    path: Path, unknown: Sequence[str]
) -> tuple[ItemStore, Bool[Tensor, " images"], list[str]]:
    """Load arrays saved with ``numpy.savez``, a mask of the test split, and remarks."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    dimensions = {
        "images": (3, 4),
        "labels": (1,),
        "is_train": (1,),
        "domains": (1,),
    }
    names = array_names(path)
    if "images" not in names:
        raise ValueError(f"{path} has no array images")
    given = {name: allowed for name, allowed in dimensions.items() if name in names}
    arrays = {name: read_array(path, name, dimensions=given[name]) for name in given}
    is_train = arrays.pop("is_train", None)
    store = store_from_arrays(
        **arrays,
        name=path.name,
        unknown=unknown,
    )
    named = (arrays[name] for name in ("labels", "domains") if name in arrays)
    remarks = [f"{path}: {line}" for line in about_unknown(named, unknown)]
    return store, mask_of_test(store, is_train), remarks
