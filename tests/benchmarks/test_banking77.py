"""The comparison on questions, with a few questions made up for the purpose."""

from __future__ import annotations

import pytest
import torch
from banking77 import GRIDS, question_plan
from intents.questions import find_data, load_questions
from intents.training import SCORES, TextSettings, fit, partners, precisions, train_questions
from sklearn.feature_extraction.text import CountVectorizer

import bayescl

NOUNS = ("card", "transfer", "fee")
WORDS = ("please", "my", "now", "help", "where", "is", "the", "again")


@pytest.fixture
def folder(tmp_path):
    generator = torch.Generator().manual_seed(0)

    def questions(count):
        rows = ["text,category"]
        for noun in NOUNS:
            for _ in range(count):
                order = torch.randperm(len(WORDS), generator=generator)[:4].tolist()
                words = [WORDS[place] for place in order]
                rows.append(f'"{" ".join([*words[:2], noun, *words[2:]])}?",{noun}')
        return "\n".join(rows) + "\n"

    (tmp_path / "train.csv").write_text(questions(120))
    (tmp_path / "test.csv").write_text(questions(10))
    return tmp_path


def rows_of(bags):
    ends = torch.cat([bags.offsets[1:], torch.tensor([len(bags.features)])])
    return [bags.features[begin:end] for begin, end in zip(bags.offsets, ends, strict=True)]


def test_features_are_what_the_vectorizer_counts(folder):
    parts = load_questions(folder)
    texts = [line.split('"')[1] for line in (folder / "train.csv").read_text().splitlines()[1:]]
    counts = CountVectorizer(ngram_range=(1, 2)).fit_transform(texts).toarray()
    rows = torch.tensor([5, 0, 300])
    for row, features in zip(rows, rows_of(parts.train.take(rows)), strict=True):
        found = torch.bincount(features, minlength=parts.num_features)
        assert torch.equal(found, torch.from_numpy(counts[row]))


def test_only_the_training_part_gives_words_and_validation_comes_out_of_it(folder):
    (folder / "test.csv").write_text("text,category\nunheardof,card\n")
    test = load_questions(folder).evaluation
    assert (len(test), len(test.features)) == (1, 0)
    parts = load_questions(folder, evaluate_on="validation")
    assert len(parts.train) + len(parts.evaluation) == 360
    assert parts.evaluation.labels.bincount().tolist() == [24, 24, 24]
    (folder / "train.csv").write_text("question,intent\na,b\n")
    with pytest.raises(ValueError, match="columns text and category"):
        load_questions(folder)


def test_a_dropped_word_takes_its_pairs_with_it(folder):
    questions = load_questions(folder).train
    rows = torch.arange(50)
    whole = questions.take(rows)
    dropped = questions.take(rows, dropout=0.5, generator=torch.Generator().manual_seed(0))
    assert 0 < len(dropped.features) < len(whole.features) / 2
    few = questions.take(rows, dropout=1.0)
    assert len(few.features) == 0
    assert few.offsets.tolist() == [0] * 50
    same = questions.take(rows, dropout=1e-9)
    assert torch.equal(same.features, whole.features)
    assert torch.equal(same.offsets, whole.offsets)


def test_partners_are_other_questions_of_the_intent_each_once():
    labels = torch.tensor([0, 1, 0, 1, 1, 2])
    partner = partners(labels, torch.Generator().manual_seed(3))
    assert torch.equal(labels[partner], labels)
    assert partner.sort().values.tolist() == list(range(6))
    assert (partner[:5] != torch.arange(5)).all()
    assert partner[5] == 5


def test_precision_counts_neighbours_of_the_intent():
    train = torch.zeros(100, 2)
    train[:10, 0] = torch.linspace(1, 0.9, 10)
    train[10:, 0] = torch.linspace(0.5, 0.1, 90)
    labels = torch.tensor([0] + [1] * 4 + [0] * 5 + [1] * 90)
    found = precisions(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), train, labels)
    assert found == {"precision_1": 1.0, "precision_10": 0.6, "precision_100": 0.06}


def test_training_puts_questions_of_an_intent_together(folder):
    parts = load_questions(folder)
    loss = bayescl.InfoNCELoss(temperature=0.2)
    for pairs in ("views", "intents"):
        settings = TextSettings(pairs=pairs, batch_size=60, epochs=3)
        (encoder, _), (again, _) = (fit(loss, parts, 0, settings) for _ in range(2))
        embeddings = encoder.embed(parts.train)
        assert torch.equal(embeddings, again.embed(parts.train))
        torch.testing.assert_close(embeddings.norm(dim=1), torch.ones(len(embeddings)))
    rows = encoder.embed(parts.evaluation), parts.evaluation.labels
    assert precisions(*rows, embeddings, parts.train.labels)["precision_10"] > 0.9


def test_every_loss_runs_and_tries_five_temperatures_and_as_many_settings(folder):
    plan = question_plan()  # refuses unequal budgets
    for method, grid in GRIDS.items():
        assert {0.05, 0.1, 0.2, 0.3, 0.5} <= set(grid["temperature"])
        assert method in plan.titles
        result = train_questions(method, 0, "test", str(folder), batch_size=60, epochs=1)
        assert set(result["scores"]) == set(SCORES)


def test_the_real_data_are_as_published():
    try:
        folder = find_data()
    except ValueError as absent:
        pytest.skip(str(absent))
    parts = load_questions(folder)
    assert (len(parts.train), len(parts.evaluation), len(parts.intents)) == (10_003, 3_080, 77)
