"""The popularity baseline: the same list for everybody."""

from __future__ import annotations

import numpy as np
import torch

from bayescl.axes import Float, Int, Tensor
from bayescl_lab.ranking.interactions import Interactions


class Popularity:
    """Score every item by how many users chose it in training.

    Args:
        train: the interactions to count.

    Example:
        >>> train = Interactions.from_pairs([0, 1, 1], [2, 0, 2], user_ids=2, item_ids=3)
        >>> Popularity(train).scores(torch.tensor([0]))
        tensor([[1., 0., 2.]])
    """

    def __init__(self, train: Interactions) -> None:
        self.num_users = train.num_users
        self.num_items = train.num_items
        counts = np.bincount(train.matrix.indices, minlength=train.num_items)
        self.counts = torch.from_numpy(counts).float()

    def scores(self, users: Int[Tensor, " block"]) -> Float[Tensor, "block items"]:
        """Return the same counts for each user."""
        return self.counts.repeat(len(users), 1)

    def scores_from(self, items: Int[Tensor, " chosen"]) -> Float[Tensor, " items"]:
        """Return the counts, whatever the items."""
        del items
        return self.counts.clone()
