"""A run's record of its interactions, with which it no longer needs the files.

``data.json`` describes the files that were read and where they were. ``interactions.npz`` holds the
ids and every interaction with its part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bayescl_lab.ranking.datasets import source_files
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.runs.fingerprints import changes, file_records
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.memory import Arrays, read_memory, write_memory
from bayescl_lab.runs.ranking.data import RankingData

FILE = "interactions.npz"
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class RankingMemory:
    """The interactions of a run by part, and their files.

    Attributes:
        train: training interactions.
        validation: interactions for choosing the epoch or settings; None if there are none.
        test: the test part.
        report: counts of what reading left out or merged.
        files: records of the files, from :func:`~bayescl_lab.runs.fingerprints.file_records`.
        judged: other interactions to evaluate on, of the same users and items; None for the run's
            own.
        folder: the folder of these files, if the data were a folder.
        columns: the table's guessed columns, by "user" and so on.
    """

    train: Interactions
    validation: Interactions | None
    test: Interactions | None
    report: Mapping[str, int] = field(default_factory=dict)
    files: tuple[Mapping[str, Any], ...] = ()
    judged: Interactions | None = None
    folder: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: RankingData, evaluate_on: str, *, watches: bool) -> RankingMemory:
        """Read a data set.

        Args:
            data: the data set and how to read it.
            evaluate_on: the part that the run is evaluated on.
            watches: whether a validation part is held out of training to choose the epoch.

        Raises:
            ValueError: if it cannot be read with these options.
        """
        files = tuple(file_records(source_files(data.data, data.test_data)))
        place = Path(data.data)
        folder = str(place.resolve()) if place.is_dir() and data.test_data is None else None
        parts = data.load(evaluate_on)
        train, validation = parts.train, None
        test: Interactions | None = parts.evaluation
        if evaluate_on == "validation":
            validation, test = parts.evaluation, parts.unseen
        elif watches:
            inner = data.load("validation")
            train, validation = inner.train, inner.evaluation
        columns = data.guessed_columns()
        return cls(train, validation, test, parts.report, files, folder=folder, columns=columns)

    def parts(self, evaluate_on: str) -> RankingParts:
        """The parts to evaluate on; lists leave out all interactions of earlier parts."""
        if evaluate_on == "validation":
            train, evaluation = self.train, self.validation
        else:
            train = self.train if self.validation is None else self.train.joined(self.validation)
            evaluation = self.test
        evaluation = self.judged or evaluation
        if evaluation is None:
            raise ValueError(f"the run has no {evaluate_on} part")
        return RankingParts(train, evaluation, evaluate_on, self.report)

    def known(self) -> Interactions:
        """Every interaction of every part."""
        others = [some for some in (self.validation, self.test) if some is not None]
        return self.train.joined(*others)

    def write(self, folder: RunFolder, data: RankingData) -> None:
        """Write both files to a run's folder, unless they exist."""
        if folder.data_file.is_file():
            return
        arrays = {
            "user_ids": _plain(self.train.user_ids),
            "item_ids": _plain(self.train.item_ids),
            "name": np.array(self.train.name),
        }
        if self.train.item_titles is not None:
            arrays["item_titles"] = _plain(self.train.item_titles)
        counts = {}
        for part in PARTS:
            some: Interactions | None = getattr(self, part)
            if some is not None:
                arrays[f"{part}_starts"] = some.matrix.indptr
                arrays[f"{part}_items"] = some.matrix.indices
                counts[part] = some.num_interactions
        record = {
            "data": data.data,
            "reading": asdict(data),
            "files": list(self.files),
            "folder": self.folder,
            "columns": dict(self.columns),
            "users": self.train.num_users,
            "items": self.train.num_items,
            "interactions": counts,
            "report": dict(self.report),
        }
        write_memory(folder, FILE, arrays, record)

    @classmethod
    def read(cls, folder: RunFolder) -> RankingMemory | None:
        """The record in a run's folder; None for a folder of format 1.

        Raises:
            ValueError: if a file is missing or damaged.
        """
        return read_memory(folder, FILE, cls._made)

    @classmethod
    def _made(cls, record: Mapping[str, Any], arrays: Arrays) -> RankingMemory:
        """Combine the contents of both files."""
        parts = {part: _part(arrays, part) for part in PARTS}
        train = parts["train"]
        if train is None:
            raise KeyError("train")
        return cls(
            train,
            parts["validation"],
            parts["test"],
            record["report"],
            tuple(record["files"]),
            folder=record.get("folder"),
            columns=record.get("columns", {}),
        )

    def refuse_changes(self) -> None:
        """Raise if the files differ from those that the run was trained on.

        If all files are gone, that is not a change: the run's folder holds their interactions.

        Raises:
            ValueError: if a file changed; the message says which one and how.
        """
        there = {Path(one["path"]) for one in self.files if Path(one["path"]).is_file()}
        if there and self.folder is not None:
            there |= {file.resolve() for file in source_files(self.folder)}
        if there and (found := changes(self.files, file_records(sorted(there)))):
            raise ValueError(
                f"{'; '.join(found)}: restore the data, or evaluate on other data with --data"
            )

    def rows_of(self, other: Interactions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of other interactions' users and items in this run, matched by id.

        Args:
            other: interactions of any users and items.

        Returns:
            A row for each user and for each item; -1 for those that the run does not know.
        """
        return (
            _places(other.user_ids, self.train.user_ids),
            _places(other.item_ids, self.train.item_ids),
        )

    def on(self, data: RankingData) -> RankingMemory:
        """The same run, to be evaluated on other interactions of the users and items it knows.

        Interactions that the run was trained on, or that chose its epoch, are left out, as are
        users and items that it does not know; the report counts them.

        Raises:
            ValueError: if the data cannot be read, or nothing is left to evaluate on.
        """
        parts = replace(data, split="none").load("test")
        other = parts.train
        users, items = other.pairs()
        of_users, of_items = self.rows_of(other)
        rows, columns = of_users[users], of_items[items]
        known = (rows >= 0) & (columns >= 0)
        found = Interactions.from_pairs(
            rows[known],
            columns[known],
            user_ids=self.train.user_ids,
            item_ids=self.train.item_ids,
            item_titles=self.train.item_titles,
            name=other.name,
        )
        seen = self.train if self.validation is None else self.train.joined(self.validation)
        flat = [one.pairs()[0] * one.num_items + one.pairs()[1] for one in (found, seen)]
        new = ~np.isin(flat[0], flat[1])
        if not new.any():
            raise ValueError(f"{data.data} has no interaction that the run was not trained on")
        report = {
            "interactions that the run was trained on left out": int((~new).sum()),
            "interactions of users or items that the run does not know left out": int(
                (~known).sum()
            ),
        }
        counted = {phrase: count for phrase, count in report.items() if count}
        return replace(self, judged=found.subset(new), report={**parts.report, **counted})


def _part(arrays: Mapping[str, NDArray[Any]], part: str) -> Interactions | None:
    """The interactions of one part; None if it is missing."""
    if f"{part}_starts" not in arrays:
        return None
    starts, items = arrays[f"{part}_starts"], arrays[f"{part}_items"]
    shape = (len(arrays["user_ids"]), len(arrays["item_ids"]))
    return Interactions(
        csr_array((np.ones(len(items), dtype=np.float32), items, starts), shape=shape),
        user_ids=arrays["user_ids"],
        item_ids=arrays["item_ids"],
        item_titles=arrays.get("item_titles"),
        name=str(arrays["name"]),
    )


def _places(ids: NDArray[Any], known: NDArray[Any]) -> NDArray[np.int64]:
    """The position of each id among known ones; -1 if it is unknown."""
    place = {str(one): number for number, one in enumerate(known.tolist())}
    return np.array([place.get(str(one), -1) for one in ids.tolist()], dtype=np.int64)


def _plain(ids: NDArray[Any]) -> NDArray[Any]:
    """Ids as an array that NumPy can write without pickling."""
    return ids.astype(str) if ids.dtype == object else ids
