import pytest
import torch
from reference.process import draw_scores, pair_auc
from sklearn.metrics import roc_auc_score

from bayescl.estimation import (
    MeasuredAlpha,
    anchor_aucs,
    label_free_alpha,
    measured_alpha,
    tau_plus_of_labels,
)
from bayescl.functional import unit_vectors


def cloud(rows: int, classes: int, seed: int, dim: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings that lean towards a direction of their class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % classes
    centers = torch.randn(classes, dim, generator=generator)
    return centers[labels] + torch.randn(rows, dim, generator=generator), labels


def test_the_measured_auc_is_scikit_learns_called_as_the_authors_do(monkeypatch):
    embeddings, labels = cloud(60, 5, seed=1)
    labels[0] = 7  # alone in its class: left out of the mean
    unit = unit_vectors(embeddings)
    scores, own = unit @ unit.T, ~torch.eye(60, dtype=torch.bool)
    rows = zip(scores[1:], labels[1:], own[1:], strict=True)
    aucs = [roc_auc_score(labels[kept] == label, row[kept]) for row, label, kept in rows]
    for chunk in (2**22, 200):
        monkeypatch.setattr("bayescl.estimation._CHUNK", chunk)
        found = measured_alpha(embeddings, labels).auc
        assert found == pytest.approx(sum(aucs) / 59, abs=1e-6)


def test_rows_with_masks_equal_scikit_learn_row_by_row():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 12, (50, 60), generator=generator).float()
    truth = torch.rand(scores.shape, generator=generator) < 0.3
    valid = torch.rand(scores.shape, generator=generator) < 0.7
    found = anchor_aucs(scores, truth, valid=valid)
    for row, kept in enumerate(valid):
        expected = roc_auc_score(truth[row, kept].numpy(), scores[row, kept].numpy())
        assert float(found[row]) == pytest.approx(expected, abs=1e-12)
    scores = torch.rand((2, 60_000), generator=generator)  # a long memory loses no precision
    truth = torch.rand(scores.shape, generator=generator) < 0.1
    for row, auc in enumerate(anchor_aucs(scores, truth)):
        assert float(auc) == pytest.approx(roc_auc_score(truth[row], scores[row]), abs=1e-9)
    scores, sign = torch.arange(4.0).flip(0), torch.tensor([[1.0], [-1.0], [0.0]])
    assert anchor_aucs(sign * scores, (scores > 1).expand(3, 4)).tolist() == [1, 0, 0.5]
    assert anchor_aucs(sign * scores, (scores > 9).expand(3, 4)).isnan().all()


def test_the_model_reading_inverts_the_model_and_readings_stay_in_alphas_interval():
    for alpha in (0.5, 0.6, 0.75, 0.9, 1.0):
        assert MeasuredAlpha(pair_auc(alpha)).model == pytest.approx(alpha)
    for auc in (0.0, 0.3, 0.5, 0.8, 0.9, 1.0):
        found = MeasuredAlpha(auc)
        assert 0.5 <= found.authors <= found.model <= 1


def test_at_a_prior_of_0_it_is_a_count_pair_by_pair():
    source = torch.Generator().manual_seed(0)
    positive = torch.randint(0, 5, (7,), generator=source).float()
    unlabeled = torch.randint(0, 5, (7, 9), generator=source).float()
    valid = torch.rand(unlabeled.shape, generator=source) < 0.6
    rates = []
    for score, row, kept in zip(positive, unlabeled, valid, strict=True):
        others = row[kept]
        rates.append(float((score > others).sum() + (score == others).sum() / 2) / len(others))
    found = label_free_alpha(positive, unlabeled, tau_plus=0, valid=valid)
    assert found.auc == pytest.approx(sum(rates) / 7)


@pytest.mark.parametrize(("alpha", "tau_plus"), [(0.6, 0.05), (0.9, 0.1), (0.9, 0.3)])
def test_without_labels_the_models_own_alpha_is_found(alpha, tau_plus):
    # Positives of the process are drawn as false negatives are, so the estimate has no bias. The
    # standard error of the AUC is below 0.005 with 4,000 positives.
    positive, unlabeled, _ = draw_scores(4000, alpha=alpha, tau_plus=tau_plus)
    found = label_free_alpha(positive, unlabeled, tau_plus=tau_plus)
    assert found.auc == found.authors == pytest.approx(pair_auc(alpha), abs=0.015)
    assert found.model == pytest.approx(alpha, abs=0.022)


def test_the_estimate_is_the_auc_plus_the_two_parts_of_its_bias():
    positive, unlabeled, truth = draw_scores(4000, alpha=0.8, tau_plus=0.2)
    positive = positive + 0.15  # views that are more alike than their class
    auc = float(anchor_aucs(unlabeled, truth).nanmean())
    share = float(truth.double().mean())
    # The identity holds for pooled pairs: anchors with more candidates of the kind count for more.
    wins = (positive[:, None] > unlabeled).double() + (positive[:, None] == unlabeled) / 2
    pooled_true, pooled_false = (float(wins[of].mean()) for of in (~truth, truth))
    parts = pooled_true - auc, share / (1 - share) * (pooled_false - 0.5)
    estimate = label_free_alpha(positive, unlabeled, tau_plus=share).auc
    assert estimate - auc == pytest.approx(sum(parts), abs=1e-12)
    assert min(parts[0] / 3, parts[1]) > 0.01


def test_the_prior_of_labels_is_the_share_of_pairs_that_agree():
    labels = torch.randint(0, 4, (40,), generator=torch.Generator().manual_seed(0))
    agree = [bool(labels[i] == labels[j]) for i in range(40) for j in range(40) if i != j]
    assert tau_plus_of_labels(labels) == pytest.approx(sum(agree) / len(agree))
    shares = labels.bincount() / 40  # in large sets the item itself does not matter
    large = tau_plus_of_labels(labels.repeat(2500))
    assert large == pytest.approx(float(shares.square().sum()), abs=1e-5)


def test_anchors_without_candidates_are_left_out_and_wrong_arguments_named():
    positive, unlabeled = torch.tensor([1.0, 1.0]), torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    valid = torch.tensor([[True, True], [False, False]])
    assert label_free_alpha(positive, unlabeled, tau_plus=0.0, valid=valid).auc == 0.5
    embeddings, labels = cloud(8, 2, seed=7)
    for call, message in (
        (
            lambda: label_free_alpha(positive, unlabeled, tau_plus=0.0, valid=valid & False),
            "valid must be True for at least one candidate",
        ),
        (
            lambda: label_free_alpha(positive, unlabeled[:1], tau_plus=0.1),
            r"unlabeled must have shape \[2, candidates",
        ),
        (lambda: measured_alpha(embeddings, labels[:7]), r"labels must have shape \[8\], got"),
        (lambda: measured_alpha(embeddings, labels * 0), "at least one item must have candidates"),
        (lambda: measured_alpha(embeddings[:0], labels[:0]), "at least one item must have"),
        (lambda: tau_plus_of_labels(torch.zeros(3).long()), "labels must have at least two"),
        (lambda: tau_plus_of_labels(torch.zeros(1).long()), r"labels must have shape \[items\]"),
        (lambda: MeasuredAlpha(1.5), r"auc must lie in \[0, 1\], got 1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
