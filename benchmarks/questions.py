"""Questions of bank customers: Banking77 (Casanueva et al., 2020, CC BY 4.0), 77 intents.

They are bags of words and pairs of words, tokenised once, and an encoder takes their mean.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import torch
from harness import folder_with
from sklearn.feature_extraction.text import CountVectorizer
from torch import Tensor, nn

DEPTHS = (1, 10, 100)


@dataclass(frozen=True)
class Bags:
    """Some questions, as an embedding bag takes them."""

    features: Tensor  # of all questions one after another
    offsets: Tensor  # where each question begins


@dataclass(frozen=True)
class Questions:
    """Questions as lists of features: each word, and each pair of neighboring words."""

    features: Tensor  # of all questions one after another
    first_word: Tensor  # position in its question of each feature's first word
    last_word: Tensor
    starts: Tensor  # where each question begins, and the end; [questions + 1]
    labels: Tensor  # the intent of each question

    def take(self, rows: Tensor, *, dropout: float = 0.0) -> Bags:
        """Return some questions; with ``dropout``, without drawn words and all pairs of them."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        offsets = lengths.cumsum(0) - lengths
        owner = torch.arange(len(rows)).repeat_interleave(lengths)
        place = torch.arange(int(lengths.sum())) - offsets[owner] + self.starts[rows][owner]
        features = self.features[place]
        if dropout == 0:
            return Bags(features, offsets)
        first, last = self.first_word[place], self.last_word[place]
        words = int(last.max()) + 1 if len(last) else 1
        stays = torch.rand(len(rows), words) >= dropout
        kept = stays[owner, first] & stays[owner, last]
        counts = torch.bincount(owner[kept], minlength=len(rows))
        return Bags(features[kept], counts.cumsum(0) - counts)


class BagEncoder(nn.Module):
    """The mean of a question's feature vectors.

    Initial entries are small: with torch's deviation of 1, twelve epochs hardly move the vectors of
    rare features, and questions are compared by random ones.
    """

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(num_features, 128, mode="mean")
        nn.init.normal_(self.bag.weight, std=0.05)

    def forward(self, bags: Bags) -> Tensor:
        """Embed questions, ``[questions, 128]``; losses and retrieval normalize."""
        return self.bag(bags.features, bags.offsets)


def find_data() -> Path:
    """Find the folder of the questions."""
    return folder_with("banking77/train.csv")


def load_questions(folder: Path) -> tuple[Questions, Questions, int]:
    """Read ``train.csv`` and ``test.csv``, with columns ``text`` and ``category``, and tokenise.

    Returns:
        Training questions, test questions and the number of features, which training questions
        alone decide.
    """
    texts, names = read_texts(folder / "train.csv")
    number = {name: index for index, name in enumerate(sorted(set(names)))}
    vectorizer = CountVectorizer(ngram_range=(1, 2)).fit(texts)
    train, test = (
        _tokenised(each, torch.tensor([number[name] for name in of]), vectorizer)
        for each, of in ((texts, names), read_texts(folder / "test.csv"))
    )
    return train, test, len(vectorizer.vocabulary_)


def read_texts(path: Path) -> tuple[list[str], list[str]]:
    """Read the texts and categories of a file."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"text", "category"} <= rows[0].keys():
        raise ValueError(f"{path} must have the columns text and category")
    return [row["text"] for row in rows], [row["category"] for row in rows]


def _tokenised(texts: list[str], labels: Tensor, vectorizer: CountVectorizer) -> Questions:
    """Find what the vectorizer would count, with the words that each feature stands on."""
    preprocess, tokenize = vectorizer.build_preprocessor(), vectorizer.build_tokenizer()
    vocabulary = vectorizer.vocabulary_
    features, first, last, starts = [], [], [], [0]
    for text in texts:
        words = tokenize(preprocess(text))
        for length in (1, 2):
            for begin in range(len(words) - length + 1):
                feature = vocabulary.get(" ".join(words[begin : begin + length]))
                if feature is not None:
                    features.append(feature)
                    first.append(begin)
                    last.append(begin + length - 1)
        starts.append(len(features))
    return Questions(*(torch.tensor(values) for values in (features, first, last, starts)), labels)


def precisions(
    embeddings: Tensor, labels: Tensor, train_embeddings: Tensor, train_labels: Tensor
) -> dict[str, float]:
    """Compute the mean share of the nearest training questions with the question's intent."""
    nearest = (embeddings @ train_embeddings.T).topk(max(DEPTHS), dim=1).indices
    right = (train_labels[nearest] == labels[:, None]).double().mean(0)
    return {f"precision_{depth}": right[:depth].mean().item() for depth in DEPTHS}
