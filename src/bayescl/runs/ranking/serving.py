"""What a run is for: lists of items for users, and embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import polars as pl
import torch

from bayescl.recsys.full_ranking import full_ranking
from bayescl.recsys.interactions import RankingParts
from bayescl.recsys.scorers import EmbeddingScorer, Scorer
from bayescl.runs.folder import RunFolder
from bayescl.runs.ranking.baselines import fitted
from bayescl.runs.ranking.run import KIND, RankingRun
from bayescl.runs.ranking.settings import BASELINES, BaselineSettings


@dataclass(frozen=True)
class Recommender:
    """A run, ready to recommend.

    Attributes:
        scorer: scores all items for some users.
        parts: the interactions; lists leave out what is in ``train``.
        epochs: how many epochs the weights saw; None of a baseline.
        of_epochs: how many the run may have; None of a baseline.
    """

    scorer: Scorer
    parts: RankingParts
    epochs: int | None = None
    of_epochs: int | None = None

    def recommend(self, user_id: str | None = None, k: int = 10) -> pl.DataFrame:
        """The best items that users do not have yet.

        Args:
            user_id: whose, as the data set names the user; default: everyone's.
            k: items per list at most; users who have nearly all items get fewer.

        Returns:
            One row per item, list by list: ``user``, ``rank`` from 1, ``item``, ``title`` where
            the data set has titles, and ``score``.

        Raises:
            ValueError: if there is no such user, or ``k`` is below 1.
        """
        known = self.parts.train
        rows = None if user_id is None else torch.tensor([known.user_row(user_id)])
        top = full_ranking(self.scorer, k, seen=known, users=rows)
        places = torch.arange(1, top.items.shape[1] + 1).expand_as(top.items)
        there = top.items >= 0
        users = top.users[:, None].expand_as(top.items)[there].numpy()
        items = top.items[there].numpy()
        columns = {
            "user": known.user_ids[users],
            "rank": places[there].numpy(),
            "item": known.item_ids[items],
        }
        if known.item_titles is not None:
            columns["title"] = known.item_titles[items]
        return pl.DataFrame({**columns, "score": top.scores[there].numpy()})

    def embeddings(self, of: str) -> pl.DataFrame:
        """The embeddings of all users or all items.

        Args:
            of: "users" or "items".

        Returns:
            ``id`` and ``embedding``, in the order of the data's rows or columns.

        Raises:
            ValueError: if the recommender has none.
        """
        scorer = self.scorer if isinstance(self.scorer, EmbeddingScorer) else None
        if scorer is None:
            raise ValueError("a baseline has no embeddings: train with encoder mf or lightgcn")
        rows = scorer.users if of == "users" else scorer.items
        ids = self.parts.train.user_ids if of == "users" else self.parts.train.item_ids
        return pl.DataFrame({"id": ids, "embedding": rows.cpu().numpy()})


def load_recommender(path: Path) -> Recommender:
    """Take a run's best weights, or its last ones where no epoch was chosen.

    A baseline is fitted anew.

    Args:
        path: the run folder; the run may still be going on.

    Raises:
        ValueError: if the folder holds no recommender, or no usable checkpoint yet, or its data
            is gone.
    """
    folder = RunFolder.open(path, KIND)
    config = folder.config()
    if config.get("encoder") in BASELINES:
        baseline = BaselineSettings.from_config(config)
        parts = baseline.data.load(baseline.evaluate_on)
        return Recommender(fitted(baseline, parts.train), parts)
    _, run, epochs = RankingRun.kept(path)
    return Recommender(run.model.scorer(), run.parts, epochs, run.settings.epochs)
