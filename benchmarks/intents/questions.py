"""The questions as bags of words and pairs of words, tokenised once."""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from sklearn.feature_extraction.text import CountVectorizer
from torch import Tensor

from bayescl_lab.images.subsets import stratified_split

NAME = "banking77"
SPLIT_SEED = 0
VALIDATION_SHARE = 0.2


@dataclass(frozen=True)
class Bags:
    """Some questions, as an embedding bag takes them."""

    features: Tensor  # of all questions one after another
    offsets: Tensor  # where each question begins


@dataclass(frozen=True)
class Questions:
    """Questions as lists of features: each word, and each pair of neighbouring words."""

    features: Tensor  # of all questions one after another
    first_word: Tensor  # position in its question of each feature's first word
    last_word: Tensor
    starts: Tensor  # where each question begins, and the end; [questions + 1]
    labels: Tensor  # the intent of each question

    def __len__(self) -> int:
        """The number of questions."""
        return len(self.labels)

    def take(
        self, rows: Tensor, *, dropout: float = 0.0, generator: torch.Generator | None = None
    ) -> Bags:
        """Some questions; with ``dropout``, without drawn words and all pairs that have one."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        offsets = lengths.cumsum(0) - lengths
        owner = torch.arange(len(rows)).repeat_interleave(lengths)
        place = torch.arange(int(lengths.sum())) - offsets[owner] + self.starts[rows][owner]
        features = self.features[place]
        if dropout == 0:
            return Bags(features, offsets)
        first, last = self.first_word[place], self.last_word[place]
        words = int(last.max()) + 1 if len(last) else 1
        stays = torch.rand(len(rows), words, generator=generator) >= dropout
        kept = stays[owner, first] & stays[owner, last]
        counts = torch.bincount(owner[kept], minlength=len(rows))
        return Bags(features[kept], counts.cumsum(0) - counts)


@dataclass(frozen=True)
class QuestionParts:
    """Questions to train on, and those to judge by."""

    train: Questions  # what the encoder and its vocabulary are learned from
    evaluation: Questions  # what asks; ``train`` answers
    num_features: int
    intents: tuple[str, ...]


def find_data() -> Path:
    """The folder of banking77: in ``$BAYESCL_DATA``, else in ``../shared/data``."""
    places = [os.environ.get("BAYESCL_DATA"), Path(__file__).parents[3] / "shared" / "data"]
    for place in places:
        if place and (Path(place) / NAME / "train.csv").is_file():
            return Path(place) / NAME
    raise ValueError(f"there is no {NAME}/train.csv: set BAYESCL_DATA to the folder that has it")


def load_questions(folder: Path, *, evaluate_on: str = "test") -> QuestionParts:
    """Read ``train.csv`` and ``test.csv``, with columns ``text`` and ``category``, and tokenise.

    The "validation" part is a fifth of each training intent; training and vocabulary leave it out.
    """
    texts, names = read_texts(folder / "train.csv")
    test_texts, test_names = read_texts(folder / "test.csv")
    intents = tuple(sorted(set(names)))
    number = {name: index for index, name in enumerate(intents)}
    labels = torch.tensor([number[name] for name in names])
    if evaluate_on == "validation":
        rest, held_out = stratified_split(labels, share=1 - VALIDATION_SHARE, seed=SPLIT_SEED)
        test_texts, test_labels = [texts[row] for row in held_out], labels[held_out]
        texts, labels = [texts[row] for row in rest], labels[rest]
    else:
        test_labels = torch.tensor([number[name] for name in test_names])
    vectorizer = CountVectorizer(ngram_range=(1, 2)).fit(texts)
    return QuestionParts(
        _tokenised(texts, labels, vectorizer),
        _tokenised(test_texts, test_labels, vectorizer),
        len(vectorizer.vocabulary_),
        intents,
    )


def read_texts(path: Path) -> tuple[list[str], list[str]]:
    """Texts and categories of a file."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"text", "category"} <= rows[0].keys():
        raise ValueError(f"{path} must have the columns text and category")
    return [row["text"] for row in rows], [row["category"] for row in rows]


def _tokenised(texts: list[str], labels: Tensor, vectorizer: CountVectorizer) -> Questions:
    """What the vectorizer would count, with the words that each feature stands on."""
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
