from __future__ import annotations

import pytest
import torch
from cases import each

from bayescl.estimation import label_free_alpha, label_free_bias, win_rates
from bayescl.estimation.auc import anchor_aucs
from bayescl_lab.paper.simulation.model import independent_pair_auc
from bayescl_lab.paper.simulation.process import Settings, generator, observe


def processed(alpha: float, tau_plus: float):
    """Logits of the paper's generative process, one positive per anchor, and the truth."""
    settings = Settings(
        anchors=4000, candidates=64, alpha=alpha, tau_plus=tau_plus, positives=1, gamma=0.0
    )
    chunks = list(observe(settings, generator(0, "label free", alpha, tau_plus)))
    positive = torch.cat([chunk.positives[:, 0] for chunk in chunks])
    unlabeled = torch.cat([chunk.unlabeled for chunk in chunks])
    return positive, unlabeled, torch.cat([~chunk.true_negative for chunk in chunks])


def test_win_rates_equal_a_count_pair_by_pair() -> None:
    source = torch.Generator().manual_seed(0)
    positive = torch.randint(0, 5, (7,), generator=source).float()
    unlabeled = torch.randint(0, 5, (7, 9), generator=source).float()
    valid = torch.rand(unlabeled.shape, generator=source) < 0.6
    found = win_rates(positive, unlabeled, valid=valid)
    for row in range(7):
        wins = [
            1.0 if positive[row] > u else 0.5 if positive[row] == u else 0.0
            for u in unlabeled[row, valid[row]]
        ]
        assert float(found[row]) == pytest.approx(sum(wins) / len(wins))


@each(("alpha", "tau_plus"), [(0.6, 0.05), (0.9, 0.1), (0.9, 0.3)])
def test_without_labels_the_models_own_alpha_is_found(alpha, tau_plus) -> None:
    # Positives of the process are drawn as false negatives are, so the estimate has no bias. The
    # standard error of the AUC is below 0.005 with 4,000 positives.
    positive, unlabeled, _ = processed(alpha, tau_plus)
    found = label_free_alpha(positive, unlabeled, tau_plus=tau_plus, reading="model")
    expected = independent_pair_auc(alpha)
    assert found.auc == found.authors == pytest.approx(expected, abs=0.015)
    assert found.alpha == pytest.approx(alpha, abs=0.022)
    # Uncorrected for the prior, the estimate would be too low.
    uncorrected = label_free_alpha(positive, unlabeled, tau_plus=0.0, reading="auc").auc
    assert uncorrected == pytest.approx(found.auc - tau_plus * (found.auc - 0.5))


def test_the_estimate_is_the_auc_plus_the_two_parts_of_its_bias() -> None:
    positive, unlabeled, truth = processed(0.8, 0.2)
    positive = positive + 0.3  # views that are more alike than their class
    auc = float(anchor_aucs(unlabeled, truth).nanmean())
    share = float(truth.double().mean())
    # The identity holds for pooled pairs: weigh every anchor by its candidates of the kind.
    pooled_true, pooled_false = (
        float(win_rates(positive, unlabeled, valid=of).nan_to_num() @ of.sum(1).double() / of.sum())
        for of in (~truth, truth)
    )
    estimate = label_free_alpha(positive, unlabeled, tau_plus=share, reading="auc").auc
    by_hand = (pooled_true - auc) + share / (1 - share) * (pooled_false - 0.5)
    assert estimate - auc == pytest.approx(by_hand, abs=1e-12)
    bias = label_free_bias(positive, unlabeled, truth, auc=auc, tau_plus=share)
    assert bias.total == pytest.approx(by_hand, abs=0.01)
    assert min(bias.true_negatives / 3, bias.false_negatives) > 0.01


def test_views_that_beat_everything_are_read_as_a_perfect_encoder() -> None:
    for score, expected in ((2.0, (1, 1)), (-1.0, (0, 0.5))):
        positive, unlabeled = torch.full((5,), score), torch.rand(5, 8)
        found = label_free_alpha(positive, unlabeled, tau_plus=0.2, reading="model")
        assert (found.auc, found.alpha) == expected


def test_anchors_without_candidates_are_left_out_and_all_of_them_refused() -> None:
    positive, unlabeled = torch.tensor([1.0, 1.0]), torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    valid = torch.tensor([[True, True], [False, False]])
    found = label_free_alpha(positive, unlabeled, tau_plus=0.0, reading="auc", valid=valid)
    assert found.auc == 0.5
    with pytest.raises(ValueError, match="valid must leave at least one anchor a candidate"):
        label_free_alpha(positive, unlabeled, tau_plus=0.0, reading="auc", valid=valid & False)
    with pytest.raises(ValueError, match=r"unlabeled must have shape \[2, candidates\]"):
        win_rates(positive, unlabeled[:1])
