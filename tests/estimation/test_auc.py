from __future__ import annotations

import pytest
import torch
from cases import each
from sklearn.metrics import roc_auc_score

from bayescl.estimation import alpha_of_auc, anchor_aucs, macro_auc, measured_alpha
from bayescl.functional import unit_vectors
from bayescl_lab.paper.simulation.model import independent_pair_auc


def cloud(rows: int, classes: int, seed: int, dim: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Embeddings that lean towards a direction of their class."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(rows) % classes
    centres = torch.randn(classes, dim, generator=generator)
    return centres[labels] + torch.randn(rows, dim, generator=generator), labels


@each("rounded", [False, True])
@each("size", [40, 700])
def test_macro_auc_equals_scikit_learn_called_as_the_authors_do(rounded, size) -> None:
    embeddings, labels = cloud(size, 5, seed=size)
    if rounded:
        embeddings = embeddings.round()
    anchors, own = embeddings[:30], labels[:30]
    scores = unit_vectors(anchors) @ unit_vectors(embeddings).T
    truth = own[:, None] == labels[None]
    expected = roc_auc_score(truth.T.numpy(), scores.T.numpy(), average="macro")
    assert macro_auc(anchors, own, embeddings, labels) == pytest.approx(expected, abs=1e-6)


def test_rows_with_masks_equal_scikit_learn_row_by_row() -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randint(0, 12, (50, 60), generator=generator).float()
    truth = torch.rand(scores.shape, generator=generator) < 0.3
    valid = torch.rand(scores.shape, generator=generator) < 0.7
    found = anchor_aucs(scores, truth, valid=valid)
    for row in range(len(scores)):
        kept = valid[row]
        expected = roc_auc_score(truth[row, kept].numpy(), scores[row, kept].numpy())
        assert float(found[row]) == pytest.approx(expected, abs=1e-12)
    scores = torch.rand((2, 60_000), generator=generator)  # a long memory loses no precision
    truth = torch.rand(scores.shape, generator=generator) < 0.1
    for row, auc in enumerate(anchor_aucs(scores, truth)):
        assert float(auc) == pytest.approx(roc_auc_score(truth[row], scores[row]), abs=1e-9)


def test_separated_scores_have_auc_1_reversed_0_and_equal_one_half() -> None:
    scores, sign = torch.arange(4.0).flip(0), torch.tensor([[1.0], [-1.0], [0.0]])
    assert anchor_aucs(sign * scores, (scores > 1).expand(3, 4)).tolist() == [1, 0, 0.5]


def test_an_anchor_without_both_kinds_has_no_auc_and_is_left_out_of_the_mean() -> None:
    embeddings, labels = cloud(20, 2, seed=3)
    lone = torch.cat([labels, torch.tensor([7])])
    rows = torch.cat([embeddings, embeddings[:1]])
    own = torch.arange(21)
    others = torch.ones(20, 21, dtype=torch.bool).scatter(1, own[:20, None], False)
    expected = anchor_aucs(
        unit_vectors(rows[:20]) @ unit_vectors(rows).T, lone[:20, None] == lone, valid=others
    )
    assert macro_auc(rows, lone, rows, lone, own=own) == pytest.approx(float(expected.mean()))
    with pytest.raises(ValueError, match="labels must give at least one anchor candidates"):
        macro_auc(rows, torch.zeros(21).long(), rows, torch.zeros(21).long())


def test_chunks_do_not_change_the_value(monkeypatch) -> None:
    embeddings, labels = cloud(90, 3, seed=4)
    whole = macro_auc(embeddings, labels, embeddings, labels, own=torch.arange(90))
    monkeypatch.setattr("bayescl.estimation.auc._CHUNK", 200)
    chunked = macro_auc(embeddings, labels, embeddings, labels, own=torch.arange(90))
    assert chunked == pytest.approx(whole)


def test_the_model_reading_inverts_the_model_and_readings_stay_in_alphas_interval() -> None:
    for alpha in (0.5, 0.6, 0.75, 0.9, 1.0):
        assert alpha_of_auc(independent_pair_auc(alpha)) == pytest.approx(alpha)
    for auc in (0.0, 0.3, 0.5, 0.8, 0.9, 1.0):
        assert 0.5 <= alpha_of_auc(auc, "auc") <= alpha_of_auc(auc, "model") <= 1


def test_a_small_labelled_part_measures_what_the_whole_has() -> None:
    embeddings, labels = cloud(4000, 4, seed=6)
    whole = measured_alpha(embeddings, labels, reading="auc", anchors=200)
    part = measured_alpha(embeddings[:400], labels[:400], reading="auc")
    assert part.auc == pytest.approx(whole.auc, abs=0.02)
    again = measured_alpha(embeddings, labels, reading="auc", anchors=200)
    assert again == whole
    assert whole.alpha == whole.authors == whole.auc < whole.model


def test_wrong_arguments_are_named() -> None:
    data = cloud(8, 2, seed=7)
    for call, message in (
        (lambda: measured_alpha(*data, reading="both"), "reading must be one of model, auc, got"),
        (
            lambda: macro_auc(data[0], data[1][:7], *data),
            r"labels must have shape \[8\], got \[7\]",
        ),
        (
            lambda: macro_auc(*data, data[0][:0], data[1][:0]),
            r"memory must have shape \[rows, dim\]",
        ),
        (lambda: alpha_of_auc(1.5), r"auc must lie in \[0, 1\], got 1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            call()
