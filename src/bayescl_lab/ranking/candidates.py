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

A source can also draw extra positives, further items that the pair's user is known to like, for
:class:`~bayescl_lab.ranking.extra_positives.ExtraPositivesDebiasedLoss`.

If several processes train together, each gets the whole batch and the rows that it trains. Draws
are made for the whole batch, so they do not depend on the number of processes.

Each source masks the items that the pair's user is known to like, including the pair's own item.
With ``mask_known=False``, only the pair's own item is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_count, check_non_negative
from bayescl.losses import ContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.ranking.batches import WHOLE
from bayescl_lab.ranking.encoder import Encoder
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.known_items import KnownItems


class CandidateSource(nn.Module, ABC):
    """Base class of candidate sources.

    Args:
        train: the training interactions.
        mask_known: whether to mask the items that a pair's user has in ``train``.
        extra_positives: number of items drawn for each pair, with replacement, from those that its
            user has in ``train``, and passed to ``loss.sampled`` as ``extra_positives``; 0 passes
            none.
    """

    def __init__(
        self, train: Interactions, *, mask_known: bool = True, extra_positives: int = 0
    ) -> None:
        super().__init__()
        self.known = KnownItems(train)
        self.mask_known = mask_known
        self.extra_positives = check_count("extra_positives", extra_positives, 0)

    @abstractmethod
    def choose(
        self,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
        own: slice = WHOLE,
    ) -> tuple[Int[Tensor, "*own count"], Bool[Tensor, "own count"]]:
        """Return candidates, of own pairs or shared by the batch, and True where one counts."""

    def forward(
        self,
        loss: Any,
        encoder: Encoder,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
        own: slice = WHOLE,
    ) -> Float[Tensor, ""]:
        """Compute the loss of a batch of pairs.

        Args:
            loss: any loss of :mod:`bayescl.losses`, or one with the method that the source calls.
                With ``gather=True`` it averages over the pairs of all processes.
            encoder: gives the embeddings, in one call.
            users: the user of each pair.
            items: the item of each pair.
            seed: seed of the draws; the same on every process.
            own: the pairs that this process trains; default: all.

        Returns:
            The result of ``loss.sampled`` for the process's own pairs.
        """
        chosen, valid = self.choose(users, items, seed=seed, own=own)
        rows, options = [users[own], items[own], chosen], self._options(loss)
        options |= self._correction(items[own], chosen, len(items))
        if self.extra_positives == 0:
            value: Tensor = loss.sampled(*encoder.embed(*rows), valid=valid, **options)
        else:
            extra = self.draw_positives(users, seed=seed)[own]
            *others, extra = encoder.embed(*rows, extra)
            value = loss.sampled(*others, valid=valid, extra_positives=extra, **options)
        return value

    @staticmethod
    def _options(loss: Any) -> dict[str, Any]:
        """Options for a loss that gathers, since all processes have the same candidates."""
        gathers = isinstance(loss, ContrastiveLoss) and loss.gather
        return {"gather_candidates": False} if gathers else {}

    def _correction(self, items: Tensor, chosen: Tensor, batch: int) -> dict[str, Tensor]:
        """Log probabilities that items are candidates; none where all are equally likely."""
        del items, chosen, batch
        return {}

    def counted(
        self,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        shared: Int[Tensor, " count"],
    ) -> Bool[Tensor, "batch count"]:
        """True where a shared item may count against a pair."""
        if self.mask_known:
            return ~self.known.among(users, shared)
        return items[:, None] != shared

    def draw_positives(
        self, users: Int[Tensor, " batch"], *, seed: int
    ) -> Int[Tensor, "batch extra_positives"]:
        """Return the extra positives of every pair; users must have an item in ``train``."""
        generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.CANDIDATES, 1))
        share = torch.rand(len(users), self.extra_positives, generator=generator).to(users.device)
        counts = self.known.counts(users)[:, None]
        place = (share * counts).long().minimum(counts - 1)  # rounding may reach the count
        return self.known.items[self.known.starts[users][:, None] + place]


class InBatchCandidates(CandidateSource):
    """The items of the other pairs of the batch: free candidates, popular items more often.

    An item is a candidate as often as it is chosen, so without a correction the loss would push
    popular items away from everybody and end below a list of popular items. Each logit therefore
    loses the log probability that its item is in a batch (``log_q``; Yi et al., RecSys 2019).

    Args:
        train: the training interactions.
        mask_known: whether to mask the items that a pair's user has in ``train``; if False, only
            further copies of the pair's own item are masked.
        distinct: whether an item of several pairs is one candidate rather than one per pair. Copies
            have equal scores, and exact ranks must then find ties, so the Bayesian loss takes a
            fraction of the time with distinct items.
    """

    def __init__(
        self, train: Interactions, *, mask_known: bool = True, distinct: bool = False
    ) -> None:
        super().__init__(train, mask_known=mask_known)
        self.distinct = distinct
        share = self.known.popularity() / max(train.num_interactions, 1)
        self.register_buffer("share", share.float(), persistent=False)

    share: Tensor
    """Each item's share of the pairs, ``[items]``."""

    def log_q(self, items: Int[Tensor, " some"], batch: int) -> Float[Tensor, " some"]:
        """Log of how often an item is expected among the candidates of a batch of some pairs."""
        share = self.share[items].clamp(min=torch.finfo(torch.float32).tiny)
        # Each pair's item is a candidate; distinct items are candidates if they come up at all.
        often = -torch.expm1(batch * torch.log1p(-share)) if self.distinct else batch * share
        return often.log()

    def choose(
        self,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
        own: slice = WHOLE,
    ) -> tuple[Int[Tensor, " count"], Bool[Tensor, "own count"]]:
        """Return the items of the batch, each once if ``distinct``."""
        del seed  # nothing is drawn
        shared = items.unique() if self.distinct else items
        return shared, self.counted(users[own], items[own], shared)

    def _correction(self, items: Tensor, chosen: Tensor, batch: int) -> dict[str, Tensor]:
        return {"log_q": self.log_q(chosen, batch), "positive_log_q": self.log_q(items, batch)}

    def forward(
        self,
        loss: Any,
        encoder: Encoder,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
        own: slice = WHOLE,
    ) -> Float[Tensor, ""]:
        """Compute ``loss.in_batch`` of a batch of pairs; ``loss.sampled`` if items are distinct."""
        if self.distinct:
            return super().forward(loss, encoder, users, items, seed=seed, own=own)
        mine = users[own], items[own]
        counts = {"valid": self.counted(*mine, items)} if self.mask_known else {"groups": mine[1]}
        log_q = self.log_q(mine[1], len(items))
        value: Tensor = loss.in_batch(*encoder.embed(*mine), log_q=log_q, **counts)
        return value

    def extra_repr(self) -> str:
        """Show every setting."""
        return f"mask_known={self.mask_known}, distinct={self.distinct}"


class AllItems(CandidateSource):
    """All items: no sampling noise, at the cost of a matrix of batch times items.

    Args:
        train: the training interactions.
        mask_known: whether to mask the items that a pair's user has in ``train``; if False, only
            the pair's own item is masked.
        extra_positives: see :class:`CandidateSource`.
    """

    def choose(
        self,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
        own: slice = WHOLE,
    ) -> tuple[Int[Tensor, " count"], Bool[Tensor, "own count"]]:
        """Return every item."""
        del seed  # nothing is drawn
        every = torch.arange(self.known.num_items, device=items.device)
        return every, self.counted(users[own], items[own], every)


class _Drawn(CandidateSource):
    """A source that draws items, each with its own probability."""

    def __init__(
        self,
        train: Interactions,
        count: int,
        *,
        mask_known: bool = True,
        popularity_exponent: float = 0.0,
        extra_positives: int = 0,
    ) -> None:
        super().__init__(train, mask_known=mask_known, extra_positives=extra_positives)
        self.count = check_count("count", count, 1)
        self.popularity_exponent = check_non_negative("popularity_exponent", popularity_exponent)
        self.probabilities: Tensor | None = None
        if popularity_exponent > 0:
            # An item that nobody chose is then never drawn, since 0 to any power is 0.
            self.probabilities = self.known.popularity().double() ** popularity_exponent

    def extra_repr(self) -> str:
        """Show every setting."""
        return (
            f"count={self.count}, mask_known={self.mask_known}, "
            f"popularity_exponent={self.popularity_exponent:g}"
        )


class SharedCandidates(_Drawn):
    """Items drawn once per batch, without replacement, and shared by all its pairs.

    The score matrix is one matrix product, so hundreds of candidates cost little, and the
    empirical CDF of the Bayesian loss rests on hundreds of points.

    Args:
        train: the training interactions.
        count: candidates per batch; all items if there are fewer.
        mask_known: whether to mask the items that a pair's user has in ``train``; if False, only
            the pair's own item is masked.
        popularity_exponent: items are drawn with probability proportional to this power of their
            count in ``train``; 0 draws uniformly. Items that never occur are drawn only at 0.
        extra_positives: see :class:`CandidateSource`.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> train = Interactions.from_pairs([0, 0, 1], [0, 1, 2], user_ids=2, item_ids=6)
        >>> SharedCandidates(train, count=3).draw(seed=0).shape
        torch.Size([3])
    """

    def draw(self, *, seed: int) -> Int[Tensor, " count"]:
        """Return the items of one batch."""
        generator = torch.Generator().manual_seed(seed)
        if self.probabilities is None:
            drawn = torch.randperm(self.known.num_items, generator=generator)[: self.count]
        else:
            some = int((self.probabilities > 0).sum())
            count = min(self.count, some)
            drawn = self.probabilities.multinomial(count, generator=generator)
        return drawn.to(self.known.items.device)

    def choose(
        self,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
        own: slice = WHOLE,
    ) -> tuple[Int[Tensor, " count"], Bool[Tensor, "own count"]]:
        """Return the items of one draw, the same for all pairs."""
        shared = self.draw(seed=seed)
        return shared, self.counted(users[own], items[own], shared)


class PerPairCandidates(_Drawn):
    """Items drawn again for every pair, with replacement.

    A draw that must not count is redrawn up to :attr:`redraws` times and then masked, so pairs
    nearly always have all of their candidates.

    Args:
        train: the training interactions.
        count: candidates per pair.
        mask_known: whether to mask the items that a pair's user has in ``train``; if False, only
            the pair's own item is masked.
        popularity_exponent: items are drawn with probability proportional to this power of their
            count in ``train``; 0 draws uniformly. Items that never occur are drawn only at 0.
        extra_positives: see :class:`CandidateSource`.

    Raises:
        ValueError: if an argument is out of range.
    """

    redraws = 8
    """How often draws that must not count are replaced."""

    def choose(
        self,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
        own: slice = WHOLE,
    ) -> tuple[Int[Tensor, "own count"], Bool[Tensor, "own count"]]:
        """Return draws for every own pair, and True where one counts."""
        generator = torch.Generator().manual_seed(seed)
        users, items = users[:, None].expand(-1, self.count), items[:, None].expand(-1, self.count)
        drawn = self._draw(users.shape, generator).to(users.device)
        barred = self._barred(users, items, drawn)
        for _ in range(self.redraws):
            again = barred.nonzero(as_tuple=True)
            if len(again[0]) == 0:
                break
            anew = self._draw(again[0].shape, generator).to(users.device)
            drawn[again] = anew
            barred[again] = self._barred(users[again], items[again], anew)
        return drawn[own], ~barred[own]

    def _draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Independent draws."""
        if self.probabilities is None:
            return torch.randint(self.known.num_items, shape, generator=generator)
        drawn = self.probabilities.multinomial(shape.numel(), replacement=True, generator=generator)
        return drawn.reshape(shape)

    def _barred(self, users: Tensor, items: Tensor, drawn: Tensor) -> Tensor:
        """True where a draw must not count against a pair."""
        return self.known.contains(users, drawn) if self.mask_known else drawn == items
