"""A run's record of its images, to detect changes.

``data.json`` has the location, the classes and the preparation of the images. ``images.npz`` has
the id, class, part and checksum of every image.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from bayescl_lab._files import write_atomically
from bayescl_lab._types import AnyArray, Values
from bayescl_lab.images.datasets import known_data_sets
from bayescl_lab.items.parts import Parts
from bayescl_lab.items.store import ItemStore
from bayescl_lab.runs.folder import RunFolder, read_json, write_json
from bayescl_lab.runs.record import Arrays, read_record, without_formulas, write_record

FILE = "images.npz"
COPIES = "copies.csv"
_ROWS_AT_ONCE = 256  # images that are read together
_COLUMNS = ("ids", "parts", "labels", "checksums")


@dataclass(frozen=True)
class ImageRecord:
    """The images of a run.

    Attributes:
        data: Location of the images: the name of a data set, or an absolute path.
        preparation: Preparation of images for the encoder.
        class_names: One name per class.
        arrays: ``ids``, ``parts`` (0 for training, 1 for evaluation), ``labels`` and ``checksums``
            of the images. Checksums of the pixels are -1 for published images.
    """

    data: str
    preparation: Values
    class_names: tuple[str, ...]
    arrays: Arrays

    @classmethod
    def of(cls, data: str, parts: Parts, preparation: Values) -> ImageRecord:
        """Return the record of the current images at ``data``, a name or path."""
        where = data if data in known_data_sets() else str(Path(data).resolve())
        stores = [store for store in (parts.train, parts.evaluation) if store is not None]
        sizes = [len(store) for store in stores]
        arrays: dict[str, AnyArray] = {
            "ids": np.concatenate([image_ids(store) for store in stores]),
            "parts": np.repeat(np.arange(len(stores), dtype=np.int8), sizes),
            "labels": torch.cat([store.labels.cpu() for store in stores]).numpy(),
            "checksums": np.concatenate([_checksums(where, store) for store in stores]),
        }
        return cls(where, preparation, parts.train.class_names, arrays)

    def write(self, folder: RunFolder) -> None:
        """Write both files into a run's folder; if they exist, update the images' location."""
        if folder.data_file.is_file():
            before = read_json(folder.data_file, folder.identity)
            if before["data"] != self.data:
                write_json(folder.data_file, {**before, "data": self.data}, folder.identity)
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
        """Raise ``ValueError`` with counts if images were added, removed or changed."""
        before, after = self.arrays["ids"], now.arrays["ids"]
        _, old, new = np.intersect1d(before, after, return_indices=True)
        pairs = zip(self._compared(), now._compared(), strict=True)
        is_changed = np.any([one[old] != other[new] for one, other in pairs], axis=0)
        counts = {
            "more": len(after) - len(new),
            "fewer": len(before) - len(old),
            "changed": int(is_changed.sum()),
        }
        changes = [f"{count} {what}" for what, count in counts.items() if count]
        if changes:
            raise ValueError(
                f"{Path(self.data).name}: images differ from those that the run was trained on: "
                f"{', '.join(changes)}: restore them, or evaluate on other data with --data"
            )

    def _compared(self) -> tuple[AnyArray, ...]:
        """Return part, class and checksum of every image."""
        classes = np.array([*self.class_names, ""])[self.arrays["labels"]]
        return self.arrays["parts"], classes, self.arrays["checksums"]

    def write_copies(self, folder: RunFolder) -> Iterator[str]:
        """Write which images have equal checksums to ``copies.csv``, and say how many.

        Args:
            folder: The run's folder.

        Returns:
            One line, or none if there are no copies.
        """
        ids, parts, checksums = (self.arrays[name] for name in ("ids", "parts", "checksums"))
        _, groups, counts = np.unique(checksums, return_inverse=True, return_counts=True)
        rows = np.flatnonzero((checksums >= 0) & (counts[groups] > 1))
        if len(rows) == 0:
            return
        rows = rows[np.argsort(groups[rows], kind="stable")]
        names = np.array(["train", "evaluation"])[parts[rows]]
        table = pl.DataFrame({"group": checksums[rows], "image": ids[rows], "part": names})
        write_atomically(folder.path / COPIES, without_formulas(table).write_csv())
        pairs = {*zip(groups[rows].tolist(), parts[rows].tolist(), strict=True)}
        distinct = len({group for group, _ in pairs})
        again, across = len(rows) - distinct, len(pairs) - distinct
        line = f"{again} images are exact copies of others"
        if again == 1:
            line = "1 image is an exact copy of another"
        both = f", {across} of them in both parts" * (across > 0)
        yield f"{line}{both}: {COPIES} in the run's folder lists them"


def image_ids(store: ItemStore) -> AnyArray:
    """Return the id of every image: its file in the folder, or its number in the data set."""
    return np.arange(len(store)).astype(str) if store.ids is None else store.ids


def _checksums(data: str, store: ItemStore) -> NDArray[np.int64]:
    """Compute checksums of the pixels of one part; -1 for published images, which were verified."""
    if data in known_data_sets():
        return np.full(len(store), -1, dtype=np.int64)
    chunks = torch.arange(len(store), device=store.device).split(_ROWS_AT_ONCE)
    pixels = (image for rows in chunks for image in store.take(rows).cpu().numpy())
    return np.fromiter(map(zlib.crc32, pixels), dtype=np.int64, count=len(store))
