"""Serve a run: lists of items for users, and embeddings.

A finished run serves from its own folder, which holds interactions, ids and matrices. Nothing here
reads the original data or imports Lightning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from numpy.typing import NDArray

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_count
from bayescl.functional.similarity import unit_vectors
from bayescl_lab.ranking.ease import EASE
from bayescl_lab.ranking.fold_in import NewcomerScorer
from bayescl_lab.ranking.full_ranking import TopItems, full_ranking, top_columns
from bayescl_lab.ranking.ials import IALS
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.popularity import Popularity
from bayescl_lab.ranking.scorers import EmbeddingScorer, Scorer, ScoresNewcomers
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.ranking.baselines import fitted
from bayescl_lab.runs.ranking.record import RankingRecord, read_embeddings
from bayescl_lab.runs.ranking.settings import KIND, baseline_of


@dataclass(frozen=True)
class Recommender:
    """A run, ready to recommend.

    Attributes:
        scorer: scores all items for some users.
        parts: the interactions that the run is evaluated on.
        known: every interaction of every part, which lists leave out.
        epochs: number of epochs that the weights saw; None for a baseline.
        of_epochs: the run's number of epochs; None for a baseline.
    """

    scorer: Scorer
    parts: RankingParts
    known: Interactions
    epochs: int | None = None
    of_epochs: int | None = None

    def recommend(
        self,
        user_id: int | str | None = None,
        k: int = 10,
        *,
        items: Sequence[int | str] | None = None,
        exclude: Sequence[int | str] = (),
        allow_known: bool = False,
    ) -> pl.DataFrame:
        """The best items that users do not have yet.

        A user's items in any part of the data are left out: the run was trained on one part and
        evaluated on another, but the user has them all. Users without interactions in training, and
        users who are not in the data, get the most popular items; see :meth:`is_trained_on`.

        A new user with some items gets a list based on them: with embeddings by
        :mod:`bayescl_lab.ranking.fold_in`, with EASE and iALS by their own formulas. Items without
        interactions in training are ignored; if there are no others, the list is that of popular
        items.

        Args:
            user_id: the user's id in the data set; default: all users.
            k: items per list; users who have nearly all items get fewer.
            items: ids of the items of a user who is not in the data; instead of ``user_id``.
            exclude: ids of further items to leave out.
            allow_known: whether lists may hold items that the user has.

        Returns:
            One row per item, list by list: ``user`` (without ``items``), ``rank`` from 1, ``item``,
            ``title`` if the data set has titles, and ``score``, for popular items the number of
            their users.

        Raises:
            ValueError: if ``exclude`` or ``items`` has an unknown id, both a user and items are
                given, ``items`` is empty, or ``k`` is below 1.
        """
        check_count("k", k, 1)
        if items is not None:
            if user_id is not None:
                raise ValueError("give either a user or the items of a new user, not both")
            return self._by_items(items, k, exclude, allow_known=allow_known)
        without = torch.from_numpy(self.known.item_columns(exclude))
        scorer: Scorer = _WithFallback(self.scorer, self._popularity, self._trained, without)
        seen = None if allow_known else self.known
        ids, rows = self.known.user_ids, None
        if user_id is not None and self._row(user_id) is None:
            scorer, seen, ids = (
                _OneList(self._popularity.counts, without),
                None,
                np.array([user_id]),
            )
        elif user_id is not None:
            rows = torch.tensor([self._row(user_id)])
        top = full_ranking(scorer, k, seen=seen, users=rows)
        return self._frame(top, ids)

    def _frame(self, top: TopItems, user_ids: NDArray[Any] | None) -> pl.DataFrame:
        """Lists as rows, with the ids of their users if there are any."""
        places = torch.arange(1, top.items.shape[1] + 1).expand_as(top.items)
        there = top.items >= 0
        items = top.items[there].numpy()
        columns: dict[str, NDArray[Any]] = {}
        if user_ids is not None:
            columns["user"] = user_ids[top.users[:, None].expand_as(top.items)[there].numpy()]
        columns |= {"rank": places[there].numpy(), "item": self.known.item_ids[items]}
        if self.known.item_titles is not None:
            columns["title"] = self.known.item_titles[items]
        return pl.DataFrame({**columns, "score": top.scores[there].numpy()})

    def says_nothing(self, items: Sequence[int | str]) -> bool:
        """Whether no item has interactions in training, so that the list is of popular items."""
        return not bool(self._trained_items[self.known.item_columns(items)].any())

    def _by_items(
        self,
        items: Sequence[int | str],
        k: int,
        exclude: Sequence[int | str],
        *,
        allow_known: bool,
    ) -> pl.DataFrame:
        """The list of a user who has some items."""
        columns = torch.from_numpy(np.unique(self.known.item_columns(items)))
        if len(columns) == 0:
            raise ValueError("items must name at least one item, got none")
        without = torch.from_numpy(self.known.item_columns(exclude))
        if not allow_known:
            without = torch.cat([without, columns])
        telling = columns[self._trained_items[columns]]
        newcomers = self._newcomers if len(telling) else self._popularity
        scorer = _OneList(newcomers.scores_from(telling), without)
        return self._frame(full_ranking(scorer, k), None)

    def is_trained_on(self, user_id: int | str) -> bool:
        """Whether a user has interactions in training; other users get popular items."""
        row = self._row(user_id)
        return row is not None and bool(self._trained[row])

    @property
    def untrained_users(self) -> int:
        """Number of users without interactions in training."""
        return int((~self._trained).sum())

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
        items = unit_vectors(self._embedding_scorer().items.cpu())
        (column,) = self.known.item_columns([item_id])
        similarity = (items @ items[int(column)])[None]
        similarity[0, int(column)] = -torch.inf
        values, columns = top_columns(similarity, min(check_count("k", k, 1), len(items)))
        found = columns[values > -torch.inf].numpy()
        frame = {"rank": np.arange(1, len(found) + 1), "item": self.known.item_ids[found]}
        if self.known.item_titles is not None:
            frame["title"] = self.known.item_titles[found]
        return pl.DataFrame({**frame, "similarity": values[values > -torch.inf].numpy()})

    def embeddings(self, of: str) -> pl.DataFrame:
        """The embeddings of all users or all items.

        Args:
            of: "users" or "items".

        Returns:
            ``id`` and ``embedding``, in the order of the data's rows or columns.

        Raises:
            ValueError: if the recommender has no embeddings.
        """
        scorer = self._embedding_scorer()
        rows = scorer.users if of == "users" else scorer.items
        ids = self.known.user_ids if of == "users" else self.known.item_ids
        return pl.DataFrame({"id": ids, "embedding": rows.cpu().numpy()})

    def _embedding_scorer(self) -> EmbeddingScorer:
        """The scorer, if it has embeddings."""
        if isinstance(self.scorer, EmbeddingScorer):
            return self.scorer
        raise ValueError("a baseline has no embeddings: train with encoder mf or lightgcn")

    def _row(self, user_id: int | str) -> int | None:
        """The row of a user; None if the user is not in the data."""
        try:
            return self.known.user_row(user_id)
        except ValueError:
            return None

    @cached_property
    def _popularity(self) -> Popularity:
        """The number of users of each item."""
        return Popularity(self.known)

    @cached_property
    def _newcomers(self) -> ScoresNewcomers:
        """The scorer of items for users who are not in the data."""
        if isinstance(self.scorer, (EASE, IALS, Popularity)):
            return self.scorer
        if isinstance(self.scorer, EmbeddingScorer):
            return NewcomerScorer(self.scorer, self.parts.train)
        raise ValueError(f"{type(self.scorer).__name__} has no lists for new users")

    @cached_property
    def _trained_items(self) -> Bool[Tensor, " items"]:
        """True for items with interactions in training."""
        train = self.parts.train
        return torch.from_numpy(np.bincount(train.matrix.indices, minlength=train.num_items) > 0)

    @cached_property
    def _trained(self) -> Bool[Tensor, " users"]:
        """True for users with interactions in training."""
        return torch.from_numpy(np.diff(self.parts.train.matrix.indptr) > 0)


def load_recommender(path: Path) -> Recommender:
    """Load a run with its best weights, or with the last ones if no epoch was chosen.

    A baseline is fitted again.

    Args:
        path: the run folder; the run may still be training.

    Raises:
        ValueError: if the folder does not hold a recommender with a usable checkpoint.
    """
    folder = RunFolder.open(path, KIND)
    config = folder.config()
    record = RankingRecord.read(folder)
    parts, known = record.parts(config["evaluate_on"]), record.known()
    baseline = baseline_of(config)
    if baseline is not None:
        return Recommender(fitted(baseline, parts.train), parts, known)
    if folder.is_finished:
        scorer, epochs = read_embeddings(folder)
        return Recommender(scorer, parts, known, epochs, config["epochs"])

    from bayescl_lab.runs.ranking.run import RankingRun

    run = RankingRun(RankingRun.settings_type.from_config(config), record=record)
    epochs = run.load(folder.kept_checkpoint())
    return Recommender(run.model.scorer(), parts, known, epochs, config["epochs"])


class _WithFallback:
    """Scores of a recommender, and popularity for users without interactions in training."""

    def __init__(
        self,
        scorer: Scorer,
        popularity: Popularity,
        trained: Bool[Tensor, " users"],
        without: Int[Tensor, " items"],
    ) -> None:
        self.scorer = scorer
        self.popularity = popularity
        self.trained = trained
        self.without = without
        self.num_users = scorer.num_users
        self.num_items = scorer.num_items

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Scores of all items; minus infinity for those left out."""
        scores = self.scorer.scores(users)
        unseen = ~self.trained[users]
        if bool(unseen.any()):
            scores[unseen] = self.popularity.scores(users[unseen]).to(scores)
        scores[:, self.without] = -torch.inf
        return scores


class _OneList:
    """The same scores for every user."""

    def __init__(self, scores: Float[Tensor, " items"], without: Int[Tensor, " items"]) -> None:
        self.row = scores.clone()
        self.row[without] = -torch.inf
        self.num_users = 1
        self.num_items = len(scores)

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Scores of all items; minus infinity for those left out."""
        return self.row.repeat(len(users), 1)
