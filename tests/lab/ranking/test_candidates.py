import numpy as np
import pytest
import torch

from bayescl.losses import BayesianContrastiveLoss, InfoNCELoss
from bayescl_lab.ranking.batches import UserBatch, UserBatches
from bayescl_lab.ranking.candidates import drawn_candidates, sampled_loss
from bayescl_lab.ranking.encoders import MatrixFactorization
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.losses import BPRLoss

GENERATOR = np.random.default_rng(0)
LIKED = GENERATOR.random((20, 30)) < 0.3
LIKED[4] = False
LIKED[:, 7] = False
TRAIN = Interactions.from_pairs(*LIKED.nonzero(), user_ids=20, item_ids=30)
KNOWN = torch.from_numpy(LIKED)
BATCH = next(iter(UserBatches(TRAIN, 9, 0)))


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return MatrixFactorization(TRAIN, 6)


def test_a_draw_is_of_distinct_items_and_depends_on_the_seed_and_on_nothing_else():
    torch.manual_seed(1)
    drawn, counts = drawn_candidates(BATCH, 30, 12, seed=5)
    assert len(drawn.unique()) == 12
    assert torch.equal(counts, ~KNOWN[BATCH.users][:, drawn])
    torch.manual_seed(2)
    assert torch.equal(drawn_candidates(BATCH, 30, 12, seed=5)[0], drawn)
    assert not torch.equal(drawn_candidates(BATCH, 30, 12, seed=6)[0], drawn)


@pytest.mark.parametrize("count", [12, 30, 99])
@pytest.mark.parametrize(
    "loss",
    [
        InfoNCELoss(temperature=0.3),
        BayesianContrastiveLoss(tau_plus=0.1, temperature=0.3),
        BPRLoss(temperature=0.3, normalize=True),
    ],
)
def test_the_loss_and_its_gradient_equal_a_loop_over_pairs(encoder, loss, count):
    drawn = drawn_candidates(BATCH, 30, 12, seed=3)[0] if count < 30 else torch.arange(30)
    each = []
    for user, item in zip(BATCH.users[BATCH.anchor_of], BATCH.items, strict=True):
        rivals = drawn[~KNOWN[user][drawn]]
        anchor, positive = encoder.user_table[user][None], encoder.item_table[item][None]
        each.append(loss.sampled(anchor, positive, encoder.item_table[rivals]))
    value = sampled_loss(loss, encoder, BATCH, count=count, seed=3)
    values = (value, torch.stack(each).mean())
    torch.testing.assert_close(*values)
    gradients = [torch.autograd.grad(value, [*encoder.parameters()]) for value in values]
    for ours, expected in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, expected)


def test_a_user_who_knows_everything_keeps_no_candidate():
    train = Interactions.from_pairs([0, 0, 1], [0, 1, 0], user_ids=2, item_ids=2)
    batch = UserBatch(torch.tensor([0, 1]), torch.tensor([0, 1, 0]), torch.tensor([0, 0, 1]))
    encoder = MatrixFactorization(train, 4)
    value = sampled_loss(InfoNCELoss(), encoder, batch, count=2, seed=0)
    assert bool(value.isfinite())


def test_bpr_is_the_mean_of_logistic_losses_over_the_candidates_that_count():
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 3), (5, 3), (5, 2, 3), (7, 3)]
    rows = [torch.randn(shape, generator=generator) for shape in shapes]
    anchors, positives, others, candidates = rows
    value = BPRLoss().sampled(anchors, positives, others[:, :1])
    gaps = (anchors * (positives - others[:, 0])).sum(dim=1)
    torch.testing.assert_close(value, -torch.nn.functional.logsigmoid(gaps).mean())
    anchors, positives, candidates = anchors[:2], positives[:2], candidates[:2]
    valid = torch.tensor([[True, True], [False, False]])
    loss = BPRLoss(temperature=0.5, normalize=True)
    value = loss.sampled(anchors, positives, candidates, valid=valid)
    cosine = torch.nn.functional.cosine_similarity
    gaps = cosine(anchors[0], candidates) - cosine(anchors[0], positives[:1])
    expected = torch.nn.functional.softplus(gaps / 0.5).mean() / 2  # the second pair has loss 0
    torch.testing.assert_close(value, expected)
    with pytest.raises(ValueError, match="candidates must have shape"):
        loss.sampled(anchors, positives, candidates[:, :2])
    with pytest.raises(ValueError, match="temperature must be positive"):
        BPRLoss(temperature=0)
