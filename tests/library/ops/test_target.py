"""Target probabilities, and the term that they add to a loss, by their identities."""

import pytest
import torch
from torch import Tensor

from bayescl import functional as F

SHARES = [None, 0.1, 0.5, 1.0]


def drawn(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """A positive's logits, candidates' logits and cosines, and which candidates count."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(2, 5, 7, generator=generator, dtype=torch.float64)
    valid = torch.rand(5, 7, generator=generator) < 0.7
    valid[1] = False
    return logits[0], logits[1].tanh(), valid


@pytest.mark.parametrize("share", SHARES)
def test_candidates_share_by_a_softmax_what_the_positive_does_not_keep(share):
    _, cosine, valid = drawn()
    cosine[0, 0], valid[2] = -torch.inf, True
    target = F.target_probabilities(cosine, temperature=0.3, positive_share=share, valid=valid)
    for row, counts, out in zip(cosine, valid, target, strict=True):
        exponentials = torch.where(counts, (row / 0.3).exp(), 0.0)
        if share is None:
            expected = exponentials / (exponentials.sum() + torch.tensor(1 / 0.3).exp())
        else:
            expected = (1 - share) * exponentials / exponentials.sum().clamp(min=1e-300)
        torch.testing.assert_close(out, expected)
    assert (target[1] == 0).all()


@pytest.mark.parametrize("share", SHARES)
def test_info_nce_with_the_term_is_the_cross_entropy_with_the_target(share):
    unlabeled, cosine, _ = drawn(1)
    positive = unlabeled[:, 0] + 1
    target = F.target_probabilities(cosine, temperature=0.5, positive_share=share)
    both = torch.cat([positive[:, None], unlabeled], dim=1)
    whole = torch.cat([1 - target.sum(dim=1, keepdim=True), target], dim=1)
    expected = torch.nn.functional.cross_entropy(both, whole, reduction="none")
    loss = F.info_nce_loss(positive, unlabeled) + F.target_term(positive, unlabeled, target)
    torch.testing.assert_close(loss, expected)


def test_the_target_is_a_constant_for_the_gradient():
    unlabeled, cosine, _ = drawn(3)
    cosine.requires_grad_()
    positive, unlabeled = unlabeled[:, 0].clone().requires_grad_(), unlabeled.requires_grad_()
    target = F.target_probabilities(cosine, temperature=0.5)
    of_positive, of_unlabeled = torch.autograd.grad(
        F.target_term(positive, unlabeled, target).sum(), (positive, unlabeled)
    )
    assert not target.requires_grad
    torch.testing.assert_close(of_unlabeled, -target)
    torch.testing.assert_close(of_positive, target.sum(dim=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0.0}, "temperature must be positive, got 0"),
        ({"temperature": 1.0, "positive_share": 0.0}, r"positive_share must lie in \(0, 1\]"),
        ({"temperature": 1.0, "positive_share": 1.1}, r"positive_share must lie in \(0, 1\]"),
    ],
)
def test_an_argument_outside_its_interval_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        F.target_probabilities(torch.zeros(1, 2), **options)
