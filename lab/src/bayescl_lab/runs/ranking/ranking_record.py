"""A run's record of its interactions, which replaces the files of the data.

``data.json`` describes the data. ``interactions.npz`` has the ids and every interaction with its
part.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bayescl_lab._types import AnyArray, Values
from bayescl_lab.ranking.data import RankingData
from bayescl_lab.ranking.datasets import guessed_columns, load_interactions
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.record import hint, indices_of, read_record, write_record

FILE = "interactions.npz"
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class RankingRecord:
    """Interactions of a run with their parts and their source.

    Attributes:
        known: Interactions of all parts.
        part_of: Part of each interaction, as an index in :data:`PARTS`.
        description: Content of ``data.json``.
        evaluation: Other interactions to evaluate on. ``None`` for the interactions of the run.
    """

    known: Interactions
    part_of: NDArray[np.uint8]
    description: Values = field(default_factory=dict)
    evaluation: Interactions | None = None

    @classmethod
    def of(cls, data: RankingData, evaluate_on: str) -> RankingRecord:
        """Read a data set."""
        parts = load_interactions(**asdict(data), evaluate_on=evaluate_on)
        if data.split == "none" and parts.train.density == 1:
            raise ValueError(f"{data.data}: every user has every item, so nothing is left to rank")
        by_name = {"train": parts.train, parts.evaluated_on: parts.evaluation}
        if parts.unseen is not None:
            by_name["test"] = parts.unseen
        description = {
            "data": data.data,
            "columns": guessed_columns(data),
            "interactions": {name: part.num_interactions for name, part in by_name.items()},
            "report": dict(parts.reading),
        }
        numbers = {name: np.float32(1 + PARTS.index(name)) for name in by_name}
        matrix = csr_array(sum(by_name[name].matrix * number for name, number in numbers.items()))
        part_of = matrix.data.astype(np.uint8) - np.uint8(1)
        matrix.data[:] = 1
        known = replace(parts.train, matrix=matrix, timestamps=None)
        return cls(known, part_of, description)

    def parts(self, evaluate_on: str) -> RankingParts:
        """Return training and evaluation split. Training joins all parts before evaluation."""
        number = PARTS.index(evaluate_on)
        return RankingParts(
            self.known.subset(self.part_of < number),
            self.evaluation or self.known.subset(self.part_of == number),
            evaluate_on,
            self.description.get("report", {}),
        )

    def write(self, folder: RunFolder) -> None:
        """Write both files to a run's folder, unless they exist."""
        if folder.data_file.is_file():
            return
        known = self.known
        arrays = {
            "name": np.array(known.name),
            "user_ids": known.user_ids,
            "item_ids": known.item_ids,
            "starts": known.matrix.indptr,
            "items": known.matrix.indices,
            "parts": self.part_of,
        }
        write_record(folder, FILE, arrays, self.description)

    @classmethod
    def read(cls, folder: RunFolder) -> RankingRecord:
        """Read the record in a run's folder; raise ``ValueError`` if it is missing or damaged."""
        description, arrays = read_record(folder, FILE)
        try:
            ids = {name: arrays[name] for name in ("user_ids", "item_ids")}
            ones = np.ones(len(arrays["parts"]), dtype=np.float32)
            shape = tuple(map(len, ids.values()))
            matrix = csr_array((ones, arrays["items"], arrays["starts"]), shape=shape)
            known = Interactions(matrix, **ids, name=str(arrays["name"]))
            return cls(known, arrays["parts"], description)
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{folder.data_file} is damaged") from None

    def rows_of(self, other: Interactions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Match users and items of other interactions with this run by id; -1 if unknown."""
        return (
            indices_of(other.user_ids.tolist(), self.known.user_ids),
            indices_of(other.item_ids.tolist(), self.known.item_ids),
        )

    def pairs_of(self, other: Interactions) -> list[NDArray[np.int64]]:
        """Return row and column in this run's matrix of each pair of ``other``; -1 if unknown."""
        both = zip(self.rows_of(other), other.pairs(), strict=True)
        return [rows[numbers] for rows, numbers in both]

    def on(self, data: str, folder: RunFolder) -> RankingRecord:
        """Return the record with other interactions to evaluate on.

        Pairs of :func:`seen_pairs`, unknown users and unknown items are excluded and counted in the
        report. The data are read with the settings of the run in the folder.

        Raises:
            ValueError: if the data cannot be read, no pair has a known user and a known item, or
                the run was trained on all interactions.
        """
        reading = RankingData.pop_from(folder.config())
        reading = replace(reading, data=data, test_data=None, split="none")
        parts = load_interactions(**asdict(reading))
        users, items = self.pairs_of(parts.train)
        is_known = (users >= 0) & (items >= 0)
        if not is_known.any():
            unknown = [
                _unknown("users", parts.train.user_ids, self.known.user_ids),
                _unknown("items", parts.train.item_ids, self.known.item_ids),
            ]
            raise ValueError(
                f"{data} has no interaction of a user and an item that the run knows: "
                f"{' and '.join(filter(None, unknown))}"
            )
        other = Interactions.from_pairs(
            users[is_known],
            items[is_known],
            user_ids=self.known.user_ids,
            item_ids=self.known.item_ids,
            name=parts.train.name,
        )
        trained = seen_pairs(folder, other)
        if trained.all():
            raise ValueError(f"{data} has no new interactions of the run's users and items")
        left_out = {
            "interactions left out (used in training)": int(trained.sum()),
            "interactions left out (user or item unknown to the run)": int((~is_known).sum()),
        }
        report = {**parts.reading, **{phrase: count for phrase, count in left_out.items() if count}}
        description = {**self.description, "report": report}
        return replace(self, evaluation=other.subset(~trained), description=description)


def seen_pairs(folder: RunFolder, other: Interactions) -> NDArray[np.bool_]:
    """Return True for pairs that a run was trained on, by id.

    Pairs of the run that it was initialized from are included, recursively, if its folder exists.
    """
    seen = np.zeros(other.num_interactions, dtype=bool)
    visited: set[Path] = set()
    while folder.has_record and folder.path.resolve() not in visited:
        visited.add(folder.path.resolve())
        record = RankingRecord.read(folder)
        users, items = record.pairs_of(other)
        seen |= (users >= 0) & record.parts("validation").train.contains(users, items)
        if init := folder.config().get("init"):
            folder = RunFolder(Path(init), folder.kind)
    return seen


def _unknown(kind: str, ids: AnyArray, known: AnyArray) -> str:
    """Return how many of some ids are unknown, with an example; an empty text if all are known."""
    unknown = ids[indices_of(ids.tolist(), known) < 0]
    if len(unknown) == 0:
        return ""
    example = f"{unknown[0]}{hint(str(unknown[0]), {*map(str, known.tolist())})}"
    return f"{len(unknown)} of {len(ids)} {kind} are unknown ({example})"
