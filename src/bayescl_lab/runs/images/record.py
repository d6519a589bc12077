"""A run's record of its images, to detect changes.

``data.json`` has the location, the classes and the preparation of the images. ``images.npz`` has
the id, class, part and checksum of every image.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl_lab._files import write_atomically
from bayescl_lab.images.datasets import ImageParts, known_data_sets
from bayescl_lab.images.store import UNLABELLED, ImageStore
from bayescl_lab.runs.folder import RunFolder, read_json, write_json
from bayescl_lab.runs.record import Arrays, read_record, write_record

FILE = "images.npz"
CHECKED = 5000
"""Number of images with a checksum. In larger data sets they are evenly spaced."""
_ROWS_AT_ONCE = 256  # images that are read together
COPIES = "copies.csv"
_COLUMNS = ("ids", "parts", "labels", "checksums")


@dataclass(frozen=True)
class ImageRecord:
    """The images of a run.

    Attributes:
        data: Location of the images: the name of a data set, or an absolute path.
        preparation: Preparation of images for the encoder.
        class_names: One name per class.
        arrays: ``ids``, ``parts`` (0 for training, 1 for evaluation), ``labels`` and ``checksums``
            of the images. A checksum is -1 if an image is not checked.
    """

    data: str
    preparation: Mapping[str, Any]
    class_names: tuple[str, ...]
    arrays: Arrays

    @classmethod
    def of(cls, data: str, parts: ImageParts, preparation: Mapping[str, Any]) -> ImageRecord:
        """Return the record of the current images at ``data``, a name or path."""
        where = data if data in known_data_sets() else str(Path(data).resolve())
        stores = [store for store in (parts.train, parts.evaluation) if store is not None]
        sizes = [len(store) for store in stores]
        arrays: dict[str, NDArray[Any]] = {
            "ids": np.concatenate([image_ids(store) for store in stores]),
            "parts": np.repeat(np.arange(len(stores), dtype=np.int8), sizes),
            "labels": torch.cat([store.labels.cpu() for store in stores]).numpy(),
            "checksums": np.concatenate([_checksums(where, store) for store in stores]),
        }
        return cls(where, preparation, parts.train.class_names, arrays)

    def write(self, folder: RunFolder) -> None:
        """Write both files into a run's folder; if they exist, update the images' location."""
        if folder.data_file.is_file():
            before = read_json(folder.data_file)
            if before.get("data") != self.data:
                write_json(folder.data_file, {**before, "data": self.data})
            return
        about = {"class_names": list(self.class_names), "preparation": dict(self.preparation)}
        write_record(folder, FILE, self.arrays, {"data": self.data, **about})

    @classmethod
    def read(cls, folder: RunFolder) -> ImageRecord:
        """Return the record in a run's folder; raise ``ValueError`` if it is missing or damaged."""
        description, arrays = read_record(folder, FILE)
        try:
            names = tuple(map(str, description["class_names"]))
            arrays = {name: arrays[name] for name in _COLUMNS}
            return cls(description["data"], dict(description["preparation"]), names, arrays)
        except (KeyError, TypeError):
            raise ValueError(f"{folder.data_file} is damaged") from None

    def refuse_changes(self, now: ImageRecord) -> None:
        """Raise a ``ValueError`` if images were added, removed or changed; it says how many."""
        before, after = self._by_id(), now._by_id()
        counts = {
            "more": len(after.keys() - before.keys()),
            "fewer": len(before.keys() - after.keys()),
            "changed": sum(
                before[image][:2] != after[image][:2]  # in another part, or of another class
                or (-1 != before[image][2] != after[image][2] != -1)
                for image in before.keys() & after.keys()
            ),
        }
        changes = [f"{count} {what}" for what, count in counts.items() if count]
        if changes:
            raise ValueError(
                f"{Path(self.data).name}: images differ from those that the run was trained on: "
                f"{', '.join(changes)}: restore them, or evaluate on other data with --data"
            )

    def write_copies(self, folder: RunFolder) -> Iterator[str]:
        """Write which images have equal checksums to ``copies.csv``, and say how many.

        Args:
            folder: The run's folder.

        Returns:
            One line, or none if there are no copies.
        """
        ids, parts, checksums = (self.arrays[name] for name in ("ids", "parts", "checksums"))
        known = np.flatnonzero(checksums != -1)
        group, counts = np.unique(checksums[known], return_inverse=True, return_counts=True)[1:]
        is_copied = counts[group] > 1
        if not is_copied.any():
            return
        rows = sorted(zip(group[is_copied].tolist(), known[is_copied].tolist(), strict=True))
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(("group", "image", "part"))
        parts_of: dict[int, set[str]] = {}
        for number, image in rows:
            part = "evaluation" if parts[image] else "train"
            table.writerow((number, ids[image], part))
            parts_of.setdefault(number, set()).add(part)
        write_atomically(folder.path / COPIES, text.getvalue())
        again = len(rows) - len(parts_of)
        across = sum(len(found) > 1 for found in parts_of.values())
        checked = "" if len(known) == len(ids) else f" of {len(known):,} checked"
        line = f"{again} images{checked} are exact copies of others"
        if again == 1:
            line = f"1 image{checked} is an exact copy of another"
        both = f", {across} of them in both parts" * (across > 0)
        yield f"{line}{both}: {COPIES} in the run's folder lists them"

    def _by_id(self) -> dict[str, tuple[int, str, int]]:
        """Return part, class and checksum of every image."""
        names = dict(enumerate(self.class_names)) | {UNLABELLED: ""}
        ids, parts, labels, checksums = (self.arrays[name].tolist() for name in _COLUMNS)
        classes = [names[label] for label in labels]
        return dict(zip(ids, zip(parts, classes, checksums, strict=True), strict=True))


def image_ids(store: ImageStore) -> NDArray[Any]:
    """Return the id of every image: its file in the folder, or its number in the data set."""
    return np.arange(len(store)).astype(str) if store.ids is None else store.ids


def _checksums(data: str, store: ImageStore) -> NDArray[np.int64]:
    """Compute checksums of the images of one part."""
    checksums = np.full(len(store), -1, dtype=np.int64)
    if data in known_data_sets():  # published data sets have their own checksums
        return checksums
    folder, ids = Path(data), image_ids(store)
    rows = torch.arange(0, len(store), -(-len(store) // CHECKED))
    for some in rows.split(_ROWS_AT_ONCE):
        if folder.is_dir():
            contents = [(folder / ids[row]).read_bytes() for row in some]
        else:  # of a GPU, many images are read at once
            pixels = store.take(some.to(store.device)).cpu().numpy()
            contents = [image.tobytes() for image in pixels]
        checksums[some] = list(map(zlib.crc32, contents))
    return checksums
