"""Full rankings: the best unseen items of every user."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from bayescl_lab._fields import Count, checked
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.scorers import Scorer

_BLOCK_SCORES = 2**22  # held at a time: 16 MB, which fit into the caches of most machines


@dataclass(frozen=True)
class TopItems:
    """Best items of users.

    Attributes:
        users: Users, ``[users]``.
        items: Items of each user from best to worst, ``[users, k]``, padded with -1 if there are
            fewer unseen items.
        scores: Scores of the items; -inf for padding.
    """

    users: Int[Tensor, " users"]
    items: Int[Tensor, "users k"]
    scores: Float[Tensor, "users k"]


def full_ranking(
    scorer: Scorer,
    k: int,
    *,
    seen: Interactions | None = None,
    users: Int[Tensor, " users"] | None = None,
) -> TopItems:
    """Rank all items for each user and keep the first ``k``.

    Users are processed in blocks to bound the memory. Equal scores are ranked by item number,
    lowest first, so lists are deterministic for given scores.

    Args:
        scorer: Model that scores all items for some users.
        k: Length of the lists, at least 1. Lists have at most as many entries as there are items.
        seen: Interactions to exclude from the lists, usually the training interactions.
        users: Users to rank for, in the order of the lists. Default: all.

    Raises:
        ValueError: if ``k`` is below 1, ``seen`` has other users or items, or a score is NaN.

    Example:
        >>> from bayescl_lab.ranking.scorers import EmbeddingScorer
        >>> scorer = EmbeddingScorer(torch.eye(2), torch.tensor([[0.0, 1.0], [0.6, 0.8]]))
        >>> full_ranking(scorer, k=1).items
        tensor([[1],
                [0]])
    """
    k = min(checked("k", k, Count), scorer.num_items)
    block_size = max(1, _BLOCK_SCORES // scorer.num_items)
    shape = (scorer.num_users, scorer.num_items)
    if seen is not None and seen.matrix.shape != shape:
        raise ValueError(
            f"seen must have the scorer's numbers of users and items, {list(shape)}, "
            f"got {list(seen.matrix.shape)}"
        )
    users = torch.arange(scorer.num_users) if users is None else users.cpu()
    items = torch.empty(len(users), k, dtype=torch.int64)
    scores = torch.empty(len(users), k)
    for start in range(0, len(users), block_size):
        rows = slice(start, start + block_size)
        block = scorer.scores(users[rows])
        if seen is not None:
            known = seen.matrix[users[rows].numpy()]
            row_of = np.repeat(np.arange(len(block)), np.diff(known.indptr))
            block[torch.from_numpy(row_of), torch.from_numpy(known.indices)] = -torch.inf
        values, columns = top_columns(block, k)
        scores[rows], items[rows] = values, columns.masked_fill(values == -torch.inf, -1)
    return TopItems(users, items, scores)


@torch.no_grad()
def top_columns(
    scores: Float[Tensor, "rows columns"], k: int
) -> tuple[Float[Tensor, "rows k"], Int[Tensor, "rows k"]]:
    """Return the ``k`` largest entries of each row, in descending order and then by column.

    ``torch.topk`` does not define the order of equal entries. The selection of a row is
    repeated if its last entry equals an excluded entry.

    Raises:
        ValueError: if a score is NaN.
    """
    values, columns = scores.topk(min(k + 1, scores.shape[1]))
    if bool(values[:, 0].isnan().any()):  # NaN counts as the largest
        raise ValueError("scores must not be NaN")
    last = values[:, k - 1, None]
    columns = columns[:, :k].sort(dim=1).values
    tied = (values[:, k:] == last).any(dim=1)
    if bool(tied.any()):
        rows, last = scores[tied], last[tied]
        above, equal = rows > last, rows == last
        wanted = k - above.sum(dim=1, keepdim=True)
        taken = above | (equal & (equal.cumsum(dim=1, dtype=torch.int32) <= wanted))
        columns[tied] = taken.nonzero()[:, 1].reshape(-1, k)
    values, order = scores.gather(1, columns).sort(dim=1, descending=True, stable=True)
    return values, columns.gather(1, order)
