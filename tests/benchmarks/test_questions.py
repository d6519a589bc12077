"""Questions as bags of words, with a few questions made up for the purpose."""

import pytest
import torch
from questions import find_data, load_questions, precisions
from sklearn.feature_extraction.text import CountVectorizer

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


def test_features_are_what_the_vectorizer_counts(folder):
    train, _, num_features = load_questions(folder)
    texts = [line.split('"')[1] for line in (folder / "train.csv").read_text().splitlines()[1:]]
    counts = CountVectorizer(ngram_range=(1, 2)).fit_transform(texts).toarray()
    rows = torch.tensor([5, 0, 300])
    bags = train.take(rows)
    for row, features in zip(rows, bags.features.tensor_split(bags.offsets[1:]), strict=True):
        counted = torch.bincount(features, minlength=num_features)
        assert torch.equal(counted, torch.from_numpy(counts[row]))


def test_only_the_training_part_gives_words(folder):
    (folder / "test.csv").write_text("text,category\nunheardof,card\n")
    _, test, _ = load_questions(folder)
    assert (len(test.labels), len(test.features)) == (1, 0)
    (folder / "train.csv").write_text("question,intent\na,b\n")
    with pytest.raises(ValueError, match="columns text and category"):
        load_questions(folder)


def test_precision_counts_neighbors_of_the_intent():
    train = torch.zeros(100, 2)
    train[:10, 0] = torch.linspace(1, 0.9, 10)
    train[10:, 0] = torch.linspace(0.5, 0.1, 90)
    labels = torch.tensor([0] + [1] * 4 + [0] * 5 + [1] * 90)
    found = precisions(torch.tensor([[1.0, 0.0]]), torch.tensor([0]), train, labels)
    assert found == {"precision_1": 1.0, "precision_10": 0.6, "precision_100": 0.06}


def test_the_real_data_are_as_published():
    try:
        folder = find_data()
    except ValueError as absent:
        pytest.skip(str(absent))
    train, test, _ = load_questions(folder)
    intents = len(train.labels.unique())
    assert (len(train.labels), len(test.labels), intents) == (10_003, 3_080, 77)
