"""A run's record of its images, to detect changes.

``data.json`` says where the images were, their classes and how they are prepared. ``images.npz``
holds the id of every image, with its class, its part and a checksum.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl_lab.images.datasets import ImageParts, known_data_sets
from bayescl_lab.images.store import UNLABELLED, ImageStore
from bayescl_lab.runs.folder import RunFolder, read_json
from bayescl_lab.runs.record import read_record, write_record

FILE = "images.npz"
PARTS = ("train", "evaluation")
CHECKED = 5000
"""Number of images whose content is checked; in larger sets, this many at equal distances."""


@dataclass(frozen=True)
class ImageRecord:
    """The images of a run by part.

    Attributes:
        data: where the images are: a known name, or an absolute path.
        preparation: how images are prepared for the encoder.
        class_names: one name per class.
        images: arrays ``ids``, ``labels`` and ``checksums`` of each part; -1 if not checked.
    """

    data: str
    preparation: Mapping[str, Any]
    class_names: tuple[str, ...]
    images: Mapping[str, Mapping[str, NDArray[Any]]]

    @classmethod
    def of(cls, data: str, parts: ImageParts, preparation: Mapping[str, Any]) -> ImageRecord:
        """The record of the current images, of the name or path ``data``."""
        where = data if data in known_data_sets() else str(Path(data).resolve())
        stores = {"train": parts.train, "evaluation": parts.evaluation}
        images = {part: _described(where, store) for part, store in stores.items() if store}
        return cls(where, preparation, parts.train.class_names, images)

    def write(self, folder: RunFolder) -> None:
        """Write both files into a run's folder; if they exist, update the images' location."""
        if folder.data_file.is_file():
            before = read_json(folder.data_file)
            if before.get("data") != self.data:
                folder.write_result({**before, "data": self.data}, name=folder.data_file.name)
            return
        arrays = {
            f"{part}_{name}": values
            for part, described in self.images.items()
            for name, values in described.items()
        }
        description = {
            "data": self.data,
            "images": {part: len(described["ids"]) for part, described in self.images.items()},
            "class_names": list(self.class_names),
            "preparation": dict(self.preparation),
        }
        write_record(folder, FILE, arrays, description)

    @classmethod
    def read(cls, folder: RunFolder) -> ImageRecord:
        """The record in a run's folder; a ``ValueError`` if it is missing or damaged."""
        description, arrays = read_record(folder, FILE)
        try:
            images = {
                part: {name: arrays[f"{part}_{name}"] for name in ("ids", "labels", "checksums")}
                for part in PARTS
                if f"{part}_ids" in arrays
            }
            names = tuple(map(str, description["class_names"]))
            return cls(description["data"], dict(description["preparation"]), names, images)
        except (KeyError, TypeError):
            raise ValueError(f"{folder.data_file} is damaged") from None

    def refuse_absence(self) -> None:
        """Raise a ``ValueError`` if the images are no longer where they were."""
        if self.data not in known_data_sets() and not Path(self.data).exists():
            raise ValueError(
                f"the images of the run are missing from {self.data}: give their location with "
                "--data"
            )

    def refuse_changes(self, now: ImageRecord) -> None:
        """Raise a ``ValueError`` if images were added, removed or changed; it says how many."""
        before, after = self._by_id(), now._by_id()
        both = before.keys() & after.keys()
        counts = {
            "more": len(after.keys() - before.keys()),
            "fewer": len(before.keys() - after.keys()),
            "changed": sum(
                before[image][2] != after[image][2]
                and -1 not in (before[image][2], after[image][2])
                for image in both
            ),
            "of another class": sum(before[image][1] != after[image][1] for image in both),
            "in another part": sum(before[image][0] != after[image][0] for image in both),
        }
        changes = [f"{count} {what}" for what, count in counts.items() if count]
        if changes:
            raise ValueError(
                f"{Path(self.data).name}: images differ from those that the run was trained on: "
                f"{', '.join(changes)}: restore them, or evaluate on other data with --data"
            )

    def _by_id(self) -> dict[str, tuple[str, str, int]]:
        """Part, class and checksum of every image."""
        by_id = {}
        for part, described in self.images.items():
            columns = (described[name].tolist() for name in ("ids", "labels", "checksums"))
            for image, label, checksum in zip(*columns, strict=True):
                class_name = "" if label == UNLABELLED else self.class_names[label]
                by_id[str(image)] = (part, class_name, checksum)
        return by_id


def image_ids(store: ImageStore) -> NDArray[Any]:
    """The id of every image: its file in the folder, or its number in the data set."""
    return np.arange(len(store)).astype(str) if store.ids is None else store.ids


def _described(data: str, store: ImageStore) -> dict[str, NDArray[Any]]:
    """Ids, labels and checksums of the images of one part."""
    ids = image_ids(store)
    checksums = np.full(len(store), -1, dtype=np.int64)
    if data not in known_data_sets():  # published data sets have their own checksums
        folder = Path(data)
        for row in range(0, len(store), -(-len(store) // CHECKED)):
            if folder.is_dir():
                content = (folder / ids[row]).read_bytes()
            else:
                content = (
                    store.take(torch.tensor([row], device=store.device)).cpu().numpy().tobytes()
                )
            checksums[row] = zlib.crc32(content)
    return {"ids": ids, "labels": store.labels.cpu().numpy(), "checksums": checksums}
