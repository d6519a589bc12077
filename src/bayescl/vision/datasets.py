"""Data sets by name: which images train, and which ones judge."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from bayescl._checks import check_choice
from bayescl.vision.splits import stratified_split
from bayescl.vision.store import ImageStore, store_from_arrays

TRAIN_SHARE = 0.7
VALIDATION_SHARE = 0.3
SPLIT_SEED = 0
"""Splits never depend on the seed of a run: every run of every loss sees the same ones."""

EVALUATION_PARTS = ("test", "validation")


@dataclass(frozen=True)
class ImageParts:
    """The images to train on and the images to judge by, without overlap.

    Attributes:
        train: images for contrastive training; their labels serve only the probes.
        evaluation: images that probes are scored on.
        evaluated_on: which part ``evaluation`` is, "test" or "validation".
    """

    train: ImageStore
    evaluation: ImageStore
    evaluated_on: str

    def to(self, device: torch.device | str) -> ImageParts:
        """The same parts on another device."""
        return ImageParts(self.train.to(device), self.evaluation.to(device), self.evaluated_on)


def load_images(data: str, *, evaluate_on: str = "test") -> ImageParts:
    """Load a data set and divide it into images to train on and images to judge by.

    Settings are chosen with ``evaluate_on="validation"``: a stratified carve-out of the
    training images then judges, training leaves it out, and the test images stay unseen.

    Args:
        data: a known name (see :func:`known_data_sets`), or the path of an ``.npz`` file that
            holds ``images`` and ``labels`` and, if some of them are the test part,
            ``is_train`` (boolean); without it 30 % of each class are.
        evaluate_on: "test" or "validation".

    Returns:
        Training and evaluation images; the split depends on the data set alone.

    Raises:
        ValueError: if the name is unknown, the file missing or damaged, or its values invalid.

    Example:
        >>> parts = load_images("digits")
        >>> len(parts.train), len(parts.evaluation), parts.train.image_shape
        (1258, 539, (1, 8, 8))
    """
    check_choice("evaluate_on", evaluate_on, EVALUATION_PARTS)
    if data in _LOADERS:
        train, test = _LOADERS[data]()
    elif data.endswith(".npz"):
        train, test = _npz(Path(data))
    else:
        known = ", ".join(known_data_sets())
        raise ValueError(
            f"no data set is called {data!r}; known are {known}, or give the path of an .npz file"
        )
    if evaluate_on == "test":
        return ImageParts(train, test, evaluate_on)
    rest, held_out = stratified_split(train.labels, share=1 - VALIDATION_SHARE, seed=SPLIT_SEED)
    if len(rest) == 0 or len(held_out) == 0:
        raise ValueError(f"{data}: {len(train)} training images are too few to hold any out")
    return ImageParts(train.subset(rest), train.subset(held_out), evaluate_on)


def known_data_sets() -> tuple[str, ...]:
    """Names that :func:`load_images` knows."""
    return tuple(_LOADERS)


def _digits() -> tuple[ImageStore, ImageStore]:
    """Scans of handwritten digits, 8 by 8 pixels of 17 grey values, from scikit-learn."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    store = store_from_arrays(bunch.images / 16, bunch.target, name="digits")
    return _split(store)


def _npz(path: Path) -> tuple[ImageStore, ImageStore]:
    """Arrays that a user saved with ``numpy.savez``; nothing in them is unpickled."""
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        # NumPy leaves a file that it opened by itself open when that is no archive.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"cannot read {path}: {error}") from None
    missing = {"images", "labels"} - arrays.keys()
    if missing:
        raise ValueError(f"{path} lacks the array {' and '.join(sorted(missing))}")
    store = store_from_arrays(arrays["images"], arrays["labels"], name=path.name)
    if "is_train" not in arrays:
        return _split(store)
    is_train = arrays["is_train"]
    if is_train.dtype != np.bool_ or is_train.shape != (len(store),):
        raise ValueError(
            f"{path}: is_train must hold one boolean per image, "
            f"got {is_train.dtype} of shape {list(is_train.shape)}"
        )
    if is_train.all() or not is_train.any():
        raise ValueError(f"{path}: is_train must leave images for both parts")
    mask = torch.from_numpy(is_train)
    return store.subset(mask.nonzero().squeeze(1)), store.subset((~mask).nonzero().squeeze(1))


def _split(store: ImageStore) -> tuple[ImageStore, ImageStore]:
    """Training and test part of images that came without a split."""
    train, test = stratified_split(store.labels, share=TRAIN_SHARE, seed=SPLIT_SEED)
    if len(train) == 0 or len(test) == 0:
        raise ValueError(f"{store.name}: {len(store)} images are too few to split")
    return store.subset(train), store.subset(test)


_LOADERS: dict[str, Callable[[], tuple[ImageStore, ImageStore]]] = {"digits": _digits}
