"""Serve a run: lists of items for users, and embeddings.

A finished run serves from its own folder, which holds interactions, ids and matrices. Nothing here
reads the original data or imports Lightning. One user's list needs only a few rows of the matrices,
which are mapped into memory, and not even torch; everything else is loaded when it is first used.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bayescl.checks import check_count
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.record import places

if TYPE_CHECKING:
    from bayescl.axes import Float, Int, Tensor
    from bayescl_lab.ranking.interactions import Interactions, RankingParts
    from bayescl_lab.ranking.scorers import Scorer
    from bayescl_lab.runs.ranking.record import RankingRecord

PARTS = ("train", "validation", "test")
_LEAST_MAPPED = 1 << 16
"""Bytes of an array from which on it is mapped."""
Lists = tuple[NDArray[np.int64], NDArray[np.float32]]
"""Items from best to worst and their scores, ``[users, k]``; -1 pads lists that are shorter."""


class Recommender:
    """A run, ready to recommend.

    Args:
        folder: the run's folder; the run may still be training.

    Raises:
        ValueError: if the folder has no record of its data, or the record is damaged.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._config = folder.config()
        self._arrays = _mapped(folder.path / "interactions.npz")
        matrices = folder.path / "embeddings.npz"
        is_final = folder.is_finished and matrices.is_file()
        self._matrices = _mapped(matrices) if is_final else None
        self._parts = [part for part in PARTS if f"{part}_starts" in self._arrays]
        validates = self._config.get("evaluate_on") == "validation"
        self._training = (
            ["train"] if validates else [part for part in self._parts if part != "test"]
        )

    def recommend(
        self,
        user_id: int | str | Sequence[int | str] | None = None,
        k: int = 10,
        *,
        items: Sequence[int | str] | None = None,
        exclude: Sequence[int | str] = (),
        allow_known: bool = False,
    ) -> pl.DataFrame:
        """The best items that users do not have yet.

        A user's items in any part of the data are left out: the run was trained on one part and
        evaluated on another, but the user has them all. Users without interactions in training, and
        a single user who is not in the data, get the most popular items; see
        :meth:`popular_lists`.

        A new user with some items gets a list based on them: with embeddings by
        :mod:`bayescl_lab.ranking.fold_in`, with EASE and iALS by their own formulas. Items without
        interactions in training are ignored; if there are no others, the list is that of popular
        items.

        Args:
            user_id: the user's id in the data set, or several; default: all users.
            k: items per list; users who have nearly all items get fewer.
            items: ids of the items of a user who is not in the data; instead of ``user_id``.
            exclude: ids of further items to leave out.
            allow_known: whether lists may hold items that the user has.

        Returns:
            One row per item, list by list: ``user`` (without ``items``), ``rank`` from 1, ``item``,
            ``title`` if the data set has titles, and ``score``, for popular items the number of
            their users.

        Raises:
            ValueError: if ``exclude``, ``items`` or several users have an unknown id, both a user
                and items are given, ``items`` is empty, or ``k`` is below 1.
        """
        k = min(check_count("k", k, 1), len(self._arrays["item_ids"]))
        without = self._places("item", exclude)
        if items is not None:
            if user_id is not None:
                raise ValueError("give either a user or the items of a new user, not both")
            chosen = np.unique(self._places("item", items))
            if len(chosen) == 0:
                raise ValueError("items must name at least one item, got none")
            out = without if allow_known else np.concatenate([without, chosen])
            return self._frame(_best(self._newcomer_scores(chosen), out, k))
        if isinstance(user_id, (int, str)):
            row = self._row(user_id)
            if row < 0:
                return self._frame(_best(self._popularity, without, k), pl.Series([user_id]))
            scores = self._scores_of(row) if self._trained_users[row] else self._popularity
            out = without if allow_known else np.concatenate([without, *self._items_of(row)])
            return self._frame(_best(scores, out, k), self._ids("user", [row]))
        rows = None if user_id is None else self._places("user", user_id)
        lists = self._lists(rows, k, without, allow_known=allow_known)
        return self._frame(lists, self._ids("user", rows))

    def popular_lists(
        self,
        user_id: int | str | Sequence[int | str] | None = None,
        *,
        items: Sequence[int | str] | None = None,
    ) -> int:
        """How many lists of :meth:`recommend` hold popular items, since training saw nothing."""
        if items is not None:
            return int(not self._trained_items[self._places("item", items)].any())
        if isinstance(user_id, (int, str)):
            row = self._row(user_id)
            return int(row < 0 or not self._trained_users[row])
        rows = slice(None) if user_id is None else self._places("user", user_id)
        return int((~self._trained_users[rows]).sum())

    def similar_items(self, item_id: int | str, k: int = 10) -> pl.DataFrame:
        """The items with the most similar embeddings, by cosine.

        Args:
            item_id: the item's id in the data set.
            k: largest number of items.

        Returns:
            ``rank`` from 1, ``item``, ``title`` if the data set has titles, and ``similarity``,
            the cosine.

        Raises:
            ValueError: if the item is unknown, ``k`` is below 1, or the recommender has no
                embeddings.
        """
        check_count("k", k, 1)
        items = self._embeddings("items")
        column = self._places("item", [item_id])
        lengths = np.maximum(np.linalg.norm(items, axis=1), np.finfo(items.dtype).tiny)
        similarity = items @ (items[column[0]] / lengths[column[0]]) / lengths
        lists = _best(similarity, column, min(k, len(items)))
        return self._frame(lists).rename({"score": "similarity"})

    def embeddings(self, of: str) -> pl.DataFrame:
        """The embeddings of all users or all items.

        Args:
            of: "users" or "items".

        Returns:
            ``id`` and ``embedding``, in the order of the data's rows or columns.

        Raises:
            ValueError: if the recommender has no embeddings.
        """
        ids = self._arrays["user_ids" if of == "users" else "item_ids"]
        return pl.DataFrame({"id": ids, "embedding": self._embeddings(of)})

    # What needs all interactions or torch.

    @cached_property
    def record(self) -> RankingRecord:
        """The interactions of the run by part."""
        from bayescl_lab.runs.ranking.record import RankingRecord

        return RankingRecord.read(self._folder)

    @cached_property
    def parts(self) -> RankingParts:
        """The interactions that the run is evaluated on."""
        return self.record.parts(self._config.get("evaluate_on", "test"))

    @cached_property
    def known(self) -> Interactions:
        """Every interaction of every part, which lists leave out."""
        return self.record.known()

    @property
    def scorer(self) -> Scorer:
        """What scores all items for some users."""
        return self._trained_scorer[0]

    @property
    def epochs(self) -> int | None:
        """Number of epochs that the weights saw; None for a baseline."""
        return self._trained_scorer[1]

    @cached_property
    def _trained_scorer(self) -> tuple[Scorer, int | None]:
        """The scorer with its best weights, and their epochs; a baseline is fitted again."""
        from bayescl_lab.runs.ranking.record import read_embeddings
        from bayescl_lab.runs.ranking.settings import baseline_of

        if self._matrices:
            return read_embeddings(self._folder)
        if baseline := baseline_of(self._config):
            return baseline.fitted(self.parts.train), None

        from bayescl_lab.runs.ranking.run import RankingRun

        settings = RankingRun.settings_type.from_config(self._config)
        run = RankingRun(settings, record=self.record)
        epochs = run.load(self._folder.kept_checkpoint())
        return run.model.scorer(), epochs

    def _lists(
        self,
        rows: NDArray[np.int64] | None,
        k: int,
        without: NDArray[np.int64],
        *,
        allow_known: bool,
    ) -> Lists:
        """The lists of many users, scored in blocks; popular items for those not in training."""
        import torch

        from bayescl_lab.ranking.full_ranking import full_ranking

        own = self.scorer
        popularity, trained = map(torch.from_numpy, (self._popularity, self._trained_users))

        def scores(users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
            scores = own.scores(users)
            scores[~trained[users]] = popularity.to(scores)
            scores[:, without] = -math.inf
            return scores

        scorer: Any = SimpleNamespace(
            scores=scores, num_users=own.num_users, num_items=own.num_items
        )
        users = None if rows is None else torch.from_numpy(rows)
        top = full_ranking(scorer, k, seen=None if allow_known else self.known, users=users)
        return top.items.numpy(), top.scores.numpy()

    @cached_property
    def _scores_from(self) -> Callable[[Tensor], Tensor]:
        """Scores of all items for users who are not in the data, from their items."""
        from bayescl_lab.ranking.fold_in import NewcomerScorer
        from bayescl_lab.ranking.ials import IALSStep
        from bayescl_lab.ranking.scorers import EmbeddingScorer
        from bayescl_lab.runs.ranking.settings import IALS_NAME, baseline_of

        scorer: Any = self.scorer
        settings = baseline_of(self._config)
        if settings is not None and settings.encoder == IALS_NAME:
            return partial(IALSStep(**settings.penalty).scores_from, scorer.items)
        if isinstance(scorer, EmbeddingScorer):
            return NewcomerScorer(scorer, self.parts.train).scores_from
        from_items: Callable[[Tensor], Tensor] = scorer.scores_from
        return from_items

    def _newcomer_scores(self, items: NDArray[np.int64]) -> NDArray[np.float32]:
        """The scores of all items for a user who has some items."""
        telling = items[self._trained_items[items]]
        if len(telling) == 0:
            return self._popularity
        import torch

        scores: NDArray[np.float32] = self._scores_from(torch.from_numpy(telling)).numpy()
        return scores

    # What needs a few rows of the files.

    def _scores_of(self, row: int) -> NDArray[np.float32]:
        """The scores of all items for one user."""
        if self._matrices:
            scores: NDArray[np.float32] = self._matrices["items"] @ self._matrices["users"][row]
            return scores
        import torch

        return self.scorer.scores(torch.tensor([row]))[0].numpy()

    def _embeddings(self, of: str) -> NDArray[np.float32]:
        """The matrix of users or items."""
        if self._matrices:
            return np.asarray(self._matrices[of])
        from bayescl_lab.ranking.scorers import EmbeddingScorer

        if isinstance(self.scorer, EmbeddingScorer):
            rows: NDArray[np.float32] = getattr(self.scorer, of).cpu().numpy()
            return rows
        raise ValueError("popularity and ease have no embeddings: train with mf, lightgcn or ials")

    def _items_of(self, row: int) -> list[NDArray[np.int32]]:
        """A user's items in each part."""
        return [
            self._arrays[f"{part}_items"][slice(*self._arrays[f"{part}_starts"][row : row + 2])]
            for part in self._parts
        ]

    def _counts(self, parts: Sequence[str]) -> NDArray[np.int64]:
        """The number of users of each item in some parts."""
        size = len(self._arrays["item_ids"])
        counts = [np.bincount(self._arrays[f"{part}_items"], minlength=size) for part in parts]
        total: NDArray[np.int64] = np.sum(counts, axis=0)
        return total

    @cached_property
    def _popularity(self) -> NDArray[np.float32]:
        """The number of users of each item in all parts."""
        return self._counts(self._parts).astype(np.float32)

    @cached_property
    def _trained_users(self) -> NDArray[np.bool_]:
        """True for users with interactions in training."""
        starts = np.sum([self._arrays[f"{part}_starts"] for part in self._training], axis=0)
        has_any: NDArray[np.bool_] = np.diff(starts) > 0
        return has_any

    @cached_property
    def _trained_items(self) -> NDArray[np.bool_]:
        """True for items with interactions in training."""
        return self._counts(self._training) > 0

    def _row(self, user_id: int | str) -> int:
        """The row of a user; -1 if the user is not in the data."""
        return int(places([str(user_id).strip()], self._arrays["user_ids"])[0])

    def _places(self, kind: str, ids: Sequence[int | str]) -> NDArray[np.int64]:
        """The rows of some users or the columns of some items; refuses unknown ones."""
        wanted = [str(one).strip() for one in ids]
        rows = places(wanted, self._arrays[f"{kind}_ids"])
        unknown = list(dict.fromkeys(wanted[place] for place in np.flatnonzero(rows < 0)))
        if unknown:
            names = ", ".join(unknown[:10]) + (", ..." if len(unknown) > 10 else "")
            raise ValueError(
                f"{self._arrays['name']} has no {kind}{'s' * (len(unknown) > 1)} {names}"
            )
        return rows

    def _ids(self, kind: str, rows: Any) -> pl.Series:
        """The ids of some rows, by default of all."""
        ids = self._arrays[f"{kind}_ids"]
        return pl.Series(ids if rows is None else ids[rows])

    def _frame(self, lists: Lists, users: pl.Series | None = None) -> pl.DataFrame:
        """Lists as rows, with the ids of their users if there are any."""
        items, scores = np.atleast_2d(lists[0]), np.atleast_2d(lists[1])
        rows, ranks = np.nonzero(items >= 0)
        chosen = items[rows, ranks]
        columns: dict[str, Any] = {} if users is None else {"user": users.gather(rows)}
        columns |= {"rank": ranks + 1, "item": self._ids("item", None).gather(chosen)}
        if "item_titles" in self._arrays:
            columns["title"] = pl.Series(self._arrays["item_titles"]).gather(chosen)
        return pl.DataFrame({**columns, "score": scores[rows, ranks]})


def load_recommender(path: Path) -> Recommender:
    """Open a run's folder, which may still train, with its best weights or else the last.

    Raises:
        ValueError: if the folder does not hold a recommender with a record of its data.
    """
    return Recommender(RunFolder.open(path, "train ranking"))


def _best(scores: NDArray[np.float32], without: NDArray[np.int64], k: int) -> Lists:
    """The ``k`` best items of one list, equal ones by column."""
    if np.isnan(scores).any():
        raise ValueError("scores must not be NaN")
    kept = scores.copy()
    kept[without] = -np.inf
    items = np.argsort(-kept, kind="stable")[:k]
    return np.where(kept[items] > -np.inf, items, -1), kept[items]


def _mapped(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an uncompressed ``.npz`` file, large ones to be read from disk when used.

    Raises:
        ValueError: if the file is missing or damaged.
    """
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                # A local header has 30 bytes; the lengths of what follows are its last two numbers.
                file.seek(member.header_offset + 26)
                lengths = np.frombuffer(file.read(4), dtype="<u2")
                begin = file.seek(int(lengths.sum()), os.SEEK_CUR)
                np.lib.format.read_magic(file)
                shape, fortran, dtype = np.lib.format.read_array_header_1_0(file)
                name = member.filename.removesuffix(".npy")
                if member.file_size < _LEAST_MAPPED or dtype.hasobject or fortran:
                    file.seek(begin)
                    arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
                else:
                    arrays[name] = np.memmap(path, dtype, "r", file.tell(), shape)
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile):
        raise ValueError(f"{path} is damaged or missing") from None
    return arrays
