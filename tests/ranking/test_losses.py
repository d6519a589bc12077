"""BPR, and the debiased loss with several positives."""

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
from bayescl_lab.ranking.losses import BPRLoss, ExtraPositivesDebiasedLoss

LIKED = np.random.default_rng(0).random((8, 12)) < 0.4
LIKED[:, 0] = True
TRAIN = Interactions.from_pairs(*LIKED.nonzero(), user_ids=8, item_ids=12)
USERS, ITEMS = (torch.from_numpy(column) for column in TRAIN.pairs())


@pytest.fixture
def rows():
    """Anchors, positives, shared candidates and extra positives."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 3), (5, 3), (7, 3), (5, 2, 3)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


def test_bpr_of_one_candidate_is_the_logistic_loss_of_the_difference(rows):
    anchors, positives, _, others = rows
    value = BPRLoss().sampled(anchors, positives, others[:, :1])
    gaps = (anchors * (positives - others[:, 0])).sum(dim=1)
    torch.testing.assert_close(value, -torch.nn.functional.logsigmoid(gaps).mean())


def test_bpr_means_over_the_candidates_that_count(rows):
    anchors, positives, candidates = (part[:2] for part in rows[:3])
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


def test_several_positives_equal_the_formula_pair_by_pair(rows):
    loss = ExtraPositivesDebiasedLoss(tau_plus=0.05, temperature=0.5, reduction="none")
    valid = torch.rand(5, 7, generator=torch.Generator().manual_seed(1)) > 0.3
    values = loss.sampled(*rows[:3], extra_positives=rows[3], valid=valid)
    anchors, positives, candidates, extra = (torch.nn.functional.normalize(r, dim=-1) for r in rows)
    for row in range(5):
        positive = math.exp(anchors[row] @ positives[row] / 0.5)
        known = [positive] + [math.exp(anchors[row] @ other / 0.5) for other in extra[row]]
        counted = candidates[valid[row]]
        total = sum(math.exp(anchors[row] @ candidate / 0.5) for candidate in counted)
        negative = (total - len(counted) * 0.05 * sum(known) / len(known)) / 0.95
        negative = max(negative, len(counted) * math.exp(-2))
        assert float(values[row]) == pytest.approx(-math.log(positive / (positive + negative)))


def test_copies_of_the_positive_change_nothing_and_gradients_reach_extra_positives(rows):
    anchors, positives, candidates, _ = rows
    loss = ExtraPositivesDebiasedLoss(tau_plus=0.1, temperature=1.0)
    copies = positives[:, None].expand(-1, 4, -1)
    value = loss.sampled(anchors, positives, candidates, extra_positives=copies)
    plain = DebiasedContrastiveLoss(tau_plus=0.1, temperature=1.0)
    torch.testing.assert_close(value, plain.sampled(anchors, positives, candidates))
    leaves = [part.requires_grad_() for part in rows]
    torch.autograd.gradcheck(
        lambda a, p, c, e: loss.sampled(a, p, c, extra_positives=e), leaves, atol=1e-6
    )


def test_what_extra_positives_cannot_stand_beside_is_refused(rows):
    for settings, options, message in (
        ({}, {"groups": torch.arange(5)}, "cannot be combined with groups"),
        ({"gather": True}, {}, "gather_candidates must be False"),
    ):
        loss = ExtraPositivesDebiasedLoss(**settings)
        with pytest.raises(ValueError, match=message):
            loss.sampled(*rows[:3], extra_positives=rows[3], **options)


def test_sources_draw_extra_positives_from_the_users_own_items():
    source = SharedCandidates(TRAIN, 6, extra_positives=3)
    drawn = source.draw_positives(USERS, seed=4)
    assert drawn.shape == (len(USERS), 3)
    assert bool(torch.from_numpy(LIKED)[USERS[:, None], drawn].all())
    assert torch.equal(drawn, source.draw_positives(USERS, seed=4))
    often = source.draw_positives(torch.zeros(3000, dtype=torch.int64), seed=0).flatten()
    shares = often.bincount(minlength=12)[LIKED[0]] / len(often)
    expected = torch.full_like(shares, 1 / LIKED[0].sum())
    torch.testing.assert_close(shares, expected, atol=0.02, rtol=0)


def test_a_source_hands_them_to_the_loss():
    torch.manual_seed(0)
    encoder = MatrixFactorization(TRAIN, 4)
    loss = ExtraPositivesDebiasedLoss(tau_plus=0.1, temperature=0.5)
    source = AllItems(TRAIN, extra_positives=2)
    value = source(loss, encoder, PairBatch(USERS, ITEMS), seed=9)
    extra = source.draw_positives(USERS, seed=9)
    expected = loss.sampled(
        *encoder.embed(USERS, ITEMS),
        encoder.item_table,
        valid=~torch.from_numpy(LIKED)[USERS],
        extra_positives=encoder.item_table[extra],
    )
    torch.testing.assert_close(value, expected)
