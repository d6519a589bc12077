"""Data sets by name, with training and evaluation images."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

from bayescl_lab._arrays import array_names, read_array
from bayescl_lab.images.catalog import DIGITS
from bayescl_lab.images.folder import load_folder
from bayescl_lab.images.published import READERS, load_published
from bayescl_lab.images.store import UNLABELLED, ImageStore, store_from_arrays
from bayescl_lab.images.subsets import (
    SEED,
    balanced_rows,
    chosen_classes,
    only_classes,
    stratified_split,
)

TRAIN_SHARE = 0.7  # of each class, where images are split; the others are evaluated on


@dataclass(frozen=True)
class ImageParts:
    """Training and evaluation images, without overlap.

    Labels of training images serve only the probes, and may be unknown for some or all.
    """

    train: ImageStore
    evaluation: ImageStore | None  # None if no image has a label
    remarks: tuple[str, ...] = ()  # one line for each kind of file left out of the data set

    @property
    def has_labels(self) -> bool:
        """Whether probes have labels to learn from and to be scored on."""
        return self.evaluation is not None

    def labelled(self) -> tuple[ImageStore, ImageStore]:
        """Both parts without the images of unknown class; a ``ValueError`` if none has a label."""
        if self.evaluation is None:
            raise ValueError(f"{self.train.name}: the images have no labels to evaluate with")
        return self.train.labelled(), self.evaluation.labelled()

    def to(self, device: torch.device | str) -> ImageParts:
        """The same parts on another device."""
        evaluation = None if self.evaluation is None else self.evaluation.to(device)
        return replace(self, train=self.train.to(device), evaluation=evaluation)


def load_images(
    data: str,
    *,
    evaluate_on: str = "test",
    classes: int | str | Sequence[str] | None = None,
    max_train_images: int | None = None,
    max_evaluation_images: int | None = None,
    image_size: int | None = None,
    loader: str = "auto",
    loader_workers: int | None = None,
) -> ImageParts:
    """Load a data set as training and evaluation images; the same arguments choose the same ones.

    Use ``evaluate_on="validation"`` to choose settings: it evaluates on a stratified part that is
    held out of the training images, and the test images stay unseen. Images without a label are
    used only for training. What the caller should know of a folder before training on it, such as
    files that cannot be read, is logged as a warning, once in a process.

    Args:
        data: a known name (see :func:`known_data_sets`); or a folder of images, see
            :func:`~bayescl_lab.images.folder.find_parts` for its form; or the path of an ``.npz``
            file that holds ``images``, ``labels`` and, to mark a test part, ``is_train`` (boolean),
            and perhaps ``domains``, one whole number per image.
            Without a test part, 30 % of each class become the test part.
        evaluate_on: "test" or "validation".
        classes: names of the classes to keep, or how many to draw. Labels are renumbered, and
            images without a label are left out. Default: all classes.
        max_train_images: train on at most this many images, equally many of each class; default:
            all.
        max_evaluation_images: evaluate on at most this many images, likewise; default: all.
        image_size: side in pixels to which every image is scaled and cropped. Default: the images'
            own size, or if a folder holds several sizes, see
            :func:`~bayescl_lab.images.decoding.common_format`.
        loader: how a folder is read, see :func:`~bayescl_lab.images.folder.load_folder`.
        loader_workers: processes that decode streamed images.

    Example:
        >>> parts = load_images("digits")
        >>> len(parts.train), len(parts.evaluation), parts.train.image_shape
        (1258, 539, (1, 8, 8))
        >>> load_images("digits", classes="3,8", max_train_images=100).train.labels.bincount()
        tensor([50, 50])
    """
    stores, remarks = _load(data, image_size, loader, loader_workers)
    for remark in remarks:
        _announce(remark)
    if classes is not None:
        class_names = stores[0].class_names
        if not class_names:
            raise ValueError(f"{data}: classes cannot be chosen because the images have no labels")
        chosen = chosen_classes(class_names, classes)
        stores = [only_classes(store, chosen) for store in stores]
    if evaluate_on == "validation":
        stores = _split(stores[0])
    train, evaluation = stores[0], stores[1] if len(stores) == 2 else None
    if evaluation is not None and len(train.class_names) < 2:  # every probe would be right
        only = f"{data}: all labels are {train.class_names[0]!r}, and probes need two classes"
        raise ValueError(f"{only}: images without class folders are only trained on")
    if max_train_images is not None:
        train = train.subset(balanced_rows(train.labels, max_train_images, seed=SEED))
        if evaluation is not None and (train.labels == UNLABELLED).all():
            raise ValueError(
                f"max_train_images must leave a labelled image, got {max_train_images}"
            )
    if max_evaluation_images is not None and evaluation is not None:
        rows = balanced_rows(evaluation.labels, max_evaluation_images, seed=SEED)
        evaluation = evaluation.subset(rows)
    if image_size is not None:
        train = train.resized(image_size)
        evaluation = None if evaluation is None else evaluation.resized(image_size)
    return ImageParts(train, evaluation, remarks)


def _load(
    data: str, image_size: int | None, loader: str, workers: int | None
) -> tuple[Sequence[ImageStore], tuple[str, ...]]:
    """Training images, test images if there are labels, and what was left out."""
    folder = Path(data)
    if loader == "stream" and not folder.is_dir():
        raise ValueError(f"loader stream is for folders of images, got {data}")
    if data == DIGITS.name:
        return _digits(), ()
    if data in READERS:
        return load_published(data), ()
    if data.endswith(".npz"):
        return _npz(folder), ()
    if not folder.is_dir():
        raise ValueError(
            f"no data set is called {data!r}; known are {', '.join(known_data_sets())}, "
            "or give a folder of images or the path of an .npz file"
        )
    train, test, remarks = load_folder(
        folder, image_size=image_size, loader=loader, workers=workers
    )
    if not train.class_names:
        return [train], (*remarks, f"{data}: the images have no labels: they are only trained on")
    return _split(train) if test is None else (train, test), remarks


@cache
def _announce(remark: str) -> None:
    """Log a remark, once however often the images are loaded."""
    logging.getLogger(__name__).warning("%s", remark)


def known_data_sets() -> tuple[str, ...]:
    """Names that :func:`load_images` knows."""
    return (DIGITS.name, *READERS)


def _digits() -> tuple[ImageStore, ImageStore]:
    """Scans of handwritten digits, 8 by 8 pixels of 17 grey values, from scikit-learn."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return _split(store_from_arrays(bunch.images / 16, bunch.target, name=DIGITS.name))


def _npz(path: Path) -> tuple[ImageStore, ImageStore]:
    """Arrays that a user saved with ``numpy.savez``; nothing in them is unpickled."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    dimensions = {"images": (3, 4), "labels": (1,), "is_train": (1,), "domains": (1,)}
    names = array_names(path)
    if missing := {"images", "labels"}.difference(names):
        raise ValueError(f"{path} lacks the array {' and '.join(sorted(missing))}")
    given = {name: allowed for name, allowed in dimensions.items() if name in names}
    arrays = {name: read_array(path, name, dimensions=given[name]) for name in given}
    store = store_from_arrays(
        arrays["images"], arrays["labels"], domains=arrays.get("domains"), name=path.name
    )
    if "is_train" not in arrays:
        return _split(store)
    is_train = arrays["is_train"]
    if is_train.dtype != np.bool_ or len(is_train) != len(store):
        raise ValueError(
            f"{path}: is_train must hold one boolean per image, "
            f"got {is_train.dtype} of shape {list(is_train.shape)}"
        )
    if is_train.all() or not is_train.any():
        raise ValueError(f"{path}: is_train must leave images for both parts")
    mask = torch.from_numpy(is_train)
    return store.subset(mask), store.subset(~mask)


def _split(store: ImageStore) -> tuple[ImageStore, ImageStore]:
    """Split images in two, each class alike; those without a label stay in the first part."""
    labelled = (store.labels != UNLABELLED).nonzero().squeeze(1)
    if len(labelled) == 0:
        raise ValueError(f"{store.name}: a validation part needs labels, the images have none")
    train, evaluation = stratified_split(store.labels[labelled], share=TRAIN_SHARE, seed=SEED)
    if len(train) == 0 or len(evaluation) == 0:
        raise ValueError(f"{store.name}: {len(labelled)} images are too few to split")
    is_held_out = torch.zeros_like(store.labels, dtype=torch.bool)
    is_held_out[labelled[evaluation]] = True
    return store.subset(~is_held_out), store.subset(is_held_out)
