"""Corrections for how likely a candidate was sampled, in every layout, loss and engine."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

import bayescl

LOSSES: dict[str, Callable[..., bayescl.ContrastiveLoss]] = {
    "info_nce": bayescl.InfoNCELoss,
    "debiased": bayescl.DebiasedContrastiveLoss,
    "hard": bayescl.HardContrastiveLoss,
    "bayesian": bayescl.BayesianContrastiveLoss,
    "oracle": bayescl.OracleContrastiveLoss,
    "latent": bayescl.LatentClassContrastiveLoss,
    "sigmoid": bayescl.SigmoidContrastiveLoss,
    "sigmoid, latent": bayescl.LatentClassSigmoidLoss,
}
BATCH, EXTRA, DIM = 9, 5, 4


def draw(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


class Case:
    """Leaves to differentiate, log probabilities, and groups without a common one."""

    def __init__(self) -> None:
        self.users, self.items = draw(BATCH, DIM, seed=0), draw(BATCH, DIM, seed=1)
        self.extra, self.own = draw(EXTRA, DIM, seed=2), draw(BATCH, EXTRA, DIM, seed=3)
        self.temperature = torch.tensor(0.3, dtype=torch.float64)
        self.leaves = [self.users, self.items, self.extra, self.own, self.temperature]
        for leaf in self.leaves:
            leaf.requires_grad_()
        self.item_q, self.user_q = -draw(BATCH, seed=4).exp(), -draw(BATCH, seed=5).exp()
        self.extra_q, self.own_q = -draw(EXTRA, seed=6).exp(), -draw(BATCH, EXTRA, seed=7).exp()
        self.groups, self.others = torch.arange(BATCH), torch.full((BATCH, EXTRA), -7)

    def gradients(self, value: Tensor) -> list[Tensor]:
        found = torch.autograd.grad(value, self.leaves, allow_unused=True)
        return [value.detach(), *(torch.zeros(()) if one is None else one for one in found)]


def formula(
    loss: bayescl.ContrastiveLoss,
    case: Case,
    anchors: Tensor,
    positives: Tensor,
    columns: Tensor,
    positive_q: Tensor,
    columns_q: Tensor,
) -> Tensor:
    """The loss of ``s - log_q``; a positive among the columns is not a candidate."""
    anchors, positives, columns = (
        normalize(rows, dim=-1) for rows in (anchors, positives, columns)
    )
    own = columns if columns.ndim == 3 else columns.expand(BATCH, -1, -1)
    positive = (anchors * positives).sum(dim=1) / case.temperature - positive_q
    unlabeled = (own @ anchors[..., None])[..., 0] / case.temperature - columns_q
    valid = torch.ones_like(unlabeled, dtype=torch.bool)
    if columns.ndim == 2 and len(columns) >= BATCH:
        valid[:, :BATCH].fill_diagonal_(False)
    return loss.from_logits(positive, unlabeled, valid=valid, temperature=case.temperature)


@pytest.mark.parametrize("engine", ["dense", "chunked"])
@pytest.mark.parametrize("name", list(LOSSES))
def test_values_and_gradients_are_those_of_corrected_logits(name: str, engine: str) -> None:
    def losses() -> tuple[bayescl.ContrastiveLoss, Case]:
        return LOSSES[name](engine=engine, chunk_size=4, reduction="sum"), Case()

    def compare(value: Tensor, case: Case, *expected: Tensor) -> None:
        for ours, theirs in zip(
            case.gradients(value), case.gradients(sum(expected, torch.zeros(()))), strict=True
        ):
            torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)

    for both in (False, True):
        loss, case = losses()
        value = loss.in_batch(
            case.users,
            case.items,
            extra=case.extra,
            groups=case.groups,
            extra_groups=case.others[0],
            log_q=torch.cat([case.item_q, case.extra_q]),
            anchor_log_q=case.user_q if both else None,
            both_directions=both,
            temperature=case.temperature,
        )
        columns = torch.cat([case.items, case.extra])
        columns_q = torch.cat([case.item_q, case.extra_q])
        sides = [(case.users, case.items, columns, case.item_q, columns_q)]
        sides += [(case.items, case.users, case.users, case.user_q, case.user_q)] * both
        compare(value, case, *(formula(loss, case, *side) for side in sides))
    for columns_of, q_of in (("extra", "extra_q"), ("own", "own_q")):
        loss, case = losses()
        columns, columns_q = getattr(case, columns_of), getattr(case, q_of)
        value = loss.sampled(
            case.users,
            case.items,
            columns,
            groups=case.groups,
            candidate_groups=case.others if columns.ndim == 3 else case.others[0],
            log_q=columns_q,
            positive_log_q=case.item_q,
            temperature=case.temperature,
        )
        compare(
            value,
            case,
            formula(loss, case, case.users, case.items, columns, case.item_q, columns_q),
        )
    loss, case = losses()
    positive, unlabeled = case.own[:, 0, 0], case.own[:, 1:, 0]
    valid = torch.ones_like(unlabeled, dtype=torch.bool)
    for columns_q in (case.own_q[:, 1:], case.own_q[0, 1:]):
        value = loss.from_logits(
            positive, unlabeled, valid=valid, log_q=columns_q, positive_log_q=case.item_q
        )
        expected = loss.from_logits(positive - case.item_q, unlabeled - columns_q, valid=valid)
        compare(value, case, expected)


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
    loss, case = bayescl.InfoNCELoss(), Case()
    pairs, sampled = (case.users, case.items), (case.users, case.items, case.extra)
    logits = (case.own[:, 0, 0], case.own[:, 1:, 0])
    for call, message in (
        (lambda: loss.in_batch(*pairs, log_q=case.extra_q), "log_q must have shape [9], got [5]"),
        (lambda: loss.in_batch(*pairs, log_q=case.item_q.long()), "log_q must hold floating-point"),
        (lambda: loss.in_batch(*pairs, anchor_log_q=case.user_q), "anchor_log_q needs both_dir"),
        (lambda: loss.sampled(*sampled, log_q=case.extra_q), "must be given together"),
        (lambda: loss.from_logits(*logits, positive_log_q=case.item_q), "must be given together"),
        (
            lambda: loss.sampled(*sampled, log_q=case.item_q, positive_log_q=case.item_q),
            "log_q must have shape [5], got [9]",
        ),
        (
            lambda: loss.from_logits(*logits, log_q=case.item_q, positive_log_q=case.item_q),
            "log_q must have shape [4], got [9]",
        ),
    ):
        with pytest.raises(ValueError, match=re.escape(message)):
            call()
