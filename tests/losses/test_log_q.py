"""Corrections for how likely a candidate was sampled, in every layout, loss and engine."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from cases import each
from torch import Tensor
from torch.nn.functional import normalize

import bayescl

LOSSES = (
    bayescl.InfoNCELoss,
    bayescl.DebiasedContrastiveLoss,
    bayescl.HardContrastiveLoss,
    bayescl.BayesianContrastiveLoss,
    bayescl.OracleContrastiveLoss,
    bayescl.LatentClassContrastiveLoss,
    bayescl.SigmoidContrastiveLoss,
    bayescl.LatentClassSigmoidLoss,
)
BATCH, EXTRA, DIM = 9, 5, 4


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


USERS, ITEMS = draw(BATCH, DIM, seed=0), draw(BATCH, DIM, seed=1)
MORE, OWN = draw(EXTRA, DIM, seed=2), draw(BATCH, EXTRA, DIM, seed=3)
LEAVES = [USERS, ITEMS, MORE, OWN, torch.tensor(0.3, dtype=torch.float64)]
for leaf in LEAVES:
    leaf.requires_grad_()
ITEM_Q, USER_Q = -draw(BATCH, seed=4).exp(), -draw(BATCH, seed=5).exp()
MORE_Q, OWN_Q = -draw(EXTRA, seed=6).exp(), -draw(BATCH, EXTRA, seed=7).exp()
COLUMNS_Q = torch.cat([ITEM_Q, MORE_Q])
APART = {"groups": torch.arange(BATCH)}  # without a common one


def formula(
    loss: bayescl.ContrastiveLoss,
    anchors: Tensor,
    positives: Tensor,
    columns: Tensor,
    positive_q: Tensor,
    columns_q: Tensor,
) -> Tensor:
    """The loss of ``s - log_q``; a positive among the columns is not a candidate."""
    scaled = (normalize(rows, dim=-1) for rows in (anchors, positives, columns))
    anchors, positives, columns = scaled
    own = columns if columns.ndim == 3 else columns.expand(BATCH, -1, -1)
    positive = (anchors * positives).sum(dim=1) / LEAVES[-1] - positive_q
    unlabeled = (own @ anchors[..., None])[..., 0] / LEAVES[-1] - columns_q
    valid = torch.ones_like(unlabeled, dtype=torch.bool)
    if columns.ndim == 2 and len(columns) >= BATCH:
        valid[:, :BATCH].fill_diagonal_(False)
    return loss.from_logits(positive, unlabeled, valid=valid, temperature=LEAVES[-1])


@each("kind", LOSSES)
@each("engine", ["dense", "chunked"])
def test_values_and_gradients_are_those_of_corrected_logits(kind: Any, engine: Any) -> None:
    def compare(value: Tensor, *expected: Tensor) -> None:
        results = [
            [loss, *torch.autograd.grad(loss, LEAVES, retain_graph=True, materialize_grads=True)]
            for loss in (value, sum(expected))
        ]
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)

    def loss() -> bayescl.ContrastiveLoss:
        return kind(engine=engine, chunk_size=4, reduction="sum")

    far, scale = torch.full((BATCH, EXTRA), -7), {"temperature": LEAVES[-1], **APART}
    pairs = {"extra": MORE, "extra_groups": far[0], "log_q": COLUMNS_Q, **scale}
    there = formula(loss(), USERS, ITEMS, torch.cat([ITEMS, MORE]), ITEM_Q, COLUMNS_Q)
    back = formula(loss(), ITEMS, USERS, USERS, USER_Q, USER_Q)
    compare(loss().in_batch(USERS, ITEMS, **pairs), there)
    both = {"both_directions": True, "anchor_log_q": USER_Q}
    compare(loss().in_batch(USERS, ITEMS, **both, **pairs), there, back)
    for columns, columns_q, groups in ((MORE, MORE_Q, far[0]), (OWN, OWN_Q, far)):
        drawn = {"log_q": columns_q, "positive_log_q": ITEM_Q, "candidate_groups": groups}
        expected = formula(loss(), USERS, ITEMS, columns, ITEM_Q, columns_q)
        compare(loss().sampled(USERS, ITEMS, columns, **drawn, **scale), expected)
    positive, unlabeled = OWN[:, 0, 0], OWN[:, 1:, 0]
    known = {"valid": torch.ones_like(unlabeled, dtype=torch.bool)}
    for columns_q in (OWN_Q[:, 1:], OWN_Q[0, 1:]):
        given = {"log_q": columns_q, "positive_log_q": ITEM_Q, **known}
        expected = loss().from_logits(positive - ITEM_Q, unlabeled - columns_q, **known)
        compare(loss().from_logits(positive, unlabeled, **given), expected)


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
