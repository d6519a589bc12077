"""Corrections for how likely a candidate was sampled; ``test_layouts`` checks every layout."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor

import bayescl

BATCH, EXTRA, DIM = 9, 5, 4


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


USERS, ITEMS = draw(BATCH, DIM, seed=0), draw(BATCH, DIM, seed=1)
MORE, OWN = draw(EXTRA, DIM, seed=2), draw(BATCH, EXTRA, DIM, seed=3)
ITEM_Q, USER_Q = -draw(BATCH, seed=4).exp(), -draw(BATCH, seed=5).exp()
MORE_Q, OWN_Q = -draw(EXTRA, seed=6).exp(), -draw(BATCH, EXTRA, seed=7).exp()
COLUMNS_Q = torch.cat([ITEM_Q, MORE_Q])


def test_latent_classes_do_not_see_the_correction() -> None:
    few = {"num_classes": 4, "memory_size": 64, "refit_every": 2, "temperature": 0.5}
    plain, corrected = (bayescl.LatentClassContrastiveLoss(**few) for _ in range(2))
    for step in range(8):
        labels = torch.arange(16).roll(step) % 4
        items = torch.eye(8)[labels] + 0.2 * draw(16, 8, seed=3 * step).float()
        first, second = (items + 0.1 * draw(16, 8, seed=3 * step + view).float() for view in (1, 2))
        plain.in_batch(first, second)
        corrected.in_batch(first, second, log_q=-draw(16, seed=100 + step).exp())
    assert corrected.trust == plain.trust > 0
    assert torch.equal(plain.same_class(first, second), corrected.same_class(first, second))


def test_what_does_not_fit_is_named() -> None:
    loss, pairs = bayescl.InfoNCELoss(), (USERS, ITEMS)
    logits = (OWN[:, 0, 0], OWN[:, 1:, 0])
    for call, message in (
        (lambda: loss.in_batch(*pairs, log_q=MORE_Q), "log_q must have shape [9], got [5]"),
        (lambda: loss.in_batch(*pairs, log_q=MORE_Q[0]), "log_q must have shape [9], got []"),
        (lambda: loss.in_batch(*pairs, log_q=ITEM_Q.long()), "log_q must hold floating-point"),
        (lambda: loss.in_batch(*pairs, anchor_log_q=USER_Q), "anchor_log_q needs both_dir"),
        (
            lambda: loss.in_batch(*pairs, both_directions=True, anchor_log_q=MORE_Q),
            "anchor_log_q must have shape [9], got [5]",
        ),
        (lambda: loss.sampled(*pairs, MORE, log_q=MORE_Q), "must be given together"),
        (lambda: loss.from_logits(*logits, positive_log_q=ITEM_Q), "must be given together"),
        (
            lambda: loss.sampled(*pairs, MORE, log_q=ITEM_Q, positive_log_q=ITEM_Q),
            "log_q must have shape [5], got [9]",
        ),
        (
            lambda: loss.from_logits(*logits, log_q=ITEM_Q, positive_log_q=ITEM_Q),
            "log_q must have shape [4], got [9]",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            call()
    with pytest.raises(TypeError, match="log_q must be a tensor, got list"):
        loss.from_logits(*logits, log_q=[0.0] * 4, positive_log_q=ITEM_Q)
