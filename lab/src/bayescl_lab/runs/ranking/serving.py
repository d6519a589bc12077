"""Serving of runs: lists of items for users, and embeddings.

A run serves from its own folder, which holds interactions, ids and weights. The original data are
not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray
from torch import Tensor

from bayescl_lab._fields import Count, checked, listed
from bayescl_lab._types import AnyArray, Config
from bayescl_lab.ranking.full_ranking import full_ranking, top_columns
from bayescl_lab.ranking.scorers import ServedScorer
from bayescl_lab.runs.folder import Kind, RunFolder
from bayescl_lab.runs.ranking.ranking_record import RankingRecord
from bayescl_lab.runs.ranking.ranking_run import RankingRun
from bayescl_lab.runs.ranking.ranking_settings import RankingSettings
from bayescl_lab.runs.record import hint

Ids = int | str | Sequence[int | str]
"""One id, or several."""


class Recommender:
    """Recommender of a run.

    Args:
        path: Folder of the run. The run may still be training.

    Attributes:
        record: Interactions of the run by part.
        trained_on: Training interactions.
        scorer: Trained model.

    Raises:
        ValueError: if the folder does not hold a recommender or a checkpoint, or files are damaged.
    """

    def __init__(self, path: Path) -> None:
        folder = RunFolder.open(path, Kind.RANKING)
        settings = RankingSettings.from_config({**folder.config(), "device": "cpu"})
        folder.kept_checkpoint()  # raises if there is none yet
        run = RankingRun(settings, record=RankingRecord.read(folder))
        run.load(folder)
        self.record, self.scorer, self.trained_on = run.record, run.model.scorer(), run.parts.train
        self._ids = {"user": self.trained_on.user_ids, "item": self.trained_on.item_ids}

    def recommend(
        self,
        user_id: Ids | None = None,
        k: int = 10,
        *,
        all_users: bool = False,
        exclude: Ids = (),
        allow_known: bool = False,
    ) -> pl.DataFrame:
        """Return the best items that users do not have yet.

        A user's items in all parts of the data are excluded. Items without interactions in training
        are never listed. Users without interactions in training get the most popular items.

        Args:
            user_id: Id of the user in the data set, or several ids.
            k: Number of items per list. Users who have nearly all items get fewer. Default: 10.
            all_users: Whether to make lists for all users, instead of ``user_id``. Default: False.
            exclude: Ids of further items to exclude. Default: none.
            allow_known: Whether lists may have items that the user has. Default: False.

        Returns:
            One row per item, list by list, with columns ``user``, ``rank`` from 1, ``item``,
            ``score`` and ``source``. The source is "model", or "popularity" for popular items,
            which have the number of their users as score.

        Raises:
            ValueError: if ``exclude`` or the users have an unknown id, not exactly one of
                ``user_id`` and ``all_users`` is given, or ``k`` is below 1.
        """
        if (user_id is not None) == all_users:
            raise ValueError("pass either user_id or all_users=True")
        k = min(checked("k", k, Count), self.trained_on.num_items)
        served = ServedScorer(self.scorer, self.trained_on)
        served.left_out[torch.from_numpy(self._indices("item", exclude))] = True
        rows = np.arange(served.num_users) if all_users else self._indices("user", user_id)
        known = None if allow_known else self.record.known
        top = full_ranking(served, k, seen=known, users=torch.from_numpy(rows))
        return self._frame(top.items, top.scores, self._ids["user"][rows], ~served.is_new[rows])

    def similar_items(self, item_id: int | str, k: int = 10) -> pl.DataFrame:
        """Return the ``k`` items with the most similar embeddings, by cosine.

        Columns are ``rank`` from 1, ``item`` and ``similarity``.

        Raises:
            ValueError: if the item is unknown or has no interactions in training, or ``k`` is below
                1.
        """
        checked("k", k, Count)
        items, is_trained = self.scorer.items, self.trained_rows("items")
        [column] = self._indices("item", item_id)
        if not is_trained[column]:
            raise ValueError(f"item {item_id} has no interactions in training, so no embedding")
        similarity = torch.cosine_similarity(items, items[column], dim=1)
        similarity[torch.from_numpy(~is_trained)] = -torch.inf
        similarity[column] = -torch.inf
        values, columns = top_columns(similarity[None], min(k, len(items)))
        return self._frame(columns, values).rename({"score": "similarity"})

    def embeddings(self, of: str) -> pl.DataFrame:
        """Return the embeddings of "users" or "items": ``id`` and ``embedding``, in data order.

        Users and items without interactions in training are excluded.
        """
        rows = np.flatnonzero(self.trained_rows(of))
        matrix = self.scorer.users if of == "users" else self.scorer.items
        ids = self._ids[of.removesuffix("s")][rows]
        return pl.DataFrame({"id": ids, "embedding": matrix.numpy()[rows]})

    def trained_rows(self, of: str) -> NDArray[np.bool_]:
        """Return a mask over "users" or "items": True for those with interactions in training."""
        counts: AnyArray = self.trained_on.matrix.sum(axis=1 if of == "users" else 0)
        return np.asarray(counts > 0)

    @cached_property
    def _index(self) -> dict[str, dict[str, int]]:
        """Row of each user and column of each item by id as text."""
        return {
            kind: {str(name): row for row, name in enumerate(ids.tolist())}
            for kind, ids in self._ids.items()
        }

    def _indices(self, kind: str, ids: object) -> NDArray[np.int64]:
        """Return the rows of users or columns of items; raise ``ValueError`` on unknown ids."""
        index, names = self._index[kind], _listed(ids)
        if unknown := [name for name in dict.fromkeys(names) if name not in index]:
            raise ValueError(
                f"{self.trained_on.name} has no {kind}{'s' * (len(unknown) > 1)} {listed(unknown)}"
                f"{hint(unknown[0], index)}"
            )
        return np.array([index[name] for name in names], dtype=np.int64)

    def _frame(
        self,
        items: Tensor,
        scores: Tensor,
        users: Sequence[object] | AnyArray | None = None,
        by_model: Tensor | None = None,
    ) -> pl.DataFrame:
        """Convert lists to rows, with users and the source if given."""
        rows, ranks = scores.isfinite().nonzero().T.numpy()
        chosen = items[rows, ranks].numpy()
        columns: Config = {} if users is None else {"user": np.asarray(users)[rows]}
        columns |= {"rank": ranks + 1, "item": self._ids["item"][chosen]}
        columns["score"] = scores[rows, ranks].numpy()
        if by_model is not None:
            columns["source"] = np.where(by_model[rows].numpy(), "model", "popularity")
        return pl.DataFrame(columns)


def _listed(ids: object) -> list[str]:
    """Convert ids to stripped text. A single text or number is one id."""
    names = [ids] if isinstance(ids, str) or not isinstance(ids, Iterable) else [*ids]
    return [str(name).strip() for name in names]
