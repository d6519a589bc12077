"""A run's record of its items, to detect changes.

``data.json`` has the location, the classes and the shape of the items. ``items.npz`` has
the id, class, part and checksum of every item.
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
from bayescl_lab._types import AnyArray
from bayescl_lab.items.parts import Parts
from bayescl_lab.items.store import ItemStore
from bayescl_lab.runs.folder import RunFolder, read_json, write_json
from bayescl_lab.runs.record import Arrays, read_record, without_formulas, write_record

FILE = "items.npz"
COPIES = "copies.csv"
_ROWS_AT_ONCE = 256  # images that are read together
_COLUMNS = ("ids", "parts", "labels", "checksums")


@dataclass(frozen=True)
class ItemRecord:
    """The items of a run.

    Attributes:
        data: Location of the items: the name of a data set, or an absolute path.
        item_shape: Shape of an item.
        class_names: One name per class.
        arrays: ``ids``, ``parts`` (0 for training, 1 for evaluation), ``labels`` and ``checksums``
            of the items. Checksums are -1 for published data sets.
        noun: What the items are, in messages.
    """

    data: str
    item_shape: tuple[int, ...]
    class_names: tuple[str, ...]
    arrays: Arrays
    noun: str = "images"

    @classmethod
    def of(cls, data: str, parts: Parts, *, is_published: bool = False) -> ItemRecord:
        """Return the record of the current items at ``data``, a name or path."""
        where = data if is_published else str(Path(data).resolve())
        stores = [store for store in (parts.train, parts.evaluation) if store is not None]
        sizes = [len(store) for store in stores]
        arrays: dict[str, AnyArray] = {
            "ids": np.concatenate([item_ids(store) for store in stores]),
            "parts": np.repeat(np.arange(len(stores), dtype=np.int8), sizes),
            "labels": torch.cat([store.labels.cpu() for store in stores]).numpy(),
            "checksums": np.concatenate(
                [_checksums(store, is_published=is_published) for store in stores]
            ),
        }
        train = parts.train
        return cls(where, train.item_shape, train.class_names, arrays, train.noun)

    def write(self, folder: RunFolder) -> None:
        """Write both files into a run's folder; if they exist, update their location."""
        if folder.data_file.is_file():
            before = read_json(folder.data_file, folder.identity)
            if before["data"] != self.data:
                write_json(folder.data_file, {**before, "data": self.data}, folder.identity)
            return
        preparation = {"item_shape": list(self.item_shape)}
        about = {"class_names": list(self.class_names), "preparation": preparation}
        write_record(folder, FILE, self.arrays, {"data": self.data, **about})

    @classmethod
    def read(cls, folder: RunFolder) -> ItemRecord:
        """Return the record in a run's folder; raise ``ValueError`` if it is missing or damaged."""
        description, arrays = read_record(folder, FILE)
        try:
            names = tuple(map(str, description["class_names"]))
            arrays = {name: arrays[name] for name in _COLUMNS}
            shape = tuple(map(int, description["preparation"]["item_shape"]))
            return cls(description["data"], shape, names, arrays)
        except (KeyError, TypeError):
            raise ValueError(f"{folder.data_file} is damaged") from None

    def refuse_changes(self, now: ItemRecord) -> None:
        """Raise ``ValueError`` with counts if items were added, removed or changed."""
        before, after = self.arrays["ids"], now.arrays["ids"]
        _, old, new = np.intersect1d(before, after, return_indices=True)
        pairs = zip(self._compared(), now._compared(), strict=True)
        is_changed = np.any([one[old] != other[new] for one, other in pairs], axis=0)
        counts = {
            "added": len(after) - len(new),
            "removed": len(before) - len(old),
            "changed": int(is_changed.sum()),
        }
        changes = [f"{count} {what}" for what, count in counts.items() if count]
        if changes:
            raise ValueError(
                f"{Path(self.data).name}: {now.noun} changed since training: {', '.join(changes)}. "
                "Restore them, or evaluate on other data with --data"
            )

    def _compared(self) -> tuple[AnyArray, ...]:
        """Return part, class and checksum of every item."""
        classes = np.array([*self.class_names, ""])[self.arrays["labels"]]
        return self.arrays["parts"], classes, self.arrays["checksums"]

    def write_copies(self, folder: RunFolder) -> Iterator[str]:
        """List items with equal checksums in ``copies.csv``, and say how many.

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
        table = pl.DataFrame({"group": checksums[rows], self.noun[:-1]: ids[rows], "part": names})
        write_atomically(folder.path / COPIES, without_formulas(table).write_csv())
        pairs = {*zip(groups[rows].tolist(), parts[rows].tolist(), strict=True)}
        distinct = len({group for group, _ in pairs})
        again, across = len(rows) - distinct, len(pairs) - distinct
        line = f"{again} {self.noun} are exact copies of others"
        if again == 1:
            line = f"1 {self.noun[:-1]} is an exact copy of another"
        both = f", {across} of them in training and evaluation" * (across > 0)
        yield f"{line}{both}: {COPIES} in the run's folder lists them"


def item_ids(store: ItemStore) -> AnyArray:
    """Return the id of every item: its file in the folder, or its number in the data set."""
    return np.arange(len(store)).astype(str) if store.ids is None else store.ids


def _checksums(store: ItemStore, *, is_published: bool) -> NDArray[np.int64]:
    """Compute checksums of the items of a part; -1 for published ones, which were verified."""
    if is_published:
        return np.full(len(store), -1, dtype=np.int64)
    chunks = torch.arange(len(store), device=store.device).split(_ROWS_AT_ONCE)
    items = (item for rows in chunks for item in store.take(rows).cpu().numpy())
    return np.fromiter(map(zlib.crc32, items), dtype=np.int64, count=len(store))
