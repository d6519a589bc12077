"""Losses in the shape of open_clip's: equal to its own, the gradient of its scale included."""

from __future__ import annotations

from itertools import product

import pytest
import torch

pytest.importorskip("open_clip", reason="needs open_clip")

import open_clip as theirs
from cases import each

import bayescl
from bayescl.integrations import open_clip as ours
from integrations.on_ranks import assert_same, pairs_of_clip, rows

pytestmark = pytest.mark.filterwarnings("default")
IMAGES, TEXTS = (torch.nn.functional.normalize(rows(6, seed), dim=1) for seed in (0, 1))
SCALE = torch.tensor(10.0)


@each("call", [{}, {"logit_bias": torch.tensor(-3.0)}])
def test_info_nce_is_clip_loss(call: dict) -> None:
    assert_same(pairs_of_clip(ours.ClipLoss(), **call), pairs_of_clip(theirs.ClipLoss(), **call))
    found, wanted = (
        made()(IMAGES, TEXTS, SCALE, output_dict=True, **call)
        for made in (ours.ClipLoss, theirs.ClipLoss)
    )
    torch.testing.assert_close(found, wanted)


def test_the_others_are_our_own_losses_at_the_models_temperature() -> None:
    for name, scale in product(("Debiased", "Hard", "Bayesian"), (4.0, 10.0)):
        loss = getattr(bayescl, f"{name}ContrastiveLoss")
        wrapped = ours.ClipLoss(loss=loss, tau_plus=0.2)
        direct = loss(tau_plus=0.2, temperature=1 / scale)
        value = wrapped(IMAGES, TEXTS, torch.tensor(scale))
        torch.testing.assert_close(value, direct.in_batch(IMAGES, TEXTS, both_directions=True))
    bias = torch.tensor(-10.0, requires_grad=True)
    ours.ClipLoss(loss=bayescl.BayesianContrastiveLoss)(IMAGES, TEXTS, SCALE, bias).backward()
    assert bias.grad == 0


def test_equal_captions_are_no_negatives_of_each_other() -> None:
    texts = theirs.tokenize(["a cat", "a dog", "a cat", "a bird"], context_length=8)
    groups = ours.caption_groups(texts)
    assert groups[0] == groups[2]
    assert groups.unique().numel() == 3
    value = ours.ClipLoss()(IMAGES[:4], TEXTS[:4], torch.tensor(5.0), groups=groups)
    logits = 5 * IMAGES[:4] @ TEXTS[:4].T
    logits[0, 2] = logits[2, 0] = -torch.inf
    own = torch.arange(4)
    expected = torch.nn.functional.cross_entropy(torch.cat([logits, logits.T]), own.repeat(2))
    torch.testing.assert_close(value, expected)


def test_what_cannot_be_had_is_refused() -> None:
    with pytest.raises(ValueError, match="use_horovod"):
        ours.ClipLoss(use_horovod=True)
