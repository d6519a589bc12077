"""Losses in the shape of open_clip's: equal to its own, the gradient of its scale included."""

from itertools import product

import pytest
import torch

pytest.importorskip("open_clip", reason="needs open_clip")

import open_clip as theirs

import bayescl
from bayescl.integrations import open_clip as ours
from integrations.on_ranks import assert_same, pairs_of_clip, rows

pytestmark = pytest.mark.filterwarnings("default")
IMAGES, TEXTS = (torch.nn.functional.normalize(rows(6, seed), dim=1) for seed in (0, 1))
SCALE = torch.tensor(10.0)


@pytest.mark.parametrize("call", [{}, {"logit_bias": torch.tensor(-3.0)}])
@pytest.mark.parametrize("pairs", [1, 6])
def test_info_nce_is_clip_loss(pairs, call):
    mine, reference = (
        pairs_of_clip(made(), slice(pairs), **call) for made in (ours.ClipLoss, theirs.ClipLoss)
    )
    assert_same(mine, reference)
    found, wanted = (
        made()(IMAGES, TEXTS, SCALE, output_dict=True, **call)
        for made in (ours.ClipLoss, theirs.ClipLoss)
    )
    torch.testing.assert_close(found, wanted)


def test_the_others_are_our_own_losses_at_the_models_temperature():
    for name, scale in product(("Debiased", "Hard", "Bayesian"), (4.0, 10.0)):
        loss = getattr(bayescl, f"{name}ContrastiveLoss")
        wrapped = ours.ClipLoss(loss=loss, tau_plus=0.2)
        direct = loss(tau_plus=0.2, temperature=1 / scale)
        value = wrapped(IMAGES, TEXTS, torch.tensor(scale))
        torch.testing.assert_close(value, direct.in_batch(IMAGES, TEXTS, both_directions=True))
    bias = torch.tensor(-10.0, requires_grad=True)
    ours.ClipLoss(loss=bayescl.BayesianContrastiveLoss)(IMAGES, TEXTS, SCALE, bias).backward()
    assert bias.grad == 0


def test_either_tower_or_a_tensor_is_the_teacher_of_both_sides():
    direct = bayescl.InfoNCELoss(temperature=0.1, positive_share=0.8, normalize=False)
    other = rows(6, 2)
    for tower, call, teacher in (
        ("text", {}, TEXTS), ("image", {}, IMAGES), (None, {"teacher": other}, other),
        ("text", {"teacher": other}, other),
    ):  # fmt: skip
        wrapped = ours.ClipLoss(teacher=tower, positive_share=0.8)
        wanted = direct.in_batch(IMAGES, TEXTS, teacher=teacher, both_directions=True)
        torch.testing.assert_close(wrapped(IMAGES, TEXTS, SCALE, **call), wanted)
    images, texts = IMAGES.clone().requires_grad_(), TEXTS.clone().requires_grad_()
    ours.ClipLoss(teacher="text", positive_share=0.8)(images, texts, SCALE).backward()
    again = TEXTS.clone().requires_grad_()
    direct.in_batch(IMAGES, again, teacher=TEXTS, both_directions=True).backward()
    torch.testing.assert_close(texts.grad, again.grad)  # nothing flows through the teacher


def test_equal_captions_are_not_negatives_of_each_other():
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


def test_wrong_arguments_are_refused():
    for name, value in (("use_horovod", True), ("teacher", "audio")):
        with pytest.raises(ValueError, match=name):
            ours.ClipLoss(**{name: value})
