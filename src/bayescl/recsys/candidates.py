"""Where the items come from that a pair's item is contrasted with.

A source draws candidates for a batch of pairs, says which of them count, and hands both to a call
of a loss. What is drawn is a function of the seed it is given, and of nothing else.

=======================  ====================================  ===================================
source                   candidates of a pair                  score matrix
=======================  ====================================  ===================================
``PerPairCandidates``    its own draws                         batch x count rows are gathered
``SharedCandidates``     one draw for the whole batch          one matrix product
``InBatchCandidates``    the other pairs' items                one matrix product
``AllItems``             every item                            one matrix product with all items
=======================  ====================================  ===================================

The first two are in :mod:`bayescl.recsys.drawn_candidates`.

Sources whose loss takes them can also draw extra positives: further items that the pair's user is
known to like, for :class:`~bayescl.recsys.extra_positives.ExtraPositivesDebiasedLoss`.

Each source masks the items that the pair's user is known to like, the pair's own item among them,
unless it is made with ``mask_known=False``; then only the pair's own item is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import nn

from bayescl._axes import Bool, Float, Int, Tensor
from bayescl._checks import check_count
from bayescl._randomness import Purpose, derived_seed
from bayescl.recsys.encoder import Encoder
from bayescl.recsys.interactions import Interactions
from bayescl.recsys.known_items import KnownItems


class CandidateSource(nn.Module, ABC):
    """A source of candidates; the sources below derive from it.

    Args:
        train: the interactions that training sees.
        mask_known: whether the items that a user has in ``train`` never count against the user.
        extra_positives: items drawn for each pair, with replacement, from those that its user has
            in ``train``, and handed to ``loss.sampled`` as ``extra_positives``; 0 hands none.
    """

    def __init__(
        self, train: Interactions, *, mask_known: bool = True, extra_positives: int = 0
    ) -> None:
        super().__init__()
        self.known = KnownItems(train)
        self.mask_known = mask_known
        self.extra_positives = check_count("extra_positives", extra_positives, 0)

    @abstractmethod
    def forward(
        self,
        loss: Any,
        encoder: Encoder,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
    ) -> Float[Tensor, ""]:
        """Compute the loss of a batch of pairs.

        Args:
            loss: any loss of :mod:`bayescl.losses`, or one with the call that the source uses.
            encoder: gives the embeddings, in one call.
            users: the user of each pair.
            items: the item of each pair.
            seed: what the draws are a function of.

        Returns:
            What the loss returns.
        """

    def counted(
        self,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        shared: Int[Tensor, " count"],
    ) -> Bool[Tensor, "batch count"]:
        """True where an item that all pairs share may count against a pair."""
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
        place = (share * counts).long().minimum(counts - 1)  # rounding may reach the count itself
        return self.known.items[self.known.starts[users][:, None] + place]

    def _sampled(
        self,
        loss: Any,
        encoder: Encoder,
        users: Tensor,
        items: Tensor,
        drawn: Tensor,
        valid: Tensor,
        seed: int,
    ) -> Tensor:
        """Embed what the step needs and call ``loss.sampled``."""
        if self.extra_positives == 0:
            value: Tensor = loss.sampled(*encoder.embed(users, items, drawn), valid=valid)
        else:
            extra = self.draw_positives(users, seed=seed)
            *others, extra = encoder.embed(users, items, drawn, extra)
            value = loss.sampled(*others, valid=valid, extra_positives=extra)
        return value


class InBatchCandidates(CandidateSource):
    """The items of the other pairs of the batch: candidates for nothing, popular ones more often.

    Args:
        train: the interactions that training sees.
        mask_known: whether the items that a user has in ``train`` never count against the user;
            else only further copies of the pair's own item do not.
        distinct: whether an item that several pairs of the batch have is one candidate, and not
            one for each of them. Copies have equal scores, so exact ranks must look for ties: with
            the Bayesian loss distinct items take a fraction of the time.
    """

    def __init__(
        self, train: Interactions, *, mask_known: bool = True, distinct: bool = False
    ) -> None:
        super().__init__(train, mask_known=mask_known)
        self.distinct = distinct

    def forward(
        self,
        loss: Any,
        encoder: Encoder,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
    ) -> Float[Tensor, ""]:
        """Compute ``loss.in_batch`` of a batch of pairs; nothing is drawn.

        Distinct items go through ``loss.sampled``.
        """
        if self.distinct:
            shared = items.unique()
            valid = self.counted(users, items, shared)
            return self._sampled(loss, encoder, users, items, shared, valid, seed)
        anchors, positives = encoder.embed(users, items)
        counts = (
            {"valid": self.counted(users, items, items)} if self.mask_known else {"groups": items}
        )
        value: Tensor = loss.in_batch(anchors, positives, **counts)
        return value

    def extra_repr(self) -> str:
        """Show every setting."""
        return f"mask_known={self.mask_known}, distinct={self.distinct}"


class AllItems(CandidateSource):
    """Every item there is: no draw, no noise, at the cost of a matrix of batch times items.

    Args:
        train: the interactions that training sees.
        mask_known: whether the items that a user has in ``train`` never count against the user;
            else only the pair's own item does not.
        extra_positives: see :class:`CandidateSource`.
    """

    def forward(
        self,
        loss: Any,
        encoder: Encoder,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
    ) -> Float[Tensor, ""]:
        """Compute ``loss.sampled`` of a batch of pairs against all items; no candidate is drawn."""
        every = torch.arange(self.known.num_items, device=items.device)
        valid = self.counted(users, items, every)
        return self._sampled(loss, encoder, users, items, every, valid, seed)
