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

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from harness import RESULTS, learn, options, tuned, write_json
from questions import find_data, read_texts
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl

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
    train, test = (np.array(read_texts(find_data() / f"{part}.csv")) for part in ("train", "test"))
    texts, intents = train
    order = np.random.default_rng(0).permutation(len(texts))
    chosen = np.concatenate(
        [order[intents[order] == intent][:DOCUMENTS] for intent in np.unique(intents)]
    )
    others = np.setdiff1d(order, chosen)
    asking = {"train": train[:, others], "test": test}
    tfidf = TfidfVectorizer().fit(texts)
    documents = tfidf.transform(texts[chosen])
    words = CountVectorizer(ngram_range=(1, 2), min_df=5, token_pattern=r"(?u)\b\w+\b").fit(texts)

    def bags(of: Any) -> Tensor:
        found = [torch.from_numpy(row.indices).long() + 1 for row in words.transform(of)]
        return nn.utils.rnn.pad_sequence(found, batch_first=True)

    asked = {}
    for part, (asks, about) in asking.items():
        similarity = (tfidf.transform(asks) @ documents.T).toarray()
        similarity[about[:, None] != intents[chosen]] = -1
        asked[part] = Asked(bags(asks), torch.from_numpy(similarity.argmax(axis=1)))
    return Data(bags(texts[chosen]), **asked, num_features=len(words.vocabulary_))


def scores(data: Data, row: str, temperature: float, seed: int, part: str) -> dict[str, float]:
    """Train two towers, and score test questions, or training questions that are held out."""
    by_group, share = ROWS[row]
    train, asked = (data.train, data.test) if part == "test" else held_out(data.train)
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
            learn(value, optimizer)
    with torch.no_grad():
        queries, documents = query(asked.texts), document(data.documents)
        nearest = (queries @ F.normalize(documents).T).argmax(dim=1)
    right = (nearest == asked.document).float()
    rare = (counts <= counts.median())[asked.document]
    return {"r_1": float(right.mean()), "r_1_rare": float(right[rare].mean())}


def held_out(asked: Asked) -> list[Asked]:
    """Four fifths of the questions to train on, and the others to choose by."""
    order = torch.randperm(len(asked.texts), generator=torch.Generator().manual_seed(0))
    validation, rest = order.tensor_split([len(order) // 5])
    return [Asked(asked.texts[rows], asked.document[rows]) for rows in (rest, validation)]


def main() -> None:
    """Choose temperatures, train, score and write; seeds are from 1."""
    chosen = options(__doc__, seeds=3)
    torch.set_num_threads(1)
    start, data = time.monotonic(), read_data()
    counts = data.train.document.bincount(minlength=len(data.documents))
    records: list[dict[str, Any]] = []
    for row in ROWS:
        records.append({"row": row} | tuned(partial(scores, data, row), TEMPERATURES, chosen.seeds))
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
