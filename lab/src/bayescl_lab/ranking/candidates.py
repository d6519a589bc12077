"""Candidate items for the loss of recommenders."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from bayescl.losses import ContrastiveLoss
from bayescl_lab._types import Config
from bayescl_lab.ranking.batches import UserBatch
from bayescl_lab.ranking.encoders import Encoder


def drawn_candidates(
    batch: UserBatch, num_items: int, count: int, *, seed: int
) -> tuple[Int[Tensor, " count"], Bool[Tensor, "users count"]]:
    """Draw candidates for a batch, without replacement. All users of the batch share them.

    The draw depends only on the seed.

    Returns:
        The candidates, and a mask that is False for a user's own items.

    Example:
        >>> batch = UserBatch(torch.tensor([0]), torch.tensor([1, 4]), torch.tensor([0, 0]))
        >>> drawn_candidates(batch, num_items=5, count=3, seed=0)
        (tensor([4, 0, 1]), tensor([[False,  True, False]]))
    """
    drawn = torch.randperm(num_items, generator=torch.Generator().manual_seed(seed))[:count]
    drawn = drawn.to(batch.items.device)
    column_of = drawn.new_full((num_items,), -1)
    column_of[drawn] = torch.arange(count, device=drawn.device)
    columns = column_of[batch.items]
    is_drawn = columns >= 0
    counts = torch.ones((len(batch.users), count), dtype=torch.bool, device=batch.users.device)
    counts[batch.anchor_of[is_drawn], columns[is_drawn]] = False
    return drawn, counts


def sampled_loss(
    loss: ContrastiveLoss, encoder: Encoder, batch: UserBatch, *, count: int, seed: int
) -> Float[Tensor, ""]:
    """Compute ``loss.sampled`` of a batch with drawn candidates, or with all items.

    Scores are one matrix product with a row per user, in which the user's items are masked.
    Hundreds or thousands of candidates therefore cost little, and they make the empirical CDF of
    the Bayesian loss accurate.

    Args:
        loss: Loss with a method ``sampled``. With ``gather=True`` it averages over the pairs of all
            processes.
        encoder: Encoder, called once.
        batch: Users of this process.
        count: Number of candidates, at least 1. If there are fewer items, all are drawn.
        seed: Seed of the draw, the same on all processes.
    """
    options: Config = {"anchor_of": batch.anchor_of}
    if count >= encoder.num_items:
        users, items = encoder.embed(batch.users)
        rows: tuple[Tensor, ...] = (users, batch.items, items)
    else:
        drawn, options["valid"] = drawn_candidates(batch, encoder.num_items, count, seed=seed)
        rows = encoder.embed(batch.users, batch.items, drawn)
    if loss.gather:
        options["gather_candidates"] = False  # all processes have the same candidates
    value: Tensor = loss.sampled(*rows, **options)
    return value
