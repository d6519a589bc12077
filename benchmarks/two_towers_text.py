"""Two towers on real questions whose answers repeat: what do groups and log_q gain, and cost?

    python benchmarks/two_towers_text.py

Every intent of banking77 lends ten of its training questions as documents, and every other question
asks for the document of its intent that shares most words with it (cosine of TF-IDF). So documents
are asked for unequally often, and a batch of 256 holds many of them twice. The two towers are bags
of words and word pairs, trained by InfoNCE with ``in_batch``: without anything, with ``groups``
(pairs of one document are not each other's negatives), with ``log_q`` (the log of a document's
share of the training pairs) in full or in half, and with both.

The temperature is chosen for each row on a fifth of the training pairs; then the row is trained on
all of them over several seeds. R@1 is the share of test questions whose nearest
document is the right one: of all 3,080 questions, and of the questions about the rarer half of
the documents.

Writes ``benchmarks/results/two-towers-text.json``. The data (banking77, CC BY 4.0) are read from
``$BAYESCL_DATA`` or ``../shared/data``.
"""

from __future__ import annotations

import csv
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from harness import RESULTS, options, write_json
from questions import find_data
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl
from bayescl_lab.runs.result import Score

DOCUMENTS, BATCH, EPOCHS, WIDTH, LR = 10, 256, 6, 64, 1e-2
TEMPERATURES = (0.05, 0.1)
ROWS: dict[str, tuple[bool, float]] = {
    "none": (False, 0.0),
    "groups": (True, 0.0),
    "half log_q": (False, 0.5),
    "log_q": (False, 1.0),
    "groups, log_q": (True, 1.0),
}
"""Whether groups are passed, and the share of log_q that is."""


@dataclass(frozen=True)
class Asked:
    """Questions as rows of features, ended by padding, and the document that each asks for."""

    texts: Tensor
    document: Tensor


@dataclass(frozen=True)
class Data:
    """Documents as rows of features, and questions about them."""

    documents: Tensor
    train: Asked
    test: Asked
    num_features: int


def read_data() -> Data:
    """The questions of banking77 as pairs of question and document, with a fixed seed."""
    parts = {}
    for part in ("train", "test"):
        with (find_data() / f"{part}.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        parts[part] = np.array([[row["text"], row["category"]] for row in rows])
    texts, intents = parts["train"].T
    order = np.random.default_rng(0).permutation(len(texts))
    chosen = np.concatenate(
        [order[intents[order] == intent][:DOCUMENTS] for intent in np.unique(intents)]
    )
    others = np.setdiff1d(order, chosen)
    asking = {"train": parts["train"][others], "test": parts["test"]}
    tfidf = TfidfVectorizer().fit(texts)
    documents = tfidf.transform(texts[chosen])
    words = CountVectorizer(ngram_range=(1, 2), min_df=5, token_pattern=r"(?u)\b\w+\b").fit(texts)

    def bags(of: Any) -> Tensor:
        found = [torch.from_numpy(row.indices).long() + 1 for row in words.transform(of)]
        return nn.utils.rnn.pad_sequence(found, batch_first=True)

    asked = {}
    for part, rows in asking.items():
        similarity = (tfidf.transform(rows[:, 0]) @ documents.T).toarray()
        similarity[rows[:, 1][:, None] != intents[chosen]] = -1
        asked[part] = Asked(bags(rows[:, 0]), torch.from_numpy(similarity.argmax(axis=1)))
    return Data(bags(texts[chosen]), **asked, num_features=len(words.vocabulary_))


def scores(data: Data, train: Asked, asked: Asked, row: str, temperature: float, seed: int) -> Any:
    """Train two towers on some questions, and score others."""
    by_group, share = ROWS[row]
    torch.manual_seed(seed)
    query, document = (
        nn.EmbeddingBag(1 + data.num_features, WIDTH, padding_idx=0) for _ in range(2)
    )
    loss = bayescl.InfoNCELoss(temperature=temperature)
    optimizer = torch.optim.Adam([*query.parameters(), *document.parameters()], lr=LR)
    counts = train.document.bincount(minlength=len(data.documents))
    log_q = share * (counts / counts.sum()).log()
    for _ in range(EPOCHS):
        order = torch.randperm(len(train.texts))
        for rows in order[: len(order) // BATCH * BATCH].split(BATCH):
            wanted = train.document[rows]
            value = loss.in_batch(
                query(train.texts[rows]),
                document(data.documents[wanted]),
                groups=wanted if by_group else None,
                log_q=log_q[wanted] if share else None,
            )
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    with torch.no_grad():
        queries, documents = query(asked.texts), document(data.documents)
        nearest = (queries @ F.normalize(documents).T).argmax(dim=1)
    right = (nearest == asked.document).float()
    rare = (counts <= counts.median())[asked.document]
    return {"r_1": float(right.mean()), "r_1_rare": float(right[rare].mean())}


def part(asked: Asked, rows: Tensor) -> Asked:
    """Some of the questions."""
    return Asked(asked.texts[rows], asked.document[rows])


def main() -> None:
    """Choose temperatures, train, score and write; seeds are from 1."""
    chosen = options(__doc__, seeds=3)
    torch.set_num_threads(1)
    start, data = time.monotonic(), read_data()
    order = torch.randperm(len(data.train.texts), generator=torch.Generator().manual_seed(0))
    held_out = len(order) // 5
    validation, rest = (part(data.train, rows) for rows in (order[:held_out], order[held_out:]))
    counts = data.train.document.bincount(minlength=len(data.documents))
    records: list[dict[str, Any]] = []
    for row in ROWS:
        tried = {t: scores(data, rest, validation, row, t, 1000)["r_1"] for t in TEMPERATURES}
        best = max(tried, key=tried.__getitem__)
        runs = [
            scores(data, data.train, data.test, row, best, 1 + seed) for seed in range(chosen.seeds)
        ]
        figures = {key: Score.of([run[key] for run in runs]).stored() for key in runs[0]}
        records.append({"row": row, "temperature": best, "validation": tried, **figures})
        print(records[-1], flush=True)
    about = {
        "documents": len(data.documents),
        "pairs": len(data.train.texts),
        "most_frequent": int(counts.max()),
        "median_frequency": int(counts.median()),
        "test_rare": int((counts <= counts.median())[data.test.document].sum()),
        "epochs": EPOCHS,
        "seconds": round(time.monotonic() - start),
    }
    write_json(
        RESULTS / "two-towers-text.json", {"seeds": chosen.seeds, "data": about, "records": records}
    )


if __name__ == "__main__":
    main()
