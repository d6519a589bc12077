"""Serve a run: lists of items for users, and embeddings.

A finished run serves from its own folder, which holds interactions, ids and matrices. Nothing here
reads the original data or imports Lightning. One user's list needs only a few rows of the matrices,
which are mapped into memory, and not even torch; everything else is loaded when it is first used.
"""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
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
from bayescl_lab.runs.run import Kind

if TYPE_CHECKING:
    from bayescl.axes import Float, Int, Tensor
    from bayescl_lab.ranking.interactions import Interactions, RankingParts
    from bayescl_lab.ranking.scorers import Scorer
    from bayescl_lab.runs.ranking.record import RankingRecord

Items = Sequence[int | str]
"""Ids of items."""

_LEAST_MAPPED = 1 << 16
"""Bytes of an array from which on it is mapped."""


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
        self._evaluate_on = self._config.get("evaluate_on", "test")
        # So many of the parts (train, validation, test) were trained on or chose the epoch.
        self._training = 1 if self._evaluate_on == "validation" else 2
        self._arrays = _mapped(folder.path / "interactions.npz")
        matrices = folder.path / "embeddings.npz"
        is_final = folder.is_finished and matrices.is_file()
        self._matrices = _mapped(matrices) if is_final else None

    def recommend(
        self,
        user_id: int | str | Sequence[int | str] | None = None,
        k: int = 10,
        *,
        items: Items | Mapping[int | str, Items] | None = None,
        exclude: Items = (),
        allow_known: bool = False,
        popular: bool = False,
    ) -> pl.DataFrame:
        """The best items that users do not have yet.

        A user's items in any part of the data are left out: the run was trained on one part and
        evaluated on another, but the user has them all. Users without interactions in training get
        the most popular items. A new user with some items gets a list based on them: with
        embeddings by :mod:`bayescl_lab.ranking.fold_in`, with EASE and iALS by their own formulas.
        Items without interactions in training are ignored; if there are no others, the list is that
        of popular items.

        Args:
            user_id: the user's id in the data set, or several; default: all users.
            k: items per list; users who have nearly all items get fewer.
            items: ids of the items of a user who is not in the data; instead of ``user_id``. Or the
                items of several such users by their ids.
            exclude: ids of further items to leave out.
            allow_known: whether lists may hold items that the user has.
            popular: whether a single user who is not in the data gets the most popular items; by
                default such a user is an error.

        Returns:
            One row per item, list by list: ``user`` (not for ``items`` of one user), ``rank`` from
            1, ``item``, ``title`` if the data set has titles, and ``score``, for popular items the
            number of their users.

        Raises:
            ValueError: if ``exclude``, ``items`` or the users have an unknown id, both a user and
                items are given, ``items`` is empty, or ``k`` is below 1.
        """
        k = min(check_count("k", k, 1), len(self._arrays["item_ids"]))
        without = self._places("item", exclude)
        if items is not None:
            if user_id is not None:
                raise ValueError("give either a user or the items of a new user, not both")
            if isinstance(items, Mapping):
                options: Any = {"exclude": exclude, "allow_known": allow_known}
                lists = {
                    user: self.recommend(k=k, items=of_user, **options)
                    for user, of_user in items.items()
                }
                return pl.concat(
                    made.insert_column(0, pl.lit(str(user)).alias("user"))
                    for user, made in lists.items()
                )
            owned = np.unique(self._places("item", items))
            if len(owned) == 0:
                raise ValueError("items must name at least one item, got none")
            users, scores = None, self._newcomer_scores(owned)
        elif isinstance(user_id, (int, str)):
            row, owned, is_trained = self._user(user_id)
            if row < 0 and not popular:
                raise ValueError(
                    f"{self._arrays['name']} has no user {user_id}: name items that somebody new "
                    "has (items), or ask for the most popular ones (popular)"
                )
            users = self._arrays["user_ids"][[row]] if row >= 0 else [user_id]
            scores = self._scores_of(row) if is_trained else self._popularity
        else:
            rows = None if user_id is None else self._places("user", user_id)
            known = None if allow_known else self.record.known
            return self._many_lists(rows, k, without, known)
        left_out = without if allow_known else np.concatenate([without, owned])
        return self._frame(*_best(scores, left_out, k), users)

    def popular_lists(
        self,
        user_id: int | str | Sequence[int | str] | None = None,
        *,
        items: Items | Mapping[int | str, Items] | None = None,
    ) -> int:
        """How many lists of :meth:`recommend` hold popular items, since training saw nothing."""
        if isinstance(items, Mapping):
            return sum(self.popular_lists(items=of_user) for of_user in items.values())
        if items is not None:
            return int(len(self._trained(self._places("item", items))) == 0)
        if isinstance(user_id, (int, str)):
            return int(not self._user(user_id)[2])
        rows = slice(None) if user_id is None else self._places("user", user_id)
        return int((~self._trained_users[rows]).sum())

    def similar_items(self, item_id: int | str, k: int = 10) -> pl.DataFrame:
        """The up to ``k`` items with the most similar embeddings, by cosine.

        Columns are ``rank`` from 1, ``item``, ``title`` if the data set has titles, and
        ``similarity``. An unknown item, a ``k`` below 1, or a recommender without embeddings is a
        ``ValueError``.
        """
        check_count("k", k, 1)
        items = self._embeddings("items")
        column = self._places("item", [item_id])
        lengths = np.maximum(np.linalg.norm(items, axis=1), np.finfo(items.dtype).tiny)
        similarity = items @ (items[column[0]] / lengths[column[0]]) / lengths
        best = _best(similarity, column, min(k, len(items)))
        return self._frame(*best).rename({"score": "similarity"})

    def embeddings(self, of: str) -> pl.DataFrame:
        """The embeddings of all "users" or all "items": ``id`` and ``embedding``, in data order.

        A recommender without embeddings is a ``ValueError``.
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
        return self.record.parts(self._evaluate_on)

    @property
    def scorer(self) -> Scorer:
        """What scores all items for some users."""
        return self.trained[0]

    @cached_property
    def trained(self) -> tuple[Scorer, int | None]:
        """The scorer with its best weights, and the epochs they saw; a baseline is fitted again."""
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

    def _many_lists(
        self,
        rows: NDArray[np.int64] | None,
        k: int,
        without: NDArray[np.int64],
        known: Interactions | None,
    ) -> pl.DataFrame:
        """The lists of many users, scored in blocks; popular items for those not in training."""
        import torch

        from bayescl_lab.ranking.full_ranking import full_ranking

        scorer = self.scorer
        popularity, trained = map(torch.from_numpy, (self._popularity, self._trained_users))

        def scores(users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
            scores = scorer.scores(users)
            scores[~trained[users]] = popularity.to(scores)
            scores[:, without] = -math.inf
            return scores

        shape = {"num_users": scorer.num_users, "num_items": scorer.num_items}
        list_scorer: Any = SimpleNamespace(scores=scores, **shape)
        users = None if rows is None else torch.from_numpy(rows)
        top = full_ranking(list_scorer, k, seen=known, users=users)
        ids = self._arrays["user_ids"] if rows is None else self._arrays["user_ids"][rows]
        return self._frame(top.items.numpy(), top.scores.numpy(), ids)

    @property
    def _trained_users(self) -> NDArray[np.bool_]:
        """True for users with interactions in training."""
        has_any: NDArray[np.bool_] = np.diff(self.parts.train.matrix.indptr) > 0
        return has_any

    @cached_property
    def _scores_from(self) -> Callable[[Tensor], Tensor]:
        """Scores of all items for users who are not in the data, from their items."""
        from bayescl_lab.ranking.fold_in import NewcomerScorer
        from bayescl_lab.ranking.ials import newcomer_scores
        from bayescl_lab.runs.ranking.settings import IALS_NAME, baseline_of

        scorer: Any = self.scorer
        baseline = baseline_of(self._config)
        if baseline is None:
            return NewcomerScorer(scorer, self.parts.train).scores_from
        if baseline.encoder == IALS_NAME:
            return partial(newcomer_scores, scorer.items, penalty=baseline.penalty)
        scores_from: Callable[[Tensor], Tensor] = scorer.scores_from
        return scores_from

    def _newcomer_scores(self, items: NDArray[np.int64]) -> NDArray[np.float32]:
        """The scores of all items for a user who has some items."""
        trained = self._trained(items)
        if len(trained) == 0:
            return self._popularity
        import torch

        return np.asarray(self._scores_from(torch.from_numpy(trained)))

    # What needs a few rows of the files.

    def _user(self, user_id: int | str) -> tuple[int, NDArray[Any], bool]:
        """A user's row, or -1, and items in all parts, and whether training saw any of them."""
        [row] = places([str(user_id).strip()], self._arrays["user_ids"])
        entries = slice(*self._arrays["starts"][row : row + 2]) if row >= 0 else slice(0)
        is_trained = (self._arrays["parts"][entries] < self._training).any()
        return int(row), self._arrays["items"][entries], bool(is_trained)

    def _trained(self, items: NDArray[np.int64]) -> NDArray[np.int64]:
        """Those of some items that have interactions in training."""
        trained = self._arrays["items"][self._arrays["parts"] < self._training]
        return items[np.isin(items, trained)]

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
        rows = getattr(self.scorer, of, None)
        if rows is None:
            raise ValueError(
                "popularity and ease have no embeddings: train with mf, lightgcn or ials"
            )
        return np.asarray(rows.cpu())

    @cached_property
    def _popularity(self) -> NDArray[np.float32]:
        """The number of users of each item in all parts."""
        counts = np.bincount(self._arrays["items"], minlength=len(self._arrays["item_ids"]))
        return counts.astype(np.float32)

    def _places(self, kind: str, ids: Sequence[int | str]) -> NDArray[np.int64]:
        """The rows of some users or the columns of some items; refuses unknown ones."""
        wanted = [str(value).strip() for value in ids]
        rows = places(wanted, self._arrays[f"{kind}_ids"])
        unknown = list(dict.fromkeys(wanted[place] for place in np.flatnonzero(rows < 0)))
        if unknown:
            names = ", ".join(unknown[:10]) + (", ..." if len(unknown) > 10 else "")
            raise ValueError(
                f"{self._arrays['name']} has no {kind}{'s' * (len(unknown) > 1)} {names}"
            )
        return rows

    def _frame(self, items: NDArray[Any], scores: NDArray[Any], users: Any = None) -> pl.DataFrame:
        """Lists as rows, with the ids of their users if there are any; -1 is no item."""
        items, scores = np.atleast_2d(items), np.atleast_2d(scores)
        rows, ranks = np.nonzero(items >= 0)
        chosen = items[rows, ranks]
        columns: dict[str, Any] = {} if users is None else {"user": pl.Series(users).gather(rows)}
        columns |= {"rank": ranks + 1, "item": pl.Series(self._arrays["item_ids"]).gather(chosen)}
        if "item_titles" in self._arrays:
            columns["title"] = pl.Series(self._arrays["item_titles"]).gather(chosen)
        return pl.DataFrame({**columns, "score": scores[rows, ranks]})


def load_recommender(path: Path) -> Recommender:
    """Open a run's folder, which may still train, with its best weights or else the last."""
    return Recommender(RunFolder.open(path, Kind.RANKING))


def _best(
    scores: NDArray[np.float32], without: NDArray[np.int64], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The ``k`` best items of one list and their scores, equal ones by column; -1 is no item."""
    if np.isnan(scores).any():
        raise ValueError("scores must not be NaN")
    kept = scores.copy()
    kept[without] = -np.inf
    items = np.argsort(-kept, kind="stable")[:k]
    return np.where(kept[items] > -np.inf, items, -1), kept[items]


def _mapped(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of an uncompressed ``.npz`` file, large ones to be read from disk when used."""
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
