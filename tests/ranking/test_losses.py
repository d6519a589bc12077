"""BPR."""

from __future__ import annotations

import pytest
import torch

from bayescl_lab.ranking.losses import BPRLoss


@pytest.fixture
def rows():
    """Anchors, positives, shared candidates and candidates of each pair."""
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
