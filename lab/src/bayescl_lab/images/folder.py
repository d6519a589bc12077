"""Images in a folder, decoded once."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from bayescl_lab._cores import usable_memory
from bayescl_lab._fields import listed
from bayescl_lab.images.decoding import common_shape, decode_into, image_suffixes, read_headers
from bayescl_lab.images.pixels import Pixels
from bayescl_lab.images.table import ImageTable
from bayescl_lab.items.store import ItemStore, labeled_store

TRAIN_FOLDER = "train"
TEST_FOLDERS = ("test", "val", "validation", "valid")
"""Names of the test split. The first that exists is used."""

UNLABELED_FOLDER = "unlabeled"  # folder of images of unknown class, beside class folders


class ImageFile(NamedTuple):
    """Image file with the name of its class folder, if it has one. Names are valid text."""

    path: Path
    name: str  # relative to the folder of the data set
    is_test: bool
    folder: str


def load_folder(
    folder: Path,
    *,
    image_size: int | None = None,
    folders: str = "classes",
    table: ImageTable | None = None,
) -> tuple[ItemStore, Bool[Tensor, " images"], list[str]]:
    """Load the images of a folder; see :func:`find_images` for its structure.

    Files that are not readable images are left out and counted.

    Args:
        folder: Folder of the images.
        image_size: Side in pixels; see :func:`~bayescl_lab.images.decoding.common_shape`.
        folders: Meaning of the folders of images, "classes" or "domains".
        table: Labels and domains by file, instead of labels and domains by folder.

    Returns:
        All images, a mask of the test split, and a line for each kind of skipped or changed image.
    """
    has_labels = table is not None and "label" in table.columns
    files, others = find_images(folder, flat=has_labels)
    rows, remarks = ({}, []) if table is None else table.matched([file.name for file in files])
    if others:
        count = f"{len(others)} file{'s' * (len(others) > 1)} not read"
        remarks.append(f"{folder}: {count}: {_by_suffix(others)}")
    pixels, left_out, more = _decoded(files, image_size)
    readable = [number for number, file in enumerate(files) if file.name not in left_out]
    kept = [files[number] for number in readable]
    for is_test, part in ((False, "training"), (True, "test")):
        own = [file.name for file in files if file.is_test == is_test]
        if own and all(name in left_out for name in own):
            reason = f"{own[0]} ({left_out[own[0]]}), ..."
            raise ValueError(f"{folder}: no file of the {part} split is readable: {reason}")

    names = [file.folder for file in kept]
    known = dict.fromkeys(("label", "domain"), [""] * len(kept))
    known["label" if folders == "classes" else "domain"] = names
    for kind in known.keys() & (() if table is None else table.columns.keys()):
        known[kind] = [rows.get(file.name, {}).get(kind, "") for file in kept]
    labels = np.array(known["label"])
    store = labeled_store(
        pixels,
        np.where(labels == UNLABELED_FOLDER, "", labels),
        np.array(known["domain"]),
        name=_text(folder.resolve().name),
        rows=None if len(kept) == len(files) else torch.tensor(readable),
        ids=np.array([file.name for file in kept]),
        unknown=("",),
    )
    if left_out:
        named = listed([f"{folder / name} ({reason})" for name, reason in left_out.items()], 3)
        remarks.append(f"{folder}: {len(left_out)} of {len(files)} files left out: {named}")
    remarks += [f"{folder}: {line}" for line in more]
    return store, torch.tensor([file.is_test for file in kept]), remarks


def part_folders(folder: Path) -> list[Path]:
    """Return the folder of the training images and the folder of the test images, if any."""
    train = folder / TRAIN_FOLDER
    if not train.is_dir():
        return [folder]
    tests = (folder / name for name in TEST_FOLDERS)
    return [train, *(test for test in tests if test.is_dir())][:2]


def find_images(folder: Path, *, flat: bool = False) -> tuple[list[ImageFile], list[Path]]:
    """Find the image files of a folder and of its test split, if it has one.

    The folder has one subfolder of images per class, or images without subfolders, or a folder
    ``train`` and optionally ``test`` (or ``val``) with this structure. A folder ``unlabeled``
    beside class folders has images of unknown class. Hidden files are skipped. With ``flat``,
    images may be both in folders and beside them.

    Returns:
        The images, and other files. Images have the suffix of a format that Pillow opens.
    """
    files, others, known = [], [], image_suffixes()
    for number, part in enumerate(part_folders(folder)):
        paths = {}
        for path in _visible_files(part):
            if path.suffix.lower() in known:
                paths[path] = path.relative_to(part).parts
            else:
                others.append(path)
        ordered = sorted(paths, key=lambda path: (paths[path][0], str(path)))
        loose = [path.name for path in ordered if path.parent == part]
        if loose and len(loose) < len(paths) and not flat:
            first = next(paths[path][0] for path in ordered if path.parent != part)
            raise ValueError(
                f"{part} contains images both in class folders ({first}, ...) "
                f"and beside them ({loose[0]}, ...)"
            )
        if not paths:
            has = f", only {_by_suffix(others)}" if others else ""
            raise ValueError(f"{part} contains no images{has}")
        for path in ordered:
            name, first = path.relative_to(folder).as_posix(), [*paths[path][:-1], ""][0]
            files.append(ImageFile(path, _text(name), number == 1, _text(first)))
    return files, others


def _text(name: str) -> str:
    """Return a name in composed form (NFC), with escapes for bytes that are not UTF-8."""
    if name.isascii():
        return name
    escaped = os.fsencode(name).decode("utf-8", "backslashreplace")
    return unicodedata.normalize("NFC", escaped)


def _by_suffix(paths: Sequence[Path]) -> str:
    """Count files by their suffix, and name an example of the most frequent one."""
    counts = Counter(path.suffix.lower() for path in paths).most_common()
    example = next(path for path in paths if path.suffix.lower() == counts[0][0])
    shown = ", ".join(f"{suffix or 'no suffix'} ({count})" for suffix, count in counts[:8])
    return f"{shown}, such as {_text(example.parent.name)}/{_text(example.name)}"


def _visible_files(part: Path) -> Iterator[Path]:
    """Yield the files below a folder."""

    def refuse(error: OSError) -> None:  # instead of treating an unreadable subfolder as empty
        raise ValueError(f"cannot read {part}: {error.strerror or error}")

    for parent, folders, names in os.walk(part, onerror=refuse, followlinks=True):
        here = Path(parent)
        # Class folders may be links. Links inside them may form cycles, and are skipped.
        below = (here / name for name in folders if _is_visible(name))
        folders[:] = [it.name for it in below if here == part or not it.is_symlink()]
        paths = (here / name for name in names if _is_visible(name))
        yield from (path for path in paths if path.is_file())


def _is_visible(name: str) -> bool:
    """Return whether a file or folder is visible. Files like ``._x.jpg`` are not."""
    return not name.startswith((".", "__MACOSX"))


def _decoded(
    files: Sequence[ImageFile], image_size: int | None
) -> tuple[Pixels, dict[str, str], list[str]]:
    """Decode all files.

    Returns:
        Pixels, with undefined rows for unreadable files; the reasons for these, by name; and
        remarks.
    """
    paths = [file.path for file in files]
    headers = read_headers(paths)
    channels, height, width = common_shape(list(headers.values()), image_size)
    size = len(files) * channels * height * width
    if size > usable_memory():
        raise ValueError(
            f"the images need {size / 1e9:.1f} GB, more than the available memory: pass a smaller "
            "--image-size"
        )
    pixels = np.empty((len(files), channels, height, width), np.uint8)
    reasons = decode_into(pixels, paths)
    left_out = {file.name: reasons[file.path] for file in files if file.path in reasons}
    remarks = []
    resized = sum((it.width, it.height) != (width, height) for it in headers.values())
    if resized and image_size is None:
        images = f"{len(files) - len(left_out)} images"
        remarks.append(f"{resized} of {images} scaled and cropped to {width} x {height} pixels")
    pages = {file.name: headers[file.path].pages for file in files if file.path in headers}
    if several := [f"{name} ({count} pages)" for name, count in pages.items() if count > 1]:
        remarks.append(f"only the first page of {len(several)} files is read: {listed(several, 3)}")
    if clear := sum(header.has_alpha for header in headers.values()):
        remarks.append(f"the transparency of {clear} images is dropped")
    return torch.from_numpy(pixels), left_out, remarks
