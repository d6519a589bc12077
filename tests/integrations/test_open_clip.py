"""Losses in the shape of open_clip's: equal to its own, the gradient of its scale included."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("open_clip", reason="needs open_clip")

import open_clip as theirs
from open_clip.loss import SigLipLoss
from ranks import launch

import bayescl
from bayescl.integrations import open_clip as ours
from integrations import examples, open_clip_ranks

pytestmark = pytest.mark.filterwarnings("default")


def assert_same(found: list, wanted: list, within: float = 1e-6) -> None:
    assert found[0] == pytest.approx(wanted[0], rel=within)
    for one, other in zip(found[1:], wanted[1:], strict=True):
        one, other = (torch.tensor(each, dtype=torch.float64) for each in (one, other))
        torch.testing.assert_close(one, other, rtol=0, atol=10 * within)


@pytest.mark.parametrize("call", [{}, {"logit_bias": torch.tensor(-3.0)}])
def test_info_nce_is_clip_loss(call: dict) -> None:
    own = slice(0, 6)
    assert_same(
        open_clip_ranks.step(ours.ClipLoss(), own, **call),
        open_clip_ranks.step(theirs.ClipLoss(), own, **call),
    )


@pytest.mark.parametrize("bias", [-10.0, -3.0])
def test_the_sigmoid_loss_is_siglip_loss(bias: float) -> None:
    own = slice(0, 6)
    for dtype, within in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        wanted = open_clip_ranks.step(SigLipLoss(), own, bias, dtype)
        for criterion in (
            ours.SigLipLoss(),
            ours.SigLipLoss(chunk_size=4, engine="chunked"),
            ours.BayesianSigLipLoss(alpha=0.5),  # all weigh the same
            ours.LatentClassSigLipLoss(num_classes=3),  # nothing is trusted yet
        ):
            assert_same(open_clip_ranks.step(criterion, own, bias, dtype), wanted, within)


def test_a_dictionary_is_returned_on_request() -> None:
    images, texts = open_clip_ranks.rows(0), open_clip_ranks.rows(1)
    call = {"logit_scale": torch.tensor(10.0), "output_dict": True}
    found, wanted = (made()(images, texts, **call) for made in (ours.ClipLoss, theirs.ClipLoss))
    assert found.keys() == wanted.keys()
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("name", ["Debiased", "Hard", "Bayesian", "LatentClass"])
def test_the_others_are_our_own_losses_at_the_models_temperature(name: str) -> None:
    images, texts = open_clip_ranks.rows(0), open_clip_ranks.rows(1)
    wrapped = getattr(ours, f"{name}ClipLoss")(tau_plus=0.2)
    for scale in (4.0, 10.0):
        direct = getattr(bayescl, f"{name}ContrastiveLoss")(tau_plus=0.2, temperature=1 / scale)
        torch.testing.assert_close(
            wrapped(images, texts, torch.tensor(scale)),
            direct.in_batch(images, texts, both_directions=True),
        )


def test_labels_of_some_pairs_reach_the_loss() -> None:
    images, texts = open_clip_ranks.rows(0), open_clip_ranks.rows(1)
    labels = torch.tensor([0, 0, 1, 1, -1, -1])
    options = {"tau_plus": 0.3, "memory_size": 12, "refit_every": 1, "aim": "classes"}
    wrapped = ours.LatentClassClipLoss(**options)
    direct = bayescl.LatentClassContrastiveLoss(**options, temperature=0.1)
    for _ in range(3):
        torch.testing.assert_close(
            wrapped(images, texts, torch.tensor(10.0), labels=labels),
            direct.in_batch(images, texts, labels=labels, both_directions=True),
        )
    with pytest.raises(ValueError, match="labels must be None"):
        ours.ClipLoss()(images, texts, torch.tensor(10.0), labels=labels)


def test_a_bias_gets_a_gradient_of_zero() -> None:
    bias = torch.tensor(-10.0, requires_grad=True)
    images, texts = open_clip_ranks.rows(0), open_clip_ranks.rows(1)
    ours.BayesianClipLoss()(images, texts, torch.tensor(10.0), bias).backward()
    assert bias.grad == 0


def test_equal_captions_are_no_negatives_of_each_other() -> None:
    texts = theirs.tokenize(["a cat", "a dog", "a cat", "a bird"], context_length=8)
    groups = ours.caption_groups(texts)
    assert groups[0] == groups[2]
    assert groups.unique().numel() == 3
    images, captions = open_clip_ranks.rows(0)[:4], open_clip_ranks.rows(1)[:4]
    value = ours.ClipLoss()(images, captions, torch.tensor(5.0), groups=groups)
    logits = 5 * images @ captions.T
    logits[0, 2] = logits[2, 0] = -torch.inf
    own = torch.arange(4)
    expected = torch.nn.functional.cross_entropy(torch.cat([logits, logits.T]), own.repeat(2))
    torch.testing.assert_close(value, expected)


def test_horovod_is_refused() -> None:
    with pytest.raises(ValueError, match="use_horovod"):
        ours.ClipLoss(use_horovod=True)


@pytest.fixture(scope="module")
def found() -> list[launch.Findings]:
    return launch.run(open_clip_ranks.on_a_rank, 2, seconds=300)


@pytest.mark.distributed
def test_two_processes_are_local_loss_with_gathered_gradients(found: list[launch.Findings]) -> None:
    for rank in found:
        assert_same(rank["ours"], rank["theirs"])
        assert_same(rank["our sigmoid"], rank["their sigmoid"])


@pytest.mark.distributed
def test_two_processes_with_unequal_batches_are_one_with_the_whole_batch(
    found: list[launch.Findings],
) -> None:
    groups = torch.tensor([0, 1, 2, 0, 3, 1])
    wanted = open_clip_ranks.step(ours.BayesianClipLoss(), slice(0, 6), groups=groups)
    means = [sum(rank["unequal"][each] for rank in found) / 2 for each in (0, 1)]
    assert means == pytest.approx(wanted[:2], rel=1e-5)
    for side in (2, 3):
        # Averaging over processes, as DistributedDataParallel does, halves each row's gradient.
        gradient = torch.cat([torch.tensor(rank["unequal"][side]) for rank in found]) / 2
        torch.testing.assert_close(gradient, torch.tensor(wanted[side]), rtol=0, atol=1e-5)


def test_the_example_trains_with_their_line_and_with_ours(tmp_path: Path) -> None:
    before, after = examples.both_ways("open_clip.md", "open_clip_pairs.py", tmp_path)
    assert isinstance(before["criterion"], theirs.ClipLoss)
    assert isinstance(after["criterion"], ours.BayesianClipLoss)
    for names in (before, after):
        assert names["model"].logit_scale.grad.isfinite()
