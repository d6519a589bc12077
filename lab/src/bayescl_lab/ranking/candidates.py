"""Candidate items for the loss of recommenders."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bayescl.losses import ContrastiveLoss
from bayescl_lab._fields import Count, checked
from bayescl_lab._types import Config
from bayescl_lab.ranking.batches import UserBatch
from bayescl_lab.ranking.encoders import Encoder


class DrawnCandidates:
    """Draw candidates for each batch, without replacement. All users of the batch share them.

    Scores are one matrix product with a row per user, in which the user's items are masked.
    Hundreds or thousands of candidates therefore cost little, and they make the empirical CDF of
    the Bayesian loss accurate. Draws depend only on the given seed.

    Args:
        num_items: Number of items to draw from.
        count: Number of candidates per batch, at least 1. If there are fewer items, all of them.

    Example:
        >>> batch = UserBatch(torch.tensor([0]), torch.tensor([1, 4]), torch.tensor([0, 0]))
        >>> DrawnCandidates(5, count=3).choose(batch, seed=0)
        (tensor([4, 0, 1]), tensor([[False,  True, False]]))
    """

    def __init__(self, num_items: int, count: int) -> None:
        self.num_items = num_items
        self.count = min(checked("count", count, Count), num_items)

    def choose(
        self, batch: UserBatch, *, seed: int
    ) -> tuple[Int[Tensor, " count"], Bool[Tensor, "users count"]]:
        """Return the candidates, and a mask that is True where a candidate counts for a user."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randperm(self.num_items, generator=generator)[: self.count]
        drawn = drawn.to(batch.items.device)
        column_of = drawn.new_full((self.num_items,), -1)
        column_of[drawn] = torch.arange(self.count, device=drawn.device)
        columns = column_of[batch.items]
        is_drawn = columns >= 0
        counts = torch.ones(
            (len(batch.users), self.count), dtype=torch.bool, device=batch.users.device
        )
        counts[batch.anchor_of[is_drawn], columns[is_drawn]] = False
        return drawn, counts

    def __call__(
        self, loss: ContrastiveLoss, encoder: Encoder, batch: UserBatch, *, seed: int
    ) -> Float[Tensor, ""]:
        """Compute ``loss.sampled`` of a batch.

        Args:
            loss: Loss with a method ``sampled``. With ``gather=True`` it averages over the pairs of
                all processes.
            encoder: Encoder, called once.
            batch: Users of this process.
            seed: Seed of the draw, the same on all processes.
        """
        options: Config = {"anchor_of": batch.anchor_of}
        if self.count == self.num_items:
            users, items = encoder.embed(batch.users)
            rows: tuple[Tensor, ...] = (users, batch.items, items)
        else:
            drawn, options["valid"] = self.choose(batch, seed=seed)
            rows = encoder.embed(batch.users, batch.items, drawn)
        if loss.gather:
            options["gather_candidates"] = False  # all processes have the same candidates
        value: Tensor = loss.sampled(*rows, **options)
        return value
