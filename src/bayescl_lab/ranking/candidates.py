"""Sources of the items that a pair's item is contrasted with.

A source draws candidates for a batch of pairs, masks those that do not count, and calls a loss with
both. Draws depend only on the given seed.

=======================  ====================================  ===================================
source                   candidates of a pair                  score matrix
=======================  ====================================  ===================================
``PerPairCandidates``    its own draws                         batch x count rows are gathered
``SharedCandidates``     one draw for the whole batch          one matrix product
``InBatchCandidates``    the other pairs' items                one matrix product
``AllItems``             every item                            one matrix product with all items
=======================  ====================================  ===================================

If several processes train together, each gets the whole batch and the rows that it trains. Draws
are made for the whole batch, so they do not depend on the number of processes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_count
from bayescl.losses import ContrastiveLoss
from bayescl_lab.ranking.batches import PairBatch
from bayescl_lab.ranking.encoder import Encoder
from bayescl_lab.ranking.interactions import Interactions

Chosen = tuple[Int[Tensor, "*own count"], Bool[Tensor, "own count"]]
"""Candidates, of own pairs or shared by the batch, and True where one counts."""


class KnownItems(nn.Module):
    """Items that users are known to like, as tensors that move with a module but are not saved.

    Nothing here takes memory for users times items, and nothing loops over users.
    """

    items: Tensor
    starts: Tensor
    fans: Tensor
    fan_starts: Tensor
    keys: Tensor

    def __init__(self, interactions: Interactions) -> None:
        super().__init__()
        self.num_users = interactions.num_users
        self.num_items = interactions.num_items
        users, items = (torch.from_numpy(column) for column in interactions.pairs())
        by_item = interactions.matrix.tocsc()
        above = self.num_users * self.num_items
        tables = {
            # the items of user 0, of user 1, and so on, and where each user's begin and end
            "items": items,
            "starts": torch.from_numpy(interactions.matrix.indptr),
            # the same of items
            "fans": torch.from_numpy(by_item.indices),
            "fan_starts": torch.from_numpy(by_item.indptr),
            # user * num_items + item, ascending
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
            is_candidate = row >= 0
        else:
            row, item = _rows_of(users, self.starts, self.items)
            column = place[item]
            is_candidate = column >= 0
        likes_item = torch.zeros(len(users), len(items), dtype=torch.bool, device=users.device)
        likes_item.view(-1)[(row * len(items) + column)[is_candidate]] = True
        if item_of is not None:
            likes_item = likes_item.gather(1, item_of.expand(len(users), -1))
        return likes_item[user_of]


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


class CandidateSource(nn.Module, ABC):
    """Base class of candidate sources.

    Args:
        train: the training interactions.
        mask_known: whether to mask the items that a pair's user has in ``train``, including the
            pair's own; if False, only the pair's own item is masked.
    """

    def __init__(self, train: Interactions, *, mask_known: bool = True) -> None:
        super().__init__()
        self.known = KnownItems(train)
        self.mask_known = mask_known

    @abstractmethod
    def choose(self, batch: PairBatch, *, seed: int) -> Chosen:
        """Return the candidates of a batch."""

    def forward(
        self, loss: Any, encoder: Encoder, batch: PairBatch, *, seed: int
    ) -> Float[Tensor, ""]:
        """Compute ``loss.sampled`` for the process's own pairs of a batch.

        Args:
            loss: any loss of :mod:`bayescl.losses`, or one with the method that the source calls.
                With ``gather=True`` it averages over the pairs of all processes.
            encoder: gives the embeddings, in one call.
            batch: the pairs, and which of them this process trains.
            seed: seed of the draws; the same on every process.
        """
        users, items = batch.users[batch.own], batch.items[batch.own]
        chosen, valid = self.choose(batch, seed=seed)
        options: dict[str, Any] = {}
        if (log_q := self.log_q(chosen, len(batch.items))) is not None:
            options = {"log_q": log_q, "positive_log_q": self.log_q(items, len(batch.items))}
        if isinstance(loss, ContrastiveLoss) and loss.gather:
            options["gather_candidates"] = False  # all processes have the same candidates
        value: Tensor = loss.sampled(*encoder.embed(users, items, chosen), valid=valid, **options)
        return value

    def log_q(self, items: Int[Tensor, " items"], batch: int) -> Float[Tensor, " items"] | None:
        """Log of how often items are candidates of a batch; None if all are equally likely."""
        del items, batch
        return None

    def counted(self, batch: PairBatch, shared: Int[Tensor, " count"]) -> Bool[Tensor, "own count"]:
        """True where a shared item may count against a pair."""
        if self.mask_known:
            return ~self.known.among(batch.users[batch.own], shared)
        return batch.items[batch.own, None] != shared


class InBatchCandidates(CandidateSource):
    """The items of the other pairs of the batch: free candidates, popular items more often.

    An item is a candidate as often as it is chosen, so without a correction the loss would push
    popular items away from everybody and end below a list of popular items. Each logit therefore
    loses the log probability that its item is in a batch (``log_q``; Yi et al., RecSys 2019).

    Args:
        train: the training interactions.
        mask_known: see :class:`CandidateSource`.
        distinct: whether an item of several pairs is one candidate rather than one per pair. Copies
            have equal scores, and exact ranks must then find ties, so the Bayesian loss takes a
            fraction of the time with distinct items.
    """

    def __init__(
        self, train: Interactions, *, mask_known: bool = True, distinct: bool = False
    ) -> None:
        super().__init__(train, mask_known=mask_known)
        self.distinct = distinct
        share = self.known.fan_starts.diff() / max(train.num_interactions, 1)
        self.register_buffer("share", share.float(), persistent=False)

    share: Tensor
    """Each item's share of the pairs, ``[items]``."""

    def log_q(self, items: Int[Tensor, " items"], batch: int) -> Float[Tensor, " items"]:
        """Log of how often an item is expected among the candidates of a batch of that size."""
        share = self.share[items].clamp(min=torch.finfo(torch.float32).tiny)
        # Each pair's item is a candidate, share * batch times. Distinct items are candidates if
        # they come up at all, with probability 1 - (1 - share)^batch.
        expected = -torch.expm1(batch * torch.log1p(-share)) if self.distinct else batch * share
        return expected.log()

    def choose(self, batch: PairBatch, *, seed: int) -> Chosen:
        """Return the items of the batch, each once if ``distinct``."""
        del seed  # nothing is drawn
        shared = batch.items.unique() if self.distinct else batch.items
        return shared, self.counted(batch, shared)

    def forward(
        self, loss: Any, encoder: Encoder, batch: PairBatch, *, seed: int
    ) -> Float[Tensor, ""]:
        """Compute ``loss.in_batch`` of a batch of pairs; ``loss.sampled`` if items are distinct."""
        if self.distinct:
            return super().forward(loss, encoder, batch, seed=seed)
        users, items = batch.users[batch.own], batch.items[batch.own]
        counted = {"groups": items}
        if self.mask_known:
            counted = {"valid": self.counted(batch, batch.items)}
        log_q = self.log_q(items, len(batch.items))
        value: Tensor = loss.in_batch(*encoder.embed(users, items), log_q=log_q, **counted)
        return value


class AllItems(CandidateSource):
    """All items: no sampling noise, at the cost of a matrix of batch times items."""

    def choose(self, batch: PairBatch, *, seed: int) -> Chosen:
        """Return every item."""
        del seed  # nothing is drawn
        every = torch.arange(self.known.num_items, device=batch.items.device)
        return every, self.counted(batch, every)


class SharedCandidates(CandidateSource):
    """Items drawn once per batch, without replacement, and shared by all its pairs.

    The score matrix is one matrix product, so hundreds of candidates cost little, and the
    empirical CDF of the Bayesian loss rests on hundreds of points.

    Args:
        train: the training interactions.
        count: candidates per batch, at least 1; all items if there are fewer.
        **options: of :class:`CandidateSource`.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 2], user_ids=2, item_ids=6)
        >>> pairs = PairBatch(torch.tensor([0]), torch.tensor([1]))
        >>> SharedCandidates(train, count=6).choose(pairs, seed=0)
        (tensor([2, 5, 3, 0, 1, 4]), tensor([[ True,  True,  True, False, False,  True]]))
    """

    def __init__(self, train: Interactions, count: int, **options: Any) -> None:
        super().__init__(train, **options)
        self.count = check_count("count", count, 1)

    def choose(self, batch: PairBatch, *, seed: int) -> Chosen:
        """Return the items of one draw, the same for all pairs."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randperm(self.known.num_items, generator=generator)[: self.count]
        shared = drawn.to(batch.items.device)
        return shared, self.counted(batch, shared)


class PerPairCandidates(CandidateSource):
    """Items drawn again for every pair, with replacement.

    A draw that must not count is redrawn up to :attr:`redraws` times and then masked, so pairs
    nearly always have all of their candidates.

    Args:
        train: the training interactions.
        count: candidates per pair, at least 1.
        **options: of :class:`CandidateSource`.
    """

    redraws = 8

    def __init__(self, train: Interactions, count: int, **options: Any) -> None:
        super().__init__(train, **options)
        self.count = check_count("count", count, 1)

    def choose(self, batch: PairBatch, *, seed: int) -> Chosen:
        """Return draws for every own pair, and True where one counts."""
        generator = torch.Generator().manual_seed(seed)
        users = batch.users[:, None].expand(-1, self.count)
        items = batch.items[:, None].expand(-1, self.count)
        drawn = torch.randint(self.known.num_items, users.shape, generator=generator)
        drawn = drawn.to(users.device)
        barred = self._barred(users, items, drawn)
        for _ in range(self.redraws):
            places = barred.nonzero(as_tuple=True)
            if len(places[0]) == 0:
                break
            redrawn = torch.randint(self.known.num_items, places[0].shape, generator=generator)
            drawn[places] = redrawn = redrawn.to(users.device)
            barred[places] = self._barred(users[places], items[places], redrawn)
        return drawn[batch.own], ~barred[batch.own]

    def _barred(self, users: Tensor, items: Tensor, drawn: Tensor) -> Tensor:
        """True where a draw must not count against a pair."""
        return self.known.contains(users, drawn) if self.mask_known else drawn == items
