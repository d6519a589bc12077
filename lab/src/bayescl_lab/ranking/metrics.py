r"""Metrics of top-k lists, averaged over users.

For a list of :math:`k` items, :math:`h_i \in \{0, 1\}` is 1 if the item at rank :math:`i` is
relevant, :math:`n` is the number of relevant items, and :math:`m = \min(k, n)`:

=============  ===================================================================================
``precision``  :math:`\frac{1}{k} \sum_i h_i`; a user with fewer than k unseen items still has k
               places
``recall``     :math:`\frac{1}{n} \sum_i h_i`; divided by all relevant items, even if more than k
``ndcg``       :math:`\sum_i \frac{h_i}{\log_2(i + 1)} \big/ \sum_{i \le m} \frac{1}{\log_2(i+1)}`;
               the ideal list ends after k places
=============  ===================================================================================

Users with :math:`n = 0` are excluded and counted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bayescl_lab._fields import Count, checked
from bayescl_lab.ranking.full_ranking import TopItems, full_ranking
from bayescl_lab.ranking.interactions import Interactions, RankingParts
from bayescl_lab.ranking.scorers import Scorer, ServedScorer

METRICS = ("precision", "recall", "ndcg")
"""Names of the metrics, in the order of the table above."""
LIST_LENGTHS = (5, 10, 20)
"""Lengths of the lists."""


@dataclass(frozen=True)
class Evaluation:
    """Metrics of the lists of some users.

    Attributes:
        users: Number of users in the means.
        metrics: Means by name; see :func:`ranking_metrics`. Empty if there are no users.
        users_left_out: Number of users without relevant items.
        groups: Evaluations of ``known_users``, who are in training, and ``unknown_users``. Empty if
            all users are in training.
    """

    users: int
    metrics: Mapping[str, float] = field(default_factory=dict)
    users_left_out: int = 0
    groups: Mapping[str, Evaluation] = field(default_factory=dict)


def evaluate_ranking(
    scorer: Scorer, parts: RankingParts, ks: Sequence[int] = LIST_LENGTHS
) -> Evaluation:
    """Rank all items without a user's training items, and evaluate lists of several lengths.

    The lists are made as in serving; see :class:`~bayescl_lab.ranking.scorers.ServedScorer`.

    Args:
        scorer: Model to evaluate, trained on the training split.
        parts: Interactions to exclude from lists, and relevant interactions.
        ks: Lengths of lists.

    Raises:
        ValueError: if a k is below 1.
    """
    judged = torch.from_numpy(np.flatnonzero(np.diff(parts.evaluation.matrix.indptr)))
    left_out = parts.evaluation.num_users - len(judged)
    if len(judged) == 0:
        return Evaluation(0, users_left_out=left_out)
    served = ServedScorer(scorer, parts.train)
    deepest = max(checked("k", k, Count) for k in ks)
    top = full_ranking(served, deepest, seen=parts.train, users=judged)

    def evaluation(rows: Bool[Tensor, " users"]) -> Evaluation:
        lists = TopItems(top.users[rows], top.items[rows], top.scores[rows])
        return Evaluation(len(lists.users), ranking_metrics(lists, parts.evaluation, ks))

    is_new = served.is_new[judged]
    groups = {"known_users": ~is_new, "unknown_users": is_new} if is_new.any() else {}
    evaluated = {name: evaluation(rows) for name, rows in groups.items() if rows.any()}
    metrics = ranking_metrics(top, parts.evaluation, ks)
    return Evaluation(len(judged), metrics, left_out, evaluated)


def ranking_metrics(
    top: TopItems, wanted: Interactions, ks: Sequence[int] = LIST_LENGTHS
) -> dict[str, float]:
    """Compute metrics of lists.

    Args:
        top: Lists of users with at least one relevant item. Their length is at least the largest k,
            or the number of items if that is smaller.
        wanted: Relevant items.
        ks: Lengths of lists to evaluate.

    Returns:
        ``{"precision@5": ..., "recall@5": ..., ...}``, every metric at every k.

    Raises:
        ValueError: if a k is above the length of the lists.

    Example:
        >>> wanted = Interactions.from_pairs([0, 0], [2, 3], user_ids=1, item_ids=5)
        >>> lists = TopItems(torch.tensor([0]), torch.tensor([[1, 2]]), torch.tensor([[2.0, 1.0]]))
        >>> metrics = ranking_metrics(lists, wanted, ks=[2])
        >>> metrics["precision@2"], metrics["recall@2"], round(metrics["ndcg@2"], 4)
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
    k: int, hits: Bool[Tensor, "users ranks"], wanted: Int[Tensor, " users"]
) -> dict[str, Float[Tensor, " users"]]:
    """Compute all metrics of each user for lists of length ``k``, or of all items."""
    hits = hits.double()
    total = hits.sum(dim=1)
    discounts = 1 / torch.arange(2, hits.shape[1] + 2, dtype=torch.float64).log2()
    reachable = wanted.clamp(max=hits.shape[1])
    return {
        "precision": total / k,
        "recall": total / wanted,
        "ndcg": hits @ discounts / discounts.cumsum(0)[reachable - 1],
    }
