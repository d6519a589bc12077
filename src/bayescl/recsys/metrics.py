"""Figures of merit of top-k lists, each a mean over users."""

from __future__ import annotations

from collections.abc import Sequence

from bayescl.recsys.full_ranking import TopItems
from bayescl.recsys.interactions import Interactions, RankingParts
from bayescl.recsys.scorers import Scorer


def evaluate_ranking(
    scorer: Scorer,
    parts: RankingParts,
    ks: Sequence[int] = (5, 10, 20),
    *,
    block_size: int | None = None,
) -> dict[str, float]:
    """Rank all items that a user has not seen in training, and judge the first ``k``.

    Args:
        scorer: scores all items for some users: ``encoder.scorer()``, a baseline, or an
            :class:`~bayescl.recsys.scorers.EmbeddingScorer`.
        parts: what was seen, and what should be found.
        ks: lengths of lists.
        block_size: users at a time; a size that suits unless given.

    Returns:
        ``{"precision@5": ..., "recall@5": ..., ...}``: for each k ``precision``, ``recall``,
        ``ndcg``, ``hit_rate``, ``mrr`` and ``map``, as :func:`ranking_metrics` defines them; and
        ``users`` and ``users_left_out``, how many users the means are over, and how many have
        nothing to be found.
    """
    raise NotImplementedError


def ranking_metrics(
    top: TopItems, wanted: Interactions, ks: Sequence[int] = (5, 10, 20)
) -> dict[str, float]:
    """Judge lists by the items that should be found. See :func:`evaluate_ranking`."""
    raise NotImplementedError
