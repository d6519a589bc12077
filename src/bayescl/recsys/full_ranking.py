"""The best unseen items of every user, out of all items."""

from __future__ import annotations

from dataclasses import dataclass

from bayescl._axes import Float, Int, Tensor
from bayescl.recsys.interactions import Interactions
from bayescl.recsys.scorers import Scorer

_BLOCK_SCORES = 2**24
"""Scores held at a time: 64 MB."""

_CHUNK = 64
"""Items that share a maximum in the first pass."""


@dataclass(frozen=True)
class TopItems:
    """The best items of some users.

    Attributes:
        users: the users, ``[users]``.
        items: each one's items from best to worst, ``[users, k]``; -1 fills up the rows of users
            who have fewer unseen items.
        scores: the scores of the items; -inf where there is none.
    """

    users: Int[Tensor, "users"]
    items: Int[Tensor, "users k"]
    scores: Float[Tensor, "users k"]


def full_ranking(
    scorer: Scorer,
    k: int,
    *,
    seen: Interactions | None = None,
    users: Int[Tensor, "users"] | None = None,
    block_size: int | None = None,
) -> TopItems:
    """Rank all items for each user and keep the first ``k``.

    Users are taken in blocks, so the scores of all users are never held together. Equal scores are
    ranked by item number, the lower first, so lists do not depend on blocks or on the machine's
    number of threads further than the scores themselves do.

    Args:
        scorer: scores all items for some users.
        k: length of the lists; cut at the number of items.
        seen: interactions that are left out of the lists, usually those of training.
        users: whose lists are wanted; everyone's unless given.
        block_size: users at a time; a size that suits unless given.

    Returns:
        The lists, in the order of ``users``.

    Raises:
        ValueError: if ``k`` or ``block_size`` is below 1, ``seen`` is of other users and items, or
            a score is NaN.

    Example:
        >>> from bayescl.recsys.scorers import EmbeddingScorer
        >>> scorer = EmbeddingScorer(torch.eye(2), torch.tensor([[0.0, 1.0], [3.0, 4.0]]))
        >>> full_ranking(scorer, k=1).items
        tensor([[1],
                [0]])
    """
    raise NotImplementedError
