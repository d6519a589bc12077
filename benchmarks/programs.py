"""People's own programs with other libraries beside ours, in one run: speed, and what they learn.

    BAYESCL_DATA=data python benchmarks/programs.py

- images: lightly's SimCLR as its tutorial has it beside ``bayescl train images``, from one folder
  of JPEGs, with the same encoder and optimizer. Each trains as many epochs as fit into the same CPU
  seconds, reading included; then the same k-NN probe judges both encoders.
- sentences: sentence-transformers' trainer with its own loss and with ours, on pairs of questions
  of one intent (Banking77), with a small transformer from scratch.
- recommenders: Cornac's BPR, and implicit's BPR and ALS, beside our recommender as a model of
  Cornac, on MovieLens-100k: the CPU seconds that ``fit`` takes until Cornac's own evaluation gives
  the best NDCG@20 of Cornac's BPR. Each has the best of six settings on a validation part; ours
  has InfoNCE.

All have one thread, lightly one worker beside, and programs take turns. CPU seconds include
workers. A file is written after every part.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from harness import apart, options, publish, usage
from torch import nn

from bayescl_lab.compare.tuning import settings_of

Figures = dict[str, Any]
DATA = Path(os.environ.get("BAYESCL_DATA", "data"))
IMAGES = {"train": 200, "test": 100}  # of each class
BATCH, WIDTH, SIDE, RATE = 256, 32, 32, 1e-3
SENTENCES = ("MultipleNegativesRankingLoss", "InfoNCE, equal texts masked")
SCALE, TEXT_EPOCHS = 10.0, 4
BPR, OURS = "Cornac's BPR", "bayescl in Cornac"
IMPLICIT_BPR, IMPLICIT_ALS = "implicit's BPR", "implicit's ALS"
DIMS, RATES = (64, 128), (0.01, 0.03, 0.1)
TRIED = {
    BPR: settings_of({"k": DIMS, "learning_rate": RATES, "lambda_reg": (0.01,)}),
    IMPLICIT_BPR: settings_of(
        {"factors": (64,), "learning_rate": (0.01, 0.03), "regularization": (0.01, 0.03, 0.1)}
    ),
    IMPLICIT_ALS: settings_of({"factors": DIMS, "regularization": (1.0, 10.0, 30.0)}),
    OURS: settings_of({"dim": DIMS, "lr": (0.01, 0.02, 0.03)}),
}
EPOCHS = {
    BPR: (40, 60, 80, 120, 160, 240),
    IMPLICIT_BPR: (20, 40, 80, 160),
    IMPLICIT_ALS: (2, 3, 4, 8),
    OURS: (2, 3, 4, 5, 6, 8, 12),
}
TUNED_AT = {BPR: 120, IMPLICIT_BPR: 40, IMPLICIT_ALS: 4, OURS: 6}  # epochs
NEARLY = 0.99  # share of the best NDCG of Cornac's BPR that counts as equal to it


def seconds() -> tuple[float, float]:
    """CPU seconds of this process, its threads and its ended workers; and those of the wall."""
    own, children = map(usage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own[0] + children[0], time.perf_counter()


def since(start: tuple[float, float]) -> Figures:
    """Both from a start until now."""
    now = seconds()
    return {"cpu_s": now[0] - start[0], "wall_s": now[1] - start[1]}


def train_lightly(folder: str, epochs: int, seed: int) -> Figures:
    """What a user of lightly writes."""
    from lightly.loss import NTXentLoss
    from lightly.models.modules import SimCLRProjectionHead
    from lightly.transforms import SimCLRTransform
    from lightly.transforms.utils import IMAGENET_NORMALIZE
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder

    from bayescl_lab.images.datasets import load_images
    from bayescl_lab.images.encoders import SmallConvEncoder
    from bayescl_lab.items.probes import ProbeData, knn_probe

    start = seconds()
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    encoder = SmallConvEncoder(3, WIDTH, stride=2)
    network = nn.Sequential(encoder, SimCLRProjectionHead(encoder.feature_dim, 256, 128))
    transform = SimCLRTransform(input_size=SIDE, cj_strength=0.5, gaussian_blur=0.0)
    images = ImageFolder(f"{folder}/train", transform)
    loader = DataLoader(images, BATCH, shuffle=True, drop_last=True, num_workers=1)
    loss = NTXentLoss(temperature=0.5)
    optimizer = torch.optim.Adam(network.parameters(), lr=RATE, weight_decay=1e-6)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs * len(loader))
    for _ in range(epochs):
        for (view_1, view_2), _ in loader:
            value = loss(network(view_1), network(view_2))
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
        figures = since(start)
    parts = load_images(folder)
    train, test = parts.train, parts.evaluation
    mean, deviation = (torch.tensor(IMAGENET_NORMALIZE[of]).view(3, 1, 1) for of in ("mean", "std"))
    with torch.no_grad():
        scaled = ((part.images / 255 - mean) / deviation for part in (train, test))
        features = [encoder.eval()(rows) for rows in scaled]
    probe = ProbeData(features[0], train.labels, features[1], test.labels, 10)
    return figures | {"done": epochs * len(loader) * BATCH, "quality": knn_probe(probe)}


def train_ours(folder: str, loss: str, epochs: int, seed: int) -> Figures:
    """What ``bayescl train images`` runs, and how its own k-NN probe judges it."""
    from bayescl_lab.runs.images.image_run import train_images
    from bayescl_lab.runs.images.image_settings import ImageSettings
    from bayescl_lab.runs.losses import LossSettings

    torch.set_num_threads(1)
    values = {"temperature": 0.5} if loss == "info_nce" else {"tau_plus": 0.1}
    own = {"loss": LossSettings(loss, values), "data": folder, "epochs": epochs, "seed": seed}
    shared = {"width": WIDTH, "stride": 2, "lr": RATE, "batch_size": BATCH, "device": "cpu"}
    settings = ImageSettings(**own, **shared)
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as place:
        start = seconds()
        run = Path(place, "run")
        result = train_images(settings, run, progress=lambda *_: figures.update(since(start)))
    done = epochs * (result.sizes["train"] // BATCH) * BATCH
    return figures | {"done": done, "quality": result.row.scores["knn"].mean}


def images(chosen: argparse.Namespace) -> list[Figures]:
    """A row of each program: images per second, and k-NN after equal CPU seconds."""
    with tempfile.TemporaryDirectory() as place:
        for part, count in IMAGES.items():
            for of_class in sorted((DATA / "cifar10-jpeg" / part).iterdir()):
                (folder := Path(place, part, of_class.name)).mkdir(parents=True)
                for file in sorted(of_class.iterdir())[:count]:
                    (folder / file.name).symlink_to(file.resolve())
        programs: dict[str, tuple[Any, ...]] = {
            "lightly: SimCLRTransform, DataLoader, NTXentLoss": (train_lightly, place),
            "bayescl train images --loss info_nce": (train_ours, place, "info_nce"),
        }
        for name, program in programs.items():
            epochs = chosen.seconds / apart(*program, 1, 0)["cpu_s"]
            programs[name] = (*program, max(1, round(epochs)))
        return in_turn("SimCLR, CIFAR-10 (JPEG)", programs, "images", "k-NN", chosen.seeds)


def train_sentences(method: str, seed: int) -> Figures:
    """sentence-transformers' trainer with a loss, on pairs of questions of one intent."""
    from datasets import Dataset
    from questions import find_data, partners, read_texts
    from sentence_transformers import SentenceTransformerTrainer
    from sentence_transformers import SentenceTransformerTrainingArguments as Arguments
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from transformers.trainer_callback import PrinterCallback

    import bayescl
    from bayescl.integrations.sentence_transformers import ContrastiveRankingLoss

    torch.set_num_threads(1)
    texts, intents = read_texts(find_data() / "train.csv")
    labels = torch.from_numpy(np.unique(intents, return_inverse=True)[1])
    partner = partners(labels, torch.Generator().manual_seed(seed))
    pairs = Dataset.from_dict({"anchor": texts, "positive": [texts[row] for row in partner]})
    model = small_transformer(texts, seed)
    if method == SENTENCES[0]:
        loss: nn.Module = MultipleNegativesRankingLoss(model, scale=SCALE)
    else:
        loss = ContrastiveRankingLoss(model, bayescl.InfoNCELoss(temperature=1 / SCALE))
    start = seconds()
    with tempfile.TemporaryDirectory() as folder:
        settings = Arguments(
            output_dir=folder,
            num_train_epochs=TEXT_EPOCHS,
            per_device_train_batch_size=BATCH,
            learning_rate=RATE,
            warmup_steps=0.1,
            seed=seed,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = SentenceTransformerTrainer(model, settings, train_dataset=pairs, loss=loss)
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    figures = since(start) | {"done": TEXT_EPOCHS * (len(pairs) // BATCH)}
    return figures | {"quality": mean_average_precision(model)}


def small_transformer(texts: list[str], seed: int) -> Any:
    """A transformer of two layers on the words of some texts, from scratch."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(texts, trainers.WordLevelTrainer(special_tokens=["[PAD]", "[UNK]"]))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words, pad_token="[PAD]", unk_token="[UNK]", model_max_length=32
    )
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
    )
    with tempfile.TemporaryDirectory() as folder:
        for saved in (tokenizer, BertModel(config)):
            saved.save_pretrained(folder)
        network = Transformer(folder, max_seq_length=32)
    modules = [network, Pooling(network.get_embedding_dimension())]
    return SentenceTransformer(modules=modules, device="cpu")


def mean_average_precision(model: Any) -> float:
    """map@100 of training questions of the same intent, for the test questions."""
    from questions import find_data, read_texts
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    (corpus, kinds), (queries, asked) = (
        read_texts(find_data() / f"{part}.csv") for part in ("train", "test")
    )
    of_kind: dict[str, set[str]] = {}
    for row, kind in enumerate(kinds):
        of_kind.setdefault(kind, set()).add(f"t{row}")
    evaluator = InformationRetrievalEvaluator(
        queries={f"q{row}": text for row, text in enumerate(queries)},
        corpus={f"t{row}": text for row, text in enumerate(corpus)},
        relevant_docs={f"q{row}": of_kind[kind] for row, kind in enumerate(asked)},
        map_at_k=[100],
        batch_size=512,
        write_csv=False,
    )
    return float(evaluator(model)["cosine_map@100"])


def sentences(chosen: argparse.Namespace) -> list[Figures]:
    """A row of each loss in the same trainer: steps per second, and mean average precision."""
    losses = {method: (train_sentences, method) for method in SENTENCES}
    return in_turn("trainer on Banking77", losses, "steps", "map@100", chosen.seeds)


def fit_cornac(
    name: str, epochs: int, seed: int, evaluate_on: str, options: Mapping[str, Any]
) -> Figures:
    """``fit`` of a recommender from nothing, and Cornac's evaluation of it."""
    from cornac.eval_methods.base_method import ranking_eval
    from cornac.metrics import NDCG

    torch.set_num_threads(1)
    split = cornac_split(evaluate_on)
    model, fit, data = recommender(name, epochs, seed, split.train_set, options)
    start = seconds()
    fit(data)
    figures = since(start) | {"done": epochs * split.train_set.num_ratings, "epochs": epochs}
    (ndcg,), _ = ranking_eval(model, [NDCG(k=20)], split.train_set, split.test_set)
    return figures | {"quality": float(ndcg)}


@cache
def cornac_split(evaluate_on: str) -> Any:
    """MovieLens-100k as Cornac has it."""
    from cornac.eval_methods import BaseMethod

    from bayescl_lab.ranking.datasets import load_interactions

    parts = load_interactions("ml-100k", evaluate_on=evaluate_on)
    triples = [
        [(int(user), int(item), 1.0) for user, item in zip(*part.pairs(), strict=True)]
        for part in (parts.train, parts.evaluation)
    ]
    return BaseMethod.from_splits(*triples, exclude_unknowns=True, seed=0)


def recommender(
    name: str, epochs: int, seed: int, train: Any, options: Mapping[str, Any]
) -> tuple[Any, Any, Any]:
    """What Cornac evaluates, what trains it, and on what."""
    from cornac import models
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.cpu.bpr import BayesianPersonalizedRanking

    own: Any
    if name == BPR:
        own = models.BPR(max_iter=epochs, seed=seed, num_threads=1, **options)
        return own, own.fit, train
    if name == OURS:
        own = SimpleNamespace()
    else:
        kind = BayesianPersonalizedRanking if name == IMPLICIT_BPR else AlternatingLeastSquares
        own = kind(iterations=epochs, random_state=seed, num_threads=1, **options)

    class Factors(models.Recommender):  # type: ignore[misc]
        """Cornac's view of embeddings that others have trained."""

        def score(self, user_idx: int, item_idx: int | None = None) -> Any:
            """Scores of all items for a user."""
            del item_idx
            return own.item_factors @ own.user_factors[user_idx]

    model = Factors(name)
    model.fit(train)  # only numbers users and items
    if name == OURS:
        return model, lambda data: train_ours_on(data, own, epochs, seed, **options), train
    return model, lambda data: own.fit(data, show_progress=False), train.csr_matrix


def train_ours_on(data: Any, to: Any, epochs: int, seed: int, *, dim: int, lr: float) -> None:
    """Train our recommender on a data set of Cornac, and put its embeddings where asked."""
    from recommender_course import trained

    from bayescl_lab.ranking.interactions import Interactions

    users, items, _ = data.uir_tuple
    sizes: dict[str, Any] = {"user_ids": int(data.num_users), "item_ids": int(data.num_items)}
    of = {"dim": dim, "lr": lr, "epochs": epochs, "batch_size": None, "temperature": 0.15}
    for _, module, _ in trained(
        Interactions.from_pairs(users, items, **sizes), of, "info_nce", seed
    ):
        scorer = module.scorer()
    to.user_factors, to.item_factors = scorer.users.numpy(), scorer.items.numpy()


def recommenders(chosen: argparse.Namespace) -> list[Figures]:
    """A row of each program: pairs per second, and CPU seconds to the NDCG of Cornac's BPR."""
    courses: dict[str, list[Figures]] = {}
    settings: dict[str, Any] = {}
    for name, tried in TRIED.items():
        count = TUNED_AT[name]
        scores = [fit_cornac(name, count, 0, "validation", values)["quality"] for values in tried]
        settings[name] = tried[scores.index(max(scores))]
    # Programs take turns, so that what else the machine does affects all.
    runs: dict[tuple[str, int], list[Figures]] = {}
    for seed, name in product(chosen.seeds, TRIED):
        for count in EPOCHS[name]:
            run = fit_cornac(name, count, seed, "test", settings[name])
            runs.setdefault((name, count), []).append(run)
    for (name, _), own in runs.items():
        courses.setdefault(name, []).append(
            summary("MovieLens-100k", name, "pairs", "NDCG@20", own)
        )
    target = NEARLY * max(row["quality"] for row in courses[BPR])
    rows = []
    for name, course in courses.items():
        highest = max(course, key=lambda row: row["quality"])
        first = next((row for row in course if row["quality"] >= target), highest)
        chosen_of = {"options": settings[name], "epochs": first["runs"][0]["epochs"]}
        more = {"best": highest["quality"], **chosen_of, "course": course}
        rows.append(first | {"target": target, **more})
    for row in rows:  # the first is Cornac's BPR
        row["ratio"] = row["cpu_s"] / rows[0]["cpu_s"]
    return rows


LIBRARIES = {
    "images": ("lightly",),
    "sentences": ("sentence-transformers", "transformers"),
    "recommenders": ("cornac", "implicit"),
}
PARTS = {"images": images, "sentences": sentences, "recommenders": recommenders}


def in_turn(
    what: str, programs: Mapping[str, Any], unit: str, measure: str, seeds: Sequence[int]
) -> list[Figures]:
    """A row of each program, which are called with every seed after their arguments."""
    runs: dict[str, list[Figures]] = {name: [] for name in programs}
    for seed, name in product(seeds, programs):
        runs[name].append(apart(*programs[name], seed))
    return [summary(what, name, unit, measure, runs[name]) for name in programs]


def summary(what: str, program: str, unit: str, measure: str, runs: Sequence[Figures]) -> Figures:
    """A row of the table, from the runs of all seeds."""
    done, quality = (statistics.fmean(run[key] for run in runs) for key in ("done", "quality"))
    cpu = statistics.median(run["cpu_s"] for run in runs)
    row = {"what": what, "program": program, "unit": unit, "per_cpu_second": done / cpu}
    return {**row, "cpu_s": cpu, "measure": measure, "quality": quality, "runs": list(runs)}


def main() -> None:
    """Measure, print and write; ``seconds`` are the CPU's of a run on images."""
    chosen = options(__doc__, parts=list(PARTS), seeds=[0, 1], seconds=120.0)
    libraries = {name: version(name) for part in chosen.parts for name in LIBRARIES[part]}
    rows: list[Figures] = []
    for part in chosen.parts:
        rows += PARTS[part](chosen)
        name = "-".join(["programs", *(chosen.parts if chosen.parts != list(PARTS) else [])])
        publish(name, rows, libraries=libraries, seeds=chosen.seeds, seconds=chosen.seconds)


if __name__ == "__main__":
    main()
