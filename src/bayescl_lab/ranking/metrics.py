r"""Metrics of top-k lists, averaged over users.

For a list of :math:`k` items, :math:`h_i \in \{0, 1\}` is 1 if the item at rank :math:`i` is
relevant, :math:`n` is the number of relevant items, and :math:`m = \min(k, n)`:

=============  ===================================================================================
``precision``  :math:`\frac{1}{k} \sum_i h_i`; a user with fewer than k unseen items still has k
               places
``recall``     :math:`\frac{1}{n} \sum_i h_i`; divided by all that should be found, even beyond k
``ndcg``       :math:`\sum_i \frac{h_i}{\log_2(i + 1)} \big/ \sum_{i \le m} \frac{1}{\log_2(i+1)}`;
               the ideal list ends after k places
``hit_rate``   1 if any :math:`h_i` is 1
``mrr``        one over the rank of the first hit, 0 without any
``map``        :math:`\frac{1}{m} \sum_i h_i \cdot \frac{1}{i} \sum_{j \le i} h_j`
=============  ===================================================================================

Users with :math:`n = 0` are excluded and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_count
from bayescl_lab.ranking.full_ranking import TopItems, full_ranking
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.scorers import Scorer, ServedScorer

METRICS = ("precision", "recall", "ndcg", "hit_rate", "mrr", "map")
"""Names of the metrics, in the order of the table above."""
LIST_LENGTHS = (5, 10, 20)
"""Lengths of the lists."""


def evaluate_ranking(
    scorer: Scorer,
    parts: RankingParts,
    ks: Sequence[int] = LIST_LENGTHS,
    *,
    trained_on: Interactions | None = None,
) -> dict[str, Any]:
    """Rank all items without a user's training items, and evaluate lists of several lengths.

    The lists are made as in serving; see :class:`~bayescl_lab.ranking.scorers.ServedScorer`.

    Args:
        scorer: Model to evaluate.
        parts: Interactions to exclude from lists, and relevant interactions.
        ks: lengths of lists.
        trained_on: Training interactions of the model. Default: the interactions that lists
            exclude.

    Returns:
        ``metrics`` (see :func:`ranking_metrics`), ``users``, the number of users in the means, and
        ``users_left_out``, the number of users without relevant items. There are no metrics without
        an evaluation part. If some users are not in training, ``known_users`` and ``unknown_users``
        have the ``metrics`` and ``users`` of each group.

    Raises:
        ValueError: if a k is below 1.
    """
    evaluated = torch.from_numpy(np.flatnonzero(np.diff(parts.evaluation.matrix.indptr)))
    left_out = parts.evaluation.num_users - len(evaluated)
    result: dict[str, Any] = {"metrics": {}, "users": len(evaluated), "users_left_out": left_out}
    if len(evaluated) > 0:
        deepest = max(check_count("k", k, 1) for k in ks)
        served = ServedScorer(scorer, trained_on or parts.train)
        top = full_ranking(served, deepest, seen=parts.train, users=evaluated)
        result["metrics"] = ranking_metrics(top, parts.evaluation, ks)
        is_new = served.is_new[evaluated]
        for name, rows in (("known_users", ~is_new), ("unknown_users", is_new)):
            if is_new.any() and rows.any():
                group = TopItems(top.users[rows], top.items[rows], top.scores[rows])
                metrics = ranking_metrics(group, parts.evaluation, ks)
                result[name] = {"users": len(group.users), "metrics": metrics}
    return result


def ranking_metrics(
    top: TopItems, wanted: Interactions, ks: Sequence[int] = LIST_LENGTHS
) -> dict[str, float]:
    """Compute metrics of lists.

    Args:
        top: Lists of users with at least one relevant item. Their length is at least the largest k,
            or the number of items if that is smaller.
        wanted: Relevant items.
        ks: lengths of lists to evaluate.

    Returns:
        ``{"precision@5": ..., "recall@5": ..., ...}``, every metric at every k.

    Raises:
        ValueError: if a k is above the length of the lists.

    Example:
        >>> wanted = Interactions.from_pairs([0, 0], [2, 3], user_ids=1, item_ids=5)
        >>> lists = TopItems(torch.tensor([0]), torch.tensor([[1, 2]]), torch.tensor([[2.0, 1.0]]))
        >>> metrics = ranking_metrics(lists, wanted, ks=[2])
        >>> metrics["precision@2"], metrics["mrr@2"], round(metrics["ndcg@2"], 4)
        (0.5, 0.5, 0.3869)
    """
    counts = torch.from_numpy(np.diff(wanted.matrix.indptr))[top.users]
    hits = torch.from_numpy(wanted.contains(top.users.numpy()[:, None], top.items.numpy()))
    metrics: dict[str, float] = {}
    for k in ks:
        if k > hits.shape[1] and hits.shape[1] < wanted.num_items:
            raise ValueError(f"k must be at most the lists' length {hits.shape[1]}, got {k}")
        values = _at(k, hits[:, :k], counts)
        metrics |= {f"{name}@{k}": float(values[name].mean()) for name in METRICS}
    return metrics


def _at(
    k: int, hits: Bool[Tensor, "users places"], wanted: Int[Tensor, " users"]
) -> dict[str, Float[Tensor, " users"]]:
    """Compute all metrics of each user for lists of length ``k``, or of all items."""
    hits = hits.double()
    ranks = torch.arange(1, hits.shape[1] + 1, dtype=torch.float64)
    hits_so_far = hits.cumsum(dim=1)
    total = hits_so_far[:, -1]
    discounts = 1 / torch.log2(ranks + 1)
    reachable = wanted.clamp(max=hits.shape[1])
    return {
        "precision": total / k,
        "recall": total / wanted,
        "ndcg": hits @ discounts / discounts.cumsum(0)[reachable - 1],
        "hit_rate": (total > 0).double(),
        "mrr": (hits / ranks).amax(dim=1),
        "map": (hits * hits_so_far / ranks).sum(dim=1) / reachable,
    }
