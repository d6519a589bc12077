from __future__ import annotations

import numpy as np
import pytest
import torch

from bayescl.losses import BayesianContrastiveLoss, InfoNCELoss
from bayescl_lab.ranking.batches import PairBatch
from bayescl_lab.ranking.candidates import (
    AllItems,
    InBatchCandidates,
    KnownItems,
    PerPairCandidates,
    SharedCandidates,
)
from bayescl_lab.ranking.encoder import MatrixFactorization
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.losses import BPRLoss

GENERATOR = np.random.default_rng(0)
LIKED = GENERATOR.random((20, 30)) < 0.3
LIKED[4] = False
LIKED[:, 7] = False
TRAIN = Interactions.from_pairs(*LIKED.nonzero(), user_ids=20, item_ids=30)
USERS, ITEMS = (torch.from_numpy(column)[::3] for column in TRAIN.pairs())
KNOWN = torch.from_numpy(LIKED)
BATCH = PairBatch(USERS, ITEMS)


class Witness(InfoNCELoss):
    """InfoNCE that keeps what it was asked."""

    def sampled(self, anchors, positives, candidates, **others):
        self.asked = {"candidates": candidates, **others}
        return super().sampled(anchors, positives, candidates, **others)

    def in_batch(self, anchors, positives, **others):
        self.asked = {"candidates": positives, **others}
        return super().in_batch(anchors, positives, **others)


@pytest.fixture
def encoder():
    torch.manual_seed(0)
    return MatrixFactorization(TRAIN, 6)


@pytest.mark.parametrize("count", [1, 3, 30, 90])
def test_both_ways_to_ask_agree_with_the_matrix(count):
    items = torch.randint(30, (count,), generator=torch.Generator().manual_seed(count))
    users = torch.randint(20, (50,), generator=torch.Generator().manual_seed(1))
    empty = Interactions.from_pairs([], [], user_ids=20, item_ids=30)
    for train, table in ((TRAIN, KNOWN), (empty, torch.zeros_like(KNOWN))):
        known, expected = KnownItems(train), table[users][:, items]
        assert torch.equal(known.among(users, items), expected)
        pairwise = known.contains(users[:, None].expand(-1, count), items.expand(50, -1))
        assert torch.equal(pairwise, expected)


def test_shared_candidates_are_distinct_and_mask_what_each_user_knows(encoder):
    source, loss = SharedCandidates(TRAIN, 12), Witness()
    source(loss, encoder, BATCH, seed=5)
    drawn, _ = source.choose(BATCH, seed=5)
    assert len(drawn.unique()) == 12
    assert torch.equal(loss.asked["candidates"], encoder.item_table[drawn])
    assert torch.equal(loss.asked["valid"], ~KNOWN[USERS][:, drawn])


def test_without_masking_only_the_pairs_own_item_is_left_out(encoder):
    loss = Witness()
    AllItems(TRAIN, mask_known=False)(loss, encoder, BATCH, seed=0)
    assert torch.equal((~loss.asked["valid"]).nonzero()[:, 1], ITEMS)
    InBatchCandidates(TRAIN, mask_known=False)(loss, encoder, BATCH, seed=0)
    assert torch.equal(loss.asked["groups"], ITEMS)


def test_draws_of_each_pair_hold_nothing_that_its_user_knows(encoder):
    source = PerPairCandidates(TRAIN, 8)
    drawn, valid = source.choose(BATCH, seed=1)
    assert not (KNOWN[USERS[:, None], drawn] & valid).any()
    assert valid.float().mean() > 0.999  # what was barred was drawn again
    assert len({tuple(row) for row in drawn.tolist()}) > 0.9 * len(drawn)


def test_a_user_who_knows_everything_keeps_no_candidate():
    train = Interactions.from_pairs([0, 0, 1], [0, 1, 0], user_ids=2, item_ids=2)
    users, items = torch.tensor([0, 1]), torch.tensor([1, 0])
    drawn, valid = PerPairCandidates(train, 4).choose(PairBatch(users, items), seed=0)
    assert valid.tolist() == [[False] * 4, [True] * 4]
    assert drawn[1].tolist() == [1] * 4


@pytest.mark.parametrize("source", [SharedCandidates(TRAIN, 9), PerPairCandidates(TRAIN, 9)])
def test_draws_depend_on_the_seed_and_on_nothing_else(source):
    torch.manual_seed(1)
    first, _ = source.choose(BATCH, seed=3)
    torch.manual_seed(2)
    assert torch.equal(source.choose(BATCH, seed=3)[0], first)
    assert not torch.equal(source.choose(BATCH, seed=4)[0], first)


@pytest.mark.parametrize(
    "loss", [InfoNCELoss(temperature=0.3), BayesianContrastiveLoss(tau_plus=0.1, temperature=0.3)]
)
def test_all_items_equal_a_loop_over_pairs(encoder, loss):
    value = AllItems(TRAIN)(loss, encoder, BATCH, seed=0)
    each = []
    for user, item in zip(USERS, ITEMS, strict=True):
        rivals = (~KNOWN[user]).nonzero().squeeze(1)
        anchor, positive = encoder.user_table[user][None], encoder.item_table[item][None]
        each.append(loss.sampled(anchor, positive, encoder.item_table[rivals]))
    torch.testing.assert_close(value, torch.stack(each).mean())


@pytest.mark.parametrize("distinct", [False, True])
def test_in_batch_candidates_tell_how_often_an_item_comes_up(encoder, distinct):
    loss = Witness()
    source = InBatchCandidates(TRAIN, distinct=distinct)
    source(loss, encoder, BATCH, seed=0)
    columns = ITEMS.unique() if distinct else ITEMS
    assert torch.equal(loss.asked["candidates"], encoder.item_table[columns])
    assert torch.equal(loss.asked["valid"], ~KNOWN[USERS][:, columns])
    draws = torch.from_numpy(GENERATOR.choice(TRAIN.pairs()[1], (20_000, len(ITEMS))))
    often = draws.flatten().bincount(minlength=30) / len(draws)
    if distinct:
        often = torch.stack([(draws == item).any(dim=1).float().mean() for item in range(30)])
        torch.testing.assert_close(loss.asked["positive_log_q"], source.log_q(ITEMS, len(ITEMS)))
    torch.testing.assert_close(loss.asked["log_q"].exp(), often[columns], rtol=0.05, atol=0)


@pytest.mark.parametrize("source", [SharedCandidates, PerPairCandidates])
def test_bad_settings_are_refused(source):
    with pytest.raises(ValueError, match="count must be a whole number of at least 1"):
        source(TRAIN, 0)


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
