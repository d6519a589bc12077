"""A run's record of its interactions, with which it no longer needs the files.

``data.json`` describes the files that were read and where they were. ``interactions.npz`` holds the
ids and every interaction with its part. ``embeddings.npz`` holds the matrices of a finished
recommender.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bayescl_lab.ranking.datasets import source_files
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.scorers import EmbeddingScorer
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.ranking.data import RankingData
from bayescl_lab.runs.record import (
    changes,
    file_records,
    places,
    read_arrays,
    read_record,
    write_arrays,
    write_record,
)

FILE, EMBEDDINGS = "interactions.npz", "embeddings.npz"
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class RankingRecord:
    """The interactions of a run by part, and their files.

    Attributes:
        train: training interactions.
        validation: interactions for choosing the epoch or settings; None if there are none.
        test: the test part.
        report: counts of what reading left out or merged.
        files: records of the files, from :func:`~bayescl_lab.runs.record.file_records`.
        evaluation: other interactions to evaluate on; None for the run's own.
        folder: the folder of these files, if the data were a folder.
        columns: the table's guessed columns, by "user" and so on.
    """

    train: Interactions
    validation: Interactions | None
    test: Interactions | None
    report: Mapping[str, int] = field(default_factory=dict)
    files: tuple[Mapping[str, Any], ...] = ()
    evaluation: Interactions | None = None
    folder: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, data: RankingData, evaluate_on: str, *, watches: bool) -> RankingRecord:
        """Read a data set; a run that ``watches`` holds out a part that chooses its epoch."""
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
        validates = evaluate_on == "validation"
        train = self.train if validates else self._seen()
        evaluation = self.evaluation or (self.validation if validates else self.test)
        if evaluation is None:
            raise ValueError(f"the run has no {evaluate_on} part")
        return RankingParts(train, evaluation, evaluate_on, self.report)

    def _seen(self) -> Interactions:
        """The interactions that the run was trained on, or that chose its epoch."""
        return self.train if self.validation is None else self.train.joined(self.validation)

    def known(self) -> Interactions:
        """Every interaction of every part."""
        others = [part for part in (self.validation, self.test) if part is not None]
        return self.train.joined(*others)

    def write(self, folder: RunFolder, data: RankingData) -> None:
        """Write both files to a run's folder, unless they exist."""
        if folder.data_file.is_file():
            return
        train = self.train
        ids = {"user_ids": train.user_ids, "item_ids": train.item_ids}
        if train.item_titles is not None:
            ids["item_titles"] = train.item_titles
        # Text without a fixed width could only be written with pickling.
        arrays = {
            name: values.astype(str) if values.dtype == object else values
            for name, values in ids.items()
        }
        arrays["name"] = np.array(train.name)
        counts = {}
        for part in PARTS:
            interactions: Interactions | None = getattr(self, part)
            if interactions is not None:
                arrays[f"{part}_starts"] = interactions.matrix.indptr
                arrays[f"{part}_items"] = interactions.matrix.indices
                counts[part] = interactions.num_interactions
        description = {
            "data": data.data,
            "reading": asdict(data),
            "files": list(self.files),
            "folder": self.folder,
            "columns": dict(self.columns),
            "users": train.num_users,
            "items": train.num_items,
            "interactions": counts,
            "report": dict(self.report),
        }
        write_record(folder, FILE, arrays, description)

    @classmethod
    def read(cls, folder: RunFolder) -> RankingRecord:
        """The record in a run's folder; a ``ValueError`` if it is missing or damaged."""
        description, arrays = read_record(folder, FILE)
        try:
            train, validation, test = (_part(arrays, part) for part in PARTS)
            if train is None:
                raise KeyError("train")
            return cls(
                train,
                validation,
                test,
                description["report"],
                tuple(description["files"]),
                folder=description["folder"],
                columns=description["columns"],
            )
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{folder.data_file} is damaged") from None

    def refuse_changes(self) -> None:
        """Raise a ``ValueError`` if the files differ from those that the run was trained on.

        If all files are gone, that is not a change: the run's folder holds their interactions.
        """
        recorded = [Path(record["path"]) for record in self.files]
        files = {file for file in recorded if file.is_file()}
        if files and self.folder is not None:
            files |= {file.resolve() for file in source_files(self.folder)}
        if files and (changed := changes(self.files, file_records(sorted(files)))):
            raise ValueError(
                f"{'; '.join(changed)}: restore the data, or evaluate on other data with --data"
            )

    def rows_of(self, other: Interactions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows of other interactions' users and items in this run, matched by id; -1 if unknown."""
        return (
            places(other.user_ids.tolist(), self.train.user_ids),
            places(other.item_ids.tolist(), self.train.item_ids),
        )

    def on(self, data: str, config: Mapping[str, Any]) -> RankingRecord:
        """The same run, to be evaluated on other interactions of the users and items it knows.

        Interactions that the run was trained on, or that chose its epoch, are left out, as are
        users and items that it does not know; the report counts them. The run's settings say how to
        read the other data.

        Raises:
            ValueError: if the data cannot be read, or nothing is left to evaluate on.
        """
        reading = RankingData.taken_from(dict(config))
        parts = replace(reading, data=data, test_data=None, split="none").load("test")
        users, items = parts.train.pairs()
        of_users, of_items = self.rows_of(parts.train)
        rows, columns = of_users[users], of_items[items]
        known = (rows >= 0) & (columns >= 0)
        other = Interactions.from_pairs(
            rows[known],
            columns[known],
            user_ids=self.train.user_ids,
            item_ids=self.train.item_ids,
            item_titles=self.train.item_titles,
            name=parts.train.name,
        )
        pairs, seen = (
            part.pairs()[0] * part.num_items + part.pairs()[1] for part in (other, self._seen())
        )
        new = ~np.isin(pairs, seen)
        if not new.any():
            raise ValueError(f"{data} has no interaction that the run was not trained on")
        left_out = {
            "that the run was trained on": ~new,
            "of users or items that the run does not know": ~known,
        }
        counted = {
            f"interactions {which} left out": int(rows.sum())
            for which, rows in left_out.items()
            if rows.any()
        }
        return replace(self, evaluation=other.subset(new), report={**parts.report, **counted})


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


def write_embeddings(folder: RunFolder, scorer: EmbeddingScorer, epochs: int) -> None:
    """Write the matrices of users and items, scaled so that products of rows are scores."""
    arrays = {"users": scorer.users.cpu().numpy(), "items": scorer.items.cpu().numpy()}
    write_arrays(folder.path / EMBEDDINGS, {**arrays, "epochs": np.array(epochs)})


def read_embeddings(folder: RunFolder) -> tuple[EmbeddingScorer, int]:
    """Read the scorer of a finished run, and the epochs its weights saw."""
    path = folder.path / EMBEDDINGS
    arrays = read_arrays(path)
    try:
        users, items = (torch.from_numpy(arrays[name]) for name in ("users", "items"))
        return EmbeddingScorer(users, items, "inner"), int(arrays["epochs"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{path} is damaged") from None
