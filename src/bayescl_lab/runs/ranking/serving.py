"""Serving of runs: lists of items for users, and embeddings.

A finished run serves from its own folder, which holds interactions, ids and matrices. This module
does not read the original data or import Lightning. A list for one user needs only a few rows of
the memory-mapped matrices, and does not import torch. Everything else is loaded on first use.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bayescl.checks import check_count
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.run import Kind

if TYPE_CHECKING:
    from bayescl.axes import Tensor
    from bayescl_lab.ranking.interactions import Interactions, RankingParts
    from bayescl_lab.ranking.scorers import Scorer
    from bayescl_lab.runs.ranking.record import RankingRecord

Items = Sequence[int | str]
"""Ids of items."""

_LEAST_MAPPED = 1 << 16
"""Size in bytes from which an array is memory-mapped."""


class Recommender:
    """Recommender of a run.

    Args:
        folder: Folder of the run. The run may still be training.

    Raises:
        ValueError: if the folder has no record of its data, or the record is damaged.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._config = folder.config()
        self._evaluate_on = self._config.get("evaluate_on", "test")
        self._arrays = _mapped(folder.path / "interactions.npz")
        self._rows: dict[str, dict[str, int]] = {}
        matrices = folder.path / "embeddings.npz"
        is_final = folder.is_finished and matrices.is_file()
        self._matrices = _mapped(matrices) if is_final else None

    def recommend(
        self,
        user_id: int | str | Sequence[int | str] | None = None,
        k: int = 10,
        *,
        items: int | str | Items | Mapping[int | str, int | str | Items] | None = None,
        all_users: bool = False,
        exclude: int | str | Items = (),
        allow_known: bool = False,
        popular: bool = False,
        skip_unknown: bool = False,
    ) -> pl.DataFrame:
        """Return the best items that users do not have yet.

        A user's items in all parts of the data are excluded. Items without interactions in training
        are never listed. Users without interactions in training get the most popular items. A new
        user with some items gets a list based on them: by :mod:`bayescl_lab.ranking.fold_in` with
        embeddings, by their own formulas with EASE and iALS. Items of the new user without
        interactions in training are ignored; without other items, the list has popular items.

        Args:
            user_id: Id of the user in the data set, or several ids.
            k: Number of items per list. Users who have nearly all items get fewer. Default: 10.
            items: Ids of the items of a user who is not in the data, instead of ``user_id``; or the
                items of several such users by their ids.
            all_users: Whether to make lists of all users, instead of ``user_id``. Default: False.
            exclude: Ids of further items to exclude. Default: none.
            allow_known: Whether lists may have items that the user has. Default: False.
            popular: Whether a single user who is not in the data gets the most popular items.
                Otherwise this is an error. Default: False.
            skip_unknown: Whether unknown ids are skipped if several are given; see
                :meth:`unknown`. Otherwise they are an error. Default: False.

        Returns:
            One row per item, list by list, with columns ``user`` (not for ``items`` of one user),
            ``rank`` from 1, ``item``, ``title`` if the data set has titles, ``score`` and
            ``source``. The source is "model", or "popularity" for popular items, which have the
            number of their users as score.

        Raises:
            ValueError: if ``exclude``, ``items`` or the users have an unknown id, not exactly one
                of ``user_id``, ``items`` and ``all_users`` is given, ``items`` is empty, or ``k``
                is below 1.
        """
        if (user_id is not None) + (items is not None) + all_users != 1:
            raise ValueError("give one of user_id, items (of a user not in the data) and all_users")
        if items is not None and len(_listed(items)) == 0:
            raise ValueError("items must name at least one item, got none")
        k = min(check_count("k", k, 1), len(self._arrays["item_ids"]))
        without = self._places("item", exclude, skip_unknown=skip_unknown)
        if isinstance(items, Mapping):
            options: Any = {"allow_known": allow_known, "skip_unknown": skip_unknown}
            return pl.concat(
                self.recommend(k=k, items=theirs, exclude=exclude, **options).select(
                    pl.lit(str(user)).alias("user"), pl.all()
                )
                for user, theirs in items.items()
            )
        if items is not None:
            owned = np.unique(self._places("item", items, skip_unknown=skip_unknown))
            known = owned[self._popularity[owned] > 0]
            users, scores = None, self._newcomer_scores(known) if len(known) else None
        elif np.isscalar(user_id):
            row, owned, is_trained = self._user(user_id)
            if row < 0 and not popular:
                self._places("user", user_id)  # raises for an unknown user
            users = [str(user_id)] if row < 0 else self._arrays["user_ids"][[row]]
            scores = self._scores_of(row) if is_trained else None
        else:
            rows = None if all_users else self._places("user", user_id, skip_unknown=skip_unknown)
            return self._many_lists(rows, k, without, None if allow_known else self.record.known)
        left_out = without if allow_known else np.concatenate([without, owned])
        best = self._best(self._popularity if scores is None else scores, left_out, k)
        return self._frame(*best, users).with_columns(source=_source(scores is not None))

    def unknown(self, kind: str, ids: int | str | Items) -> list[str]:
        """Return the distinct ids of users or items ("user" or "item") that are not in the data."""
        index = self._index(kind)
        return [name for name in dict.fromkeys(_listed(ids)) if name not in index]

    def similar_items(self, item_id: int | str, k: int = 10) -> pl.DataFrame:
        """Return the ``k`` items with the most similar embeddings, by cosine.

        Columns are ``rank`` from 1, ``item``, ``title`` if the data set has titles, and
        ``similarity``.

        Raises:
            ValueError: if the item is unknown or has no interactions in training, ``k`` is below 1,
                or the recommender has no embeddings.
        """
        check_count("k", k, 1)
        items = self.matrix("items")
        [column] = self._places("item", item_id)
        if self._popularity[column] == 0:
            raise ValueError(f"item {item_id} has no interactions in training, so no embedding")
        lengths = np.maximum(np.linalg.norm(items, axis=1), np.finfo(items.dtype).tiny)
        similarity = items @ (items[column] / lengths[column]) / lengths
        best = self._best(similarity, np.array([column]), min(k, len(items)))
        return self._frame(*best).rename({"score": "similarity"})

    def embeddings(self, of: str) -> pl.DataFrame:
        """Return the embeddings of "users" or "items": ``id`` and ``embedding``, in data order.

        Users and items without interactions in training are excluded.

        Raises:
            ValueError: if the recommender has no embeddings.
        """
        rows = np.flatnonzero(self.trained_rows(of))
        ids = self._arrays["user_ids" if of == "users" else "item_ids"]
        return pl.DataFrame({"id": ids[rows], "embedding": self.matrix(of)[rows]})

    def matrix(self, of: str) -> NDArray[np.float32]:
        """Return the embeddings of all "users" or "items", including untrained rows."""
        if self._matrices:
            return np.asarray(self._matrices[of])
        rows = getattr(self.trained[0], of, None)
        if rows is None:
            raise ValueError("popularity and ease have no embeddings: train with mf or ials")
        return np.asarray(rows.cpu())

    def trained_rows(self, of: str) -> NDArray[np.bool_]:
        """Return True for "users" or "items" with interactions in training."""
        if of == "items":
            return np.asarray(self._popularity > 0)
        has_any: NDArray[np.bool_] = np.diff(self.trained_on.matrix.indptr) > 0
        return has_any

    # The following needs all interactions or torch.

    @cached_property
    def record(self) -> RankingRecord:
        """Interactions of the run by part."""
        from bayescl_lab.runs.ranking.record import RankingRecord

        return RankingRecord.read(self._folder)

    @cached_property
    def parts(self) -> RankingParts:
        """Interactions that the run is evaluated on."""
        return self.record.parts(self._evaluate_on)

    @cached_property
    def trained_on(self) -> Interactions:
        """Training interactions."""
        return self.record.parts("validation").train

    @cached_property
    def trained(self) -> tuple[Scorer, int | None]:
        """Scorer with the best weights, and its number of epochs. A baseline is fitted again."""
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
        """Return the lists of many users, scored in chunks."""
        import torch

        from bayescl_lab.ranking.full_ranking import full_ranking
        from bayescl_lab.ranking.scorers import ServedScorer

        served = ServedScorer(self.trained[0], self.trained_on, without)
        users = torch.arange(served.num_users) if rows is None else torch.from_numpy(rows)
        top = full_ranking(served, k, seen=known, users=users)
        lists = self._frame(top.items.numpy(), top.scores.numpy(), top.users.numpy())
        names = pl.Series(self._arrays["user_ids"])
        return lists.with_columns(
            user=names.gather(lists["user"]),
            source=_source(pl.Series(self.trained_rows("users")).gather(lists["user"])),
        )

    @cached_property
    def _scores_from(self) -> Callable[[Tensor], Tensor]:
        """Function of the items of new users that returns the scores of all items."""
        from bayescl_lab.ranking.fold_in import NewcomerScorer
        from bayescl_lab.ranking.ials import newcomer_scores
        from bayescl_lab.runs.ranking.settings import IALS_NAME, baseline_of

        scorer: Any = self.trained[0]
        baseline = baseline_of(self._config)
        if baseline is None:
            return NewcomerScorer(scorer, self.trained_on).scores_from
        if baseline.encoder == IALS_NAME:
            return partial(newcomer_scores, scorer.items, penalty=baseline.penalty)
        scores_from: Callable[[Tensor], Tensor] = scorer.scores_from
        return scores_from

    def _newcomer_scores(self, items: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the scores of all items for a new user with some items of the training part."""
        import torch

        return np.asarray(self._scores_from(torch.from_numpy(items)))

    # The following needs a few rows of the files.

    def _user(self, user_id: Any) -> tuple[int, NDArray[Any], bool]:
        """Return a user's row or -1, all items, and whether any of them is in training."""
        row = self._index("user").get(str(user_id).strip(), -1)
        entries = slice(*self._arrays["starts"][row : row + 2]) if row >= 0 else slice(0)
        is_trained = (self._arrays["parts"][entries] == 0).any()
        return row, self._arrays["items"][entries], bool(is_trained)

    def _scores_of(self, row: int) -> NDArray[np.float32]:
        """Return the scores of all items for one user."""
        if self._matrices:
            scores: NDArray[np.float32] = self._matrices["items"] @ self._matrices["users"][row]
            return scores
        import torch

        return self.trained[0].scores(torch.tensor([row]))[0].numpy()

    @cached_property
    def _popularity(self) -> NDArray[np.float32]:
        """Number of users of each item in training."""
        items = self._arrays["items"][self._arrays["parts"] == 0]
        counts = np.bincount(items, minlength=len(self._arrays["item_ids"]))
        return counts.astype(np.float32)

    def _index(self, kind: str) -> dict[str, int]:
        """Return the row of each user or the column of each item by its id as text."""
        if kind not in self._rows:
            ids = self._arrays[f"{kind}_ids"].tolist()
            self._rows[kind] = {str(name): row for row, name in enumerate(ids)}
        return self._rows[kind]

    def _places(self, kind: str, ids: Any, *, skip_unknown: bool = False) -> NDArray[np.int64]:
        """Return the rows of users or columns of items; raise on unknown ids or skip them."""
        index, unknown = self._index(kind), self.unknown(kind, ids)
        if unknown and not skip_unknown:
            names = ", ".join(unknown[:10]) + (", ..." if len(unknown) > 10 else "")
            close = (f"{unknown[0]}.0", unknown[0].removesuffix(".0"), unknown[0].lstrip("0"))
            hint = next((f", but {name}" for name in close if name in index), "")
            raise ValueError(
                f"{self._arrays['name']} has no {kind}{'s' * (len(unknown) > 1)} {names}{hint}"
            )
        rows = [index[name] for name in _listed(ids) if name in index]
        return np.array(rows, dtype=np.int64)

    def _best(
        self, scores: NDArray[np.float32], without: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the ``k`` best trained items, ties by column; -1 for a missing item."""
        if np.isnan(scores).any():
            raise ValueError("scores must not be NaN")
        kept = np.where(self._popularity > 0, scores, -np.inf)
        kept[without] = -np.inf
        items = np.argsort(-kept, kind="stable")[:k]
        return np.where(kept[items] > -np.inf, items, -1), kept[items]

    def _frame(self, items: NDArray[Any], scores: NDArray[Any], users: Any = None) -> pl.DataFrame:
        """Convert lists to rows, with users if given; -1 is a missing item."""
        items, scores = np.atleast_2d(items), np.atleast_2d(scores)
        rows, ranks = np.nonzero(items >= 0)
        chosen = items[rows, ranks]
        columns: dict[str, Any] = {} if users is None else {"user": pl.Series(users).gather(rows)}
        columns |= {"rank": ranks + 1, "item": pl.Series(self._arrays["item_ids"]).gather(chosen)}
        if "item_titles" in self._arrays:
            columns["title"] = pl.Series(self._arrays["item_titles"]).gather(chosen)
        return pl.DataFrame({**columns, "score": scores[rows, ranks]})


def _listed(ids: Any) -> list[str]:
    """Convert ids to stripped text. A single text or number is one id."""
    return [str(name).strip() for name in ([ids] if np.isscalar(ids) else ids)]


def _source(by_model: bool | pl.Series) -> pl.Expr:
    """Return the column with the source of a list."""
    return pl.when(by_model).then(pl.lit("model")).otherwise(pl.lit("popularity"))


def load_recommender(path: Path) -> Recommender:
    """Load the recommender of a run, finished or not, with its best or last weights."""
    return Recommender(RunFolder.open(path, Kind.RANKING))


def _mapped(path: Path) -> dict[str, NDArray[Any]]:
    """Read the arrays of an uncompressed ``.npz`` file. Large arrays are memory-mapped."""
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with path.open("rb") as file, zipfile.ZipFile(file) as archive:
            for member in archive.infolist():
                # A local header has 30 bytes. Its last two numbers are the lengths of two fields.
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
