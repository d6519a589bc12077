"""``bayescl inspect --suspects``: planted false negatives are at the top of the list."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from torch.nn import functional as F

from bayescl_lab.inspect.files import EmbeddingArrays
from bayescl_lab.inspect.measures import nearest_rows
from bayescl_lab.inspect.suspects import Suspects, find_suspects

PLANTED = {(row, 1900 + row) for row in range(100)}


def planted(noise: float, seed: int = 0) -> EmbeddingArrays:
    """2,000 pairs of 1,900 meanings: the last 100 pairs repeat meanings of the first.

    The encoder is untrained: a random linear map. Every query and document has noise of its own.
    """
    generator = np.random.default_rng(seed)
    meanings = generator.normal(size=(1900, 64))[np.r_[:1900, :100]]
    encoder = generator.normal(size=(64, 96))
    queries, documents = meanings + noise * generator.normal(size=(2, 2000, 64))
    return EmbeddingArrays(queries @ encoder, documents @ encoder, are_pairs=True)


def couples(found: Suspects, lines: int | None = None) -> list[tuple[int, int]]:
    rows = zip(found.anchors.tolist(), found.candidates.tolist(), strict=True)
    return [(min(pair), max(pair)) for pair in rows][:lines]


@pytest.mark.parametrize("seed", range(3))
def test_most_planted_false_negatives_are_among_the_first_lines(seed: int) -> None:
    found = find_suspects(planted(0.8, seed))
    assert len(PLANTED.intersection(couples(found, 120))) >= 80
    assert found.rule == "positives"
    assert (found.probability.diff() <= 0).all()
    # The rule is a p-value: its mean is 1/2 over all false negatives.
    is_planted = torch.tensor([couple in PLANTED for couple in couples(found)])
    assert found.probability[is_planted].mean() == pytest.approx(0.5, abs=0.15)


def test_a_teacher_finds_what_the_embeddings_do_not() -> None:
    arrays, teacher = planted(3.0), planted(0.5)
    first = {
        judge: len(PLANTED.intersection(couples(find_suspects(arrays, teacher=given), 120)))
        for judge, given in (("own", None), ("teacher", teacher))
    }
    assert first["own"] < 20 < 95 <= first["teacher"]
    found = find_suspects(arrays, teacher=teacher)
    queries, documents = (
        F.normalize(torch.from_numpy(rows), dim=1)
        for rows in (arrays.embeddings, arrays.second_view)
    )
    cosines = queries @ documents.T
    close = {"rtol": 0, "atol": 1e-5}
    torch.testing.assert_close(
        found.similarity.double(), cosines[found.anchors, found.candidates], **close
    )
    torch.testing.assert_close(
        found.positive_similarity.double(), cosines.diagonal()[found.anchors], **close
    )
    assert (found.similarity >= cosines[found.candidates, found.anchors] - 1e-5).all()


def test_known_duplicates_are_not_suspects_but_calibrate_the_list() -> None:
    arrays = planted(0.8)
    ids = np.where(np.arange(2000) >= 1950, np.arange(2000) - 1900, np.arange(2000))
    found = find_suspects(arrays._replace(groups=ids))
    known = {(row, 1900 + row) for row in range(50, 100)}
    assert not known.intersection(couples(found))
    assert len(PLANTED.difference(known).intersection(couples(found, 60))) >= 40
    assert found.rule == "ids"


def test_labels_calibrate_the_probability() -> None:
    generator = np.random.default_rng(0)
    labels = generator.integers(40, size=2000)
    items = generator.normal(size=(40, 16))[labels] + 0.9 * generator.normal(size=(2000, 16))
    some = np.where(np.arange(2000) % 2 == 0, labels, -1)
    found = find_suspects(EmbeddingArrays(items, labels=some))
    hidden = found.is_false < 0
    same = torch.from_numpy(labels[found.anchors] == labels[found.candidates]).double()
    assert found.rule == "labels"
    assert 1000 < hidden.sum() < 9000
    for part in hidden.nonzero().flatten().chunk(5):
        assert found.probability[part].mean() == pytest.approx(same[part].mean().item(), abs=0.07)
    assert found.positive_similarity.isnan().all()
    assert find_suspects(EmbeddingArrays(items)).probability.isnan().all()


def test_neighbors_in_chunks_are_the_neighbors_of_all_distances(monkeypatch) -> None:
    rows = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    groups = torch.arange(50) % 7 - 1
    monkeypatch.setattr("bayescl_lab.inspect.measures._CHUNK", 150)
    distances, nearest = nearest_rows(rows, 45, groups)
    exact = torch.cdist(rows, rows).square()
    valid = (groups[:, None] != groups) | (groups < 0)
    expected = exact.masked_fill(~valid.fill_diagonal_(False), torch.inf).sort(dim=1)
    torch.testing.assert_close(distances, expected.values[:, :45], rtol=1e-4, atol=1e-4)
    is_found = distances.isfinite()
    assert (nearest == expected.indices[:, :45])[is_found].all()


def test_most_first_lines_are_questions_of_one_intent() -> None:
    """Real text: paraphrases of 77 intents, TF-IDF and SVD, which know no intent."""
    beside = Path(__file__).parents[4] / "shared" / "data"
    file = Path(os.environ.get("BAYESCL_DATA") or beside) / "banking77" / "train.csv"
    if not file.exists():
        pytest.skip("needs banking77/train.csv in BAYESCL_DATA")
    table = pl.read_csv(file).sample(fraction=1, shuffle=True, seed=0)
    grouped = table.group_by("category", maintain_order=True).agg("text").sort("category")
    pairs = [
        (*both, intent)
        for intent, texts in enumerate(grouped["text"].to_list())
        for both in zip(texts[::2], texts[1::2], strict=False)
    ]
    chosen = np.random.default_rng(0).permutation(len(pairs))[:2000]
    queries, documents, intents = zip(*(pairs[row] for row in chosen), strict=True)
    words = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform([*queries, *documents])
    rows = TruncatedSVD(128, random_state=0).fit_transform(words)
    found = find_suspects(EmbeddingArrays(rows[:2000], rows[2000:], are_pairs=True))
    same = [intents[first] == intents[second] for first, second in couples(found, 120)]
    assert np.mean(same) >= 0.9  # 1.6 % by chance
