"""A data set with a known answer: groups of users who like all items of their own group."""

import numpy as np

from bayescl_lab.ranking.interactions import Interactions, RankingParts


def checkerboard(
    groups: int = 3, users_per_group: int = 24, items_per_group: int = 12
) -> RankingParts:
    """Every user likes the items of one group; some of them, drawn per user, are to be found.

    Users and items are numbered at random, so that neither number tells the group. A recommender
    that has understood puts a user's two held-out items in front of all other unseen ones.
    """
    generator = np.random.default_rng(0)
    group_of_user = generator.permutation(np.repeat(np.arange(groups), users_per_group))
    group_of_item = generator.permutation(np.repeat(np.arange(groups), items_per_group))
    liked = group_of_user[:, None] == group_of_item
    hidden = np.zeros_like(liked)
    for user, row in enumerate(liked):
        hidden[user, generator.choice(np.flatnonzero(row), 2, replace=False)] = True

    parts = interactions(liked & ~hidden, "train"), interactions(hidden, "test")
    return RankingParts(*parts, "test")


def interactions(mask: np.ndarray, name: str = "") -> Interactions:
    """Users with the items where a matrix is not zero."""
    users, items = mask.shape
    return Interactions.from_pairs(*mask.nonzero(), user_ids=users, item_ids=items, name=name)
