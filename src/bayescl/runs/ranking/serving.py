"""What a run is for: lists of items for users, and embeddings.

A finished run serves from its own folder: interactions, ids and matrices lie there. Nothing here
reads the data that the run was trained on, and nothing imports Lightning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl
import torch

from bayescl._axes import Bool, Float, Int, Tensor
from bayescl._checks import check_count
from bayescl.functional.similarity import unit_vectors
from bayescl.recsys.full_ranking import full_ranking, top_columns
from bayescl.recsys.interactions import Interactions, RankingParts
from bayescl.recsys.popularity import Popularity
from bayescl.recsys.scorers import EmbeddingScorer, Scorer
from bayescl.runs.folder import RunFolder
from bayescl.runs.ranking.fitting import fitted
from bayescl.runs.ranking.matrices import read_embeddings
from bayescl.runs.ranking.memory import RankingMemory
from bayescl.runs.ranking.settings import BASELINES, KIND, BaselineSettings


@dataclass(frozen=True)
class Recommender:
    """A run, ready to recommend.

    Attributes:
        scorer: scores all items for some users.
        parts: what the run's result is judged by.
        known: every interaction of every part, which lists leave out.
        epochs: how many epochs the weights saw; None of a baseline.
        of_epochs: how many the run may have; None of a baseline.
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
        exclude: Sequence[int | str] = (),
        allow_known: bool = False,
    ) -> pl.DataFrame:
        """The best items that users do not have yet.

        What a user has in any part of the data is left out: the run was trained on one part and
        judged on another, but the user has all of it. Users of whom training saw nothing, and
        users who are not in the data, get the most popular items; see :meth:`is_trained_on`.

        Args:
            user_id: whose, as the data set names the user; default: everyone's.
            k: items per list at most; users who have nearly all items get fewer.
            exclude: ids of further items that no list may hold.
            allow_known: whether lists may hold items that the user has.

        Returns:
            One row per item, list by list: ``user``, ``rank`` from 1, ``item``, ``title`` where
            the data set has titles, and ``score``: of popular items the number of their users.

        Raises:
            ValueError: if there is no item of an id in ``exclude``, or ``k`` is below 1.
        """
        check_count("k", k, 1)
        without = torch.from_numpy(self.known.item_columns(exclude))
        scorer: Scorer = _WithFallback(self.scorer, self._popularity, self._trained, without)
        seen = None if allow_known else self.known
        ids, rows = self.known.user_ids, None
        if user_id is not None and self._row(user_id) is None:
            scorer, seen, rows = _Everybody(self._popularity, without), None, torch.tensor([0])
            ids = np.array([user_id])
        elif user_id is not None:
            rows = torch.tensor([self._row(user_id)])
        top = full_ranking(scorer, k, seen=seen, users=rows)
        places = torch.arange(1, top.items.shape[1] + 1).expand_as(top.items)
        there = top.items >= 0
        users = top.users[:, None].expand_as(top.items)[there].numpy()
        items = top.items[there].numpy()
        columns = {
            "user": ids[users],
            "rank": places[there].numpy(),
            "item": self.known.item_ids[items],
        }
        if self.known.item_titles is not None:
            columns["title"] = self.known.item_titles[items]
        return pl.DataFrame({**columns, "score": top.scores[there].numpy()})

    def is_trained_on(self, user_id: int | str) -> bool:
        """Whether training saw an interaction of a user; other users get popular items."""
        row = self._row(user_id)
        return row is not None and bool(self._trained[row])

    @property
    def untrained_users(self) -> int:
        """How many users of the data training saw nothing of."""
        return int((~self._trained).sum())

    def similar_items(self, item_id: int | str, k: int = 10) -> pl.DataFrame:
        """The items whose embeddings point in the most similar direction.

        Args:
            item_id: an item, as the data set names it.
            k: how many at most.

        Returns:
            ``rank`` from 1, ``item``, ``title`` where the data set has titles, and ``similarity``,
            a cosine.

        Raises:
            ValueError: if there is no such item, ``k`` is below 1, or the recommender has no
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
            ValueError: if the recommender has none.
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
        """The row of a user; None where the data have no such user."""
        try:
            return self.known.user_row(user_id)
        except ValueError:
            return None

    @cached_property
    def _popularity(self) -> Popularity:
        """How many users have each item."""
        return Popularity(self.known)

    @cached_property
    def _trained(self) -> Bool[Tensor, " users"]:
        """True for users of whom training saw something."""
        return torch.from_numpy(np.diff(self.parts.train.matrix.indptr) > 0)


def load_recommender(path: Path) -> Recommender:
    """Take a run's best weights, or its last ones where no epoch was chosen.

    A baseline is fitted again.

    Args:
        path: the run folder; the run may still be going on.

    Raises:
        ValueError: if the folder holds no recommender, or no usable checkpoint yet; or, if it was
            made before runs remembered their data, the data are gone.
    """
    folder = RunFolder.open(path, KIND)
    config = folder.config()
    memory = RankingMemory.read(folder)
    if config.get("encoder") in BASELINES:
        baseline = BaselineSettings.from_config(config)
        if memory is None:
            memory = RankingMemory.of(baseline.data, baseline.evaluate_on, watches=False)
        parts = memory.parts(baseline.evaluate_on)
        return Recommender(fitted(baseline, parts.train), parts, memory.known())
    stored = read_embeddings(folder) if folder.is_finished else None
    if memory is not None and stored is not None:
        scorer, epochs = stored
        parts = memory.parts(config.get("evaluate_on", "test"))
        return Recommender(scorer, parts, memory.known(), epochs, config["epochs"])

    from bayescl.runs.ranking.run import RankingRun

    given = {} if memory is None else {"memory": memory}
    run = RankingRun(RankingRun.settings_type.from_config(config), **given)
    epochs = run.load(folder.kept_checkpoint())
    known = run.memory.known()
    return Recommender(run.model.scorer(), run.parts, known, epochs, run.settings.epochs)


class _WithFallback:
    """Scores of a recommender, and of popularity for users whom training has not seen."""

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
        """Scores of all items, of those left out minus infinity."""
        scores = self.scorer.scores(users)
        unseen = ~self.trained[users]
        if bool(unseen.any()):
            scores[unseen] = self.popularity.scores(users[unseen]).to(scores)
        scores[:, self.without] = -torch.inf
        return scores


class _Everybody:
    """One row for whoever is not in the data: popularity."""

    def __init__(self, popularity: Popularity, without: Int[Tensor, " items"]) -> None:
        self.popularity = popularity
        self.without = without
        self.num_users = 1
        self.num_items = popularity.num_items

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Scores of all items, of those left out minus infinity."""
        scores = self.popularity.scores(users)
        scores[:, self.without] = -torch.inf
        return scores
