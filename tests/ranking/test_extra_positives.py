from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from bayescl.losses import DebiasedContrastiveLoss
from bayescl_lab.ranking.batches import PairBatch
from bayescl_lab.ranking.candidates import AllItems, SharedCandidates
from bayescl_lab.ranking.encoder import MatrixFactorization
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.losses import ExtraPositivesDebiasedLoss

LIKED = np.random.default_rng(0).random((8, 12)) < 0.4
LIKED[:, 0] = True
TRAIN = Interactions.from_pairs(*LIKED.nonzero(), user_ids=8, item_ids=12)
USERS, ITEMS = (torch.from_numpy(column) for column in TRAIN.pairs())


@pytest.fixture
def rows():
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 3), (5, 3), (7, 3), (5, 2, 3)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def test_the_loss_equals_the_formula_pair_by_pair(rows):
    loss = ExtraPositivesDebiasedLoss(tau_plus=0.05, temperature=0.5, reduction="none")
    valid = torch.rand(5, 7, generator=torch.Generator().manual_seed(1)) > 0.3
    values = loss.sampled(*rows[:3], extra_positives=rows[3], valid=valid)
    anchors, positives, candidates, extra = (torch.nn.functional.normalize(r, dim=-1) for r in rows)
    for row in range(5):
        positive = math.exp(anchors[row] @ positives[row] / 0.5)
        known = [positive] + [math.exp(anchors[row] @ one / 0.5) for one in extra[row]]
        counted = candidates[valid[row]]
        total = sum(math.exp(anchors[row] @ one / 0.5) for one in counted)
        negative = (total - len(counted) * 0.05 * sum(known) / len(known)) / 0.95
        negative = max(negative, len(counted) * math.exp(-2))
        assert float(values[row]) == pytest.approx(-math.log(positive / (positive + negative)))


def test_copies_of_the_positive_change_nothing(rows):
    anchors, positives, candidates, _ = rows
    settings = {"tau_plus": 0.1, "temperature": 0.3}
    copies = positives[:, None].expand(-1, 4, -1)
    value = ExtraPositivesDebiasedLoss(**settings).sampled(
        anchors, positives, candidates, extra_positives=copies
    )
    plain = DebiasedContrastiveLoss(**settings).sampled(anchors, positives, candidates)
    torch.testing.assert_close(value, plain)


def test_gradients_reach_the_extra_positives(rows):
    loss = ExtraPositivesDebiasedLoss(tau_plus=0.1, temperature=1.0)
    leaves = [one.requires_grad_() for one in rows]
    torch.autograd.gradcheck(
        lambda a, p, c, e: loss.sampled(a, p, c, extra_positives=e), leaves, atol=1e-6
    )


@pytest.mark.parametrize("source", [SharedCandidates(TRAIN, 6, extra_positives=3)])
def test_sources_draw_extra_positives_from_the_users_own_items(source):
    drawn = source.draw_positives(USERS, seed=4)
    assert drawn.shape == (len(USERS), 3)
    assert bool(torch.from_numpy(LIKED)[USERS[:, None], drawn].all())
    assert torch.equal(drawn, source.draw_positives(USERS, seed=4))
    often = source.draw_positives(torch.zeros(3000, dtype=torch.int64), seed=0).flatten()
    shares = often.bincount(minlength=12)[LIKED[0]] / len(often)
    torch.testing.assert_close(
        shares, torch.full_like(shares, 1 / LIKED[0].sum()), atol=0.02, rtol=0
    )


def test_a_source_hands_them_to_the_loss():
    torch.manual_seed(0)
    encoder = MatrixFactorization(TRAIN, 4)
    loss = ExtraPositivesDebiasedLoss(tau_plus=0.1, temperature=0.5)
    source = AllItems(TRAIN, extra_positives=2)
    value = source(loss, encoder, PairBatch(USERS, ITEMS), seed=9)
    extra = source.draw_positives(USERS, seed=9)
    expected = loss.sampled(
        encoder.user_table[USERS],
        encoder.item_table[ITEMS],
        encoder.item_table,
        valid=~torch.from_numpy(LIKED)[USERS],
        extra_positives=encoder.item_table[extra],
    )
    torch.testing.assert_close(value, expected)


def test_groups_beside_extra_positives_are_refused(rows):
    loss = ExtraPositivesDebiasedLoss()
    with pytest.raises(ValueError, match="cannot be combined with groups"):
        loss.sampled(*rows[:3], extra_positives=rows[3], groups=torch.arange(5))


def test_candidates_of_other_processes_beside_extra_positives_are_refused(rows):
    loss = ExtraPositivesDebiasedLoss(gather=True)
    with pytest.raises(ValueError, match="gather_candidates must be False"):
        loss.sampled(*rows[:3], extra_positives=rows[3])
