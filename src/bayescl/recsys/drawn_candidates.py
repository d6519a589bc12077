"""Sources of candidates that draw items, for a whole batch or for every pair.

Their forms beside the others are in :mod:`bayescl.recsys.candidates`.
"""

from __future__ import annotations

from typing import Any

import torch

from bayescl._axes import Bool, Float, Int, Tensor
from bayescl._checks import check_count, check_non_negative
from bayescl.recsys.candidates import CandidateSource
from bayescl.recsys.encoder import Encoder
from bayescl.recsys.interactions import Interactions


class _Drawn(CandidateSource):
    """A source that draws items, each with a probability of its own."""

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
            # An item that nobody chose can never be drawn then, as 0 to any power is 0.
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
        train: the interactions that training sees.
        count: candidates per batch; all items where there are fewer.
        mask_known: whether the items that a user has in ``train`` never count against the user;
            else only the pair's own item does not.
        popularity_exponent: items are drawn with probability proportional to this power of how
            often they occur in ``train``; 0 draws all alike. An item that never occurs is drawn
            only at 0.
        extra_positives: see :class:`CandidateSource`.

    Raises:
        ValueError: if an argument leaves its range.

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

    def forward(
        self,
        loss: Any,
        encoder: Encoder,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
    ) -> Float[Tensor, ""]:
        """Compute ``loss.sampled`` of a batch of pairs against the items of one draw."""
        shared = self.draw(seed=seed)
        valid = self.counted(users, items, shared)
        return self._sampled(loss, encoder, users, items, shared, valid, seed)


class PerPairCandidates(_Drawn):
    """Items drawn for every pair anew, with replacement.

    A draw that may not count is drawn again, up to :attr:`redraws` times, and masked if it still
    may not; so pairs nearly always have all of their candidates.

    Args:
        train: the interactions that training sees.
        count: candidates per pair.
        mask_known: whether the items that a user has in ``train`` never count against the user;
            else only the pair's own item does not.
        popularity_exponent: items are drawn with probability proportional to this power of how
            often they occur in ``train``; 0 draws all alike. An item that never occurs is drawn
            only at 0.
        extra_positives: see :class:`CandidateSource`.

    Raises:
        ValueError: if an argument leaves its range.
    """

    redraws = 8
    """How often draws that may not count are replaced."""

    def draw(
        self, users: Int[Tensor, " batch"], items: Int[Tensor, " batch"], *, seed: int
    ) -> tuple[Int[Tensor, "batch count"], Bool[Tensor, "batch count"]]:
        """Return the items of every pair, and True where one counts."""
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
        return drawn, ~barred

    def _draw(self, shape: torch.Size, generator: torch.Generator) -> Tensor:
        """Independent draws."""
        if self.probabilities is None:
            return torch.randint(self.known.num_items, shape, generator=generator)
        drawn = self.probabilities.multinomial(shape.numel(), replacement=True, generator=generator)
        return drawn.reshape(shape)

    def _barred(self, users: Tensor, items: Tensor, drawn: Tensor) -> Tensor:
        """True where a draw may not count against a pair."""
        return self.known.contains(users, drawn) if self.mask_known else drawn == items

    def forward(
        self,
        loss: Any,
        encoder: Encoder,
        users: Int[Tensor, " batch"],
        items: Int[Tensor, " batch"],
        *,
        seed: int,
    ) -> Float[Tensor, ""]:
        """Compute ``loss.sampled`` of a batch of pairs, each against draws of its own."""
        drawn, valid = self.draw(users, items, seed=seed)
        return self._sampled(loss, encoder, users, items, drawn, valid, seed)
