"""Look-up of the items that users are known to like, for many pairs at a time."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Bool, Int, Tensor
from bayescl_lab.ranking.interactions import Interactions


class KnownItems(nn.Module):
    """The interactions of a data set as tensors that move with a module but are not saved.

    Nothing here takes memory for users times items, and nothing loops over users.
    """

    items: Tensor
    """The items of user 0, of user 1, and so on, ascending within each, ``[interactions]``."""

    starts: Tensor
    """Where each user's items start in :attr:`items`, and their end, ``[users + 1]``."""

    fans: Tensor
    """The users of item 0, of item 1, and so on, ascending within each, ``[interactions]``."""

    fan_starts: Tensor
    """Where each item's users start in :attr:`fans`, and their end, ``[items + 1]``."""

    keys: Tensor
    """``user * num_items + item`` of every interaction, ascending, and a number above them."""

    def __init__(self, interactions: Interactions) -> None:
        super().__init__()
        self.num_users = interactions.num_users
        self.num_items = interactions.num_items
        users, items = (torch.from_numpy(column) for column in interactions.pairs())
        by_item = interactions.matrix.tocsc()
        above = self.num_users * self.num_items
        tables = {
            "items": items,
            "starts": torch.from_numpy(interactions.matrix.indptr),
            "fans": torch.from_numpy(by_item.indices),
            "fan_starts": torch.from_numpy(by_item.indptr),
            "keys": F.pad(users * self.num_items + items, (0, 1), value=above),
        }
        for name, table in tables.items():
            self.register_buffer(name, table.to(torch.int64), persistent=False)

    def contains(
        self, users: Int[Tensor, "*shape"], items: Int[Tensor, "*shape"]
    ) -> Bool[Tensor, "*shape"]:
        """True where a user is known to like an item, pair by pair."""
        wanted = users * self.num_items + items
        return self.keys[torch.searchsorted(self.keys, wanted)] == wanted

    def among(
        self, users: Int[Tensor, " batch"], items: Int[Tensor, " candidates"]
    ) -> Bool[Tensor, "batch candidates"]:
        """True where a user is known to like an item, for items that all users share.

        The cost grows with the known items of the users, or the users of the items if these are
        fewer, plus the size of the result.

        Example:
            >>> pairs = Interactions.from_pairs([0, 1, 1], [2, 0, 1], user_ids=2, item_ids=3)
            >>> KnownItems(pairs).among(torch.tensor([1, 0]), torch.tensor([2, 0, 2]))
            tensor([[False,  True, False],
                    [ True, False,  True]])
        """
        users, user_of = users.unique(return_inverse=True)
        place, item_of = _places(items, self.num_items), None
        if not torch.equal(place[items], torch.arange(len(items), device=items.device)):
            items, item_of = items.unique(return_inverse=True)
            place = _places(items, self.num_items)
        fans = self.fan_starts[items + 1] - self.fan_starts[items]
        likes = self.starts[users + 1] - self.starts[users]
        if int(fans.sum()) < int(likes.sum()):
            column, user = _rows_of(items, self.fan_starts, self.fans)
            row = _places(users, self.num_users)[user]
            asked = row >= 0
        else:
            row, item = _rows_of(users, self.starts, self.items)
            column = place[item]
            asked = column >= 0
        answer = torch.zeros(len(users), len(items), dtype=torch.bool, device=users.device)
        answer.view(-1)[(row * len(items) + column)[asked]] = True
        if item_of is not None:
            answer = answer.gather(1, item_of.expand(len(users), -1))
        return answer[user_of]


def _rows_of(rows: Tensor, starts: Tensor, entries: Tensor) -> tuple[Tensor, Tensor]:
    """The entries of some rows, one after the other, and the place in ``rows`` of each."""
    first = starts[rows]
    counts = starts[rows + 1] - first
    place = torch.arange(len(rows), device=rows.device).repeat_interleave(counts)
    # The n-th entry of all stands at n, less the entries of earlier rows, from its row's start.
    shift = first - (counts.cumsum(0) - counts)
    return place, entries[torch.arange(len(place), device=rows.device) + shift[place]]


def _places(values: Tensor, size: int) -> Tensor:
    """The place of each number below ``size`` among distinct ``values``, or -1."""
    places = values.new_full((size,), -1)
    places[values] = torch.arange(len(values), device=values.device)
    return places
