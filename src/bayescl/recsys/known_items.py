"""Which items a user is known to like, asked for many pairs at a time."""

from __future__ import annotations

import torch
from torch import nn

from bayescl._axes import Bool, Int, Tensor
from bayescl.recsys.interactions import Interactions


class KnownItems(nn.Module):
    """The interactions of a data set as tensors that move with a module and are never saved.

    Nothing here is as large as users times items, and nothing loops over users.

    Args:
        interactions: who chose what.
    """

    indptr: Tensor
    """Where each user's items start in :attr:`items`, ``[users + 1]``."""

    items: Tensor
    """The items of user 0, of user 1, and so on, ascending within each, ``[interactions]``."""

    keys: Tensor
    """``user * num_items + item`` of every interaction, ascending, ``[interactions]``."""

    def __init__(self, interactions: Interactions) -> None:
        super().__init__()
        self.num_users = interactions.num_users
        self.num_items = interactions.num_items
        users, items = (torch.from_numpy(column) for column in interactions.pairs())
        indptr = torch.from_numpy(interactions.matrix.indptr).to(torch.int64)
        self.register_buffer("indptr", indptr, persistent=False)
        self.register_buffer("items", items, persistent=False)
        self.register_buffer("keys", users * self.num_items + items, persistent=False)

    def counts(self, users: Int[Tensor, "batch"]) -> Int[Tensor, "batch"]:
        """Number of items that each of some users is known to like."""
        return self.indptr[users + 1] - self.indptr[users]

    def of(self, users: Int[Tensor, "batch"]) -> tuple[Int[Tensor, "known"], Int[Tensor, "known"]]:
        """Return all known items of some users, one after the other.

        Returns:
            The place in ``users`` that each item belongs to, and the items.

        Example:
            >>> pairs = Interactions.from_pairs([0, 1, 1], [2, 0, 1], user_ids=2, item_ids=3)
            >>> KnownItems(pairs).of(torch.tensor([1, 0, 1]))
            (tensor([0, 0, 1, 2, 2]), tensor([0, 1, 2, 0, 1]))
        """
        counts = self.counts(users)
        place = torch.arange(len(users), device=users.device).repeat_interleave(counts)
        # The n-th item of all stands at n, less the items of earlier users, from its user's start.
        shift = self.indptr[users] - (counts.cumsum(0) - counts)
        entries = torch.arange(len(place), device=users.device) + shift[place]
        return place, self.items[entries]

    def contains(
        self, users: Int[Tensor, "*shape"], items: Int[Tensor, "*shape"]
    ) -> Bool[Tensor, "*shape"]:
        """True where a user is known to like an item, pair by pair.

        An item of -1 stands for none and is never known.
        """
        if len(self.keys) == 0:
            return torch.zeros_like(items, dtype=torch.bool)
        wanted = users * self.num_items + items
        found = torch.searchsorted(self.keys, wanted).clamp_(max=len(self.keys) - 1)
        return (self.keys[found] == wanted) & (items >= 0)

    def among(
        self, users: Int[Tensor, "batch"], items: Int[Tensor, "candidates"]
    ) -> Bool[Tensor, "batch candidates"]:
        """True where a user is known to like an item, for items that all users share.

        The cost is that of the known items of the users, and of the answer.

        Example:
            >>> pairs = Interactions.from_pairs([0, 1, 1], [2, 0, 1], user_ids=2, item_ids=3)
            >>> KnownItems(pairs).among(torch.tensor([1, 0]), torch.tensor([2, 0, 2]))
            tensor([[False,  True, False],
                    [ True, False,  True]])
        """
        users, user_of = users.unique(return_inverse=True)
        items, item_of = items.unique(return_inverse=True)
        column = items.new_full((self.num_items,), -1)
        column[items] = torch.arange(len(items), device=items.device)
        place, known = self.of(users)
        known = column[known]
        asked = known >= 0
        answer = torch.zeros(len(users), len(items), dtype=torch.bool, device=users.device)
        answer[place[asked], known[asked]] = True
        return answer[user_of][:, item_of]
