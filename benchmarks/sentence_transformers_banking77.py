"""Banking77 with the sentence-transformers trainer: which remedy for false negatives helps?

Pairs are two customers' questions with the same intent, one of 77, so about one candidate in 77 is
a false negative that no rule on equal texts can see. The encoder is a bag of word embeddings,
trained from scratch.

    python benchmarks/sentence_transformers_banking77.py --data DIRECTORY --out results/banking77

DIRECTORY holds train.csv and test.csv with the columns text and category. Every run is a line of
runs.jsonl in --out, and finished runs are not repeated, so the command resumes. First every method
is tuned with the same number of settings on a fifth of the training part, with one seed. Then the
best setting of each, by mean average precision, is trained on the whole training part with each
seed and evaluated on the test part. A dated file in benchmarks/results holds the table, and one
beside it all runs.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from harness import write_result
from intents.questions import read_texts
from intents.training import partners
from rich.console import Console
from rich.table import Table
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers.trainer_callback import PrinterCallback

from bayescl.integrations import sentence_transformers as ours
from bayescl_lab.compare.summary import mean_and_spread
from bayescl_lab.images.feature_probes import ProbeData, few_label_probe
from bayescl_lab.images.subsets import stratified_split
from bayescl_lab.report.tables import mean_text
from bayescl_lab.runs.provenance import provenance

BASELINE = "MultipleNegativesRankingLoss"
CLASSES = 77
GUIDE_SEED = 1000
"""Added to the seed of a run for its guide, so that the two start from other weights."""


class Part(NamedTuple):
    """Texts and their intents."""

    texts: list[str]
    labels: torch.Tensor

    def take(self, rows: torch.Tensor) -> Part:
        """Some of the rows."""
        return Part([self.texts[row] for row in rows], self.labels[rows])

    def divided(self, share: float) -> tuple[Part, Part]:
        """A share of each class, and the rest; the same at every call."""
        first, rest = stratified_split(self.labels, share=share, seed=0)
        return self.take(first), self.take(rest)


class Run(NamedTuple):
    """One training."""

    method: str
    batch_size: int
    seed: int
    part: str
    scale: float
    lr: float
    own: Mapping[str, float]

    def key(self) -> str:
        """What tells runs apart in the file."""
        return json.dumps(self._asdict(), sort_keys=True)


SCALES = (2.5, 5.0, 10.0)
RATES = (0.03, 0.1)
# Six settings for each method: three scales times two values of what matters most to it.
OWN: Mapping[str, Sequence[Mapping[str, float]]] = {
    BASELINE: (),
    "NO_DUPLICATES sampler": (),
    "InfoNCE, equal texts masked": (),
    "guide's mask": ({"guide_margin": 0.0}, {"guide_margin": 0.1}),
    "margin rule": ({"margin": 0.0}, {"margin": 0.1}),
    "debiased": ({"tau_plus": 1 / CLASSES}, {"tau_plus": 2 / CLASSES}),
    "hard": ({"concentration": 0.25}, {"concentration": 1.0}),
    "Bayesian": ({"alpha": 0.9, "beta": 0.5}, {"alpha": 0.9, "beta": 0.7}),
    "latent classes": ({"num_classes": CLASSES}, {"num_classes": 2 * CLASSES}),
}


def read(path: Path) -> Part:
    """The questions of a file."""
    texts, names = read_texts(path)
    number = {name: index for index, name in enumerate(sorted(set(names)))}
    return Part([text.strip() for text in texts], torch.tensor([number[name] for name in names]))


def pairs(part: Part, seed: int) -> Dataset:
    """Every text with another text of its intent."""
    partner = partners(part.labels, torch.Generator().manual_seed(seed))
    return Dataset.from_dict({"anchor": part.texts, "positive": part.take(partner).texts})


def fresh_model(part: Part, dim: int, seed: int) -> SentenceTransformer:
    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.train_from_iterator(part.texts, trainers.WordLevelTrainer(special_tokens=["[UNK]"]))
    torch.manual_seed(seed)
    return SentenceTransformer(modules=[StaticEmbedding(words, embedding_dim=dim)], device="cpu")


def train(
    run: Run, data: Dataset, model: SentenceTransformer, loss: torch.nn.Module, epochs: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            output_dir=folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=run.batch_size,
            learning_rate=run.lr,
            warmup_steps=0.1,
            seed=run.seed,
            batch_sampler=(
                "no_duplicates" if run.method == "NO_DUPLICATES sampler" else "batch_sampler"
            ),
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = SentenceTransformerTrainer(
            model=model, args=settings, train_dataset=data, loss=loss
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()


def loss_of(
    run: Run, model: SentenceTransformer, guide: SentenceTransformer | None
) -> torch.nn.Module:
    if run.method in (BASELINE, "NO_DUPLICATES sampler"):
        return MultipleNegativesRankingLoss(model, scale=run.scale)
    options: dict[str, Any] = dict(run.own)
    if run.method in ("hard", "Bayesian"):
        options["tau_plus"] = 1 / CLASSES
    if guide is not None:
        options["guide"] = guide
    own = {
        "debiased": ours.DebiasedRankingLoss,
        "hard": ours.HardRankingLoss,
        "Bayesian": ours.BayesianRankingLoss,
        "latent classes": ours.LatentClassRankingLoss,
    }
    loss = own.get(run.method, ours.InfoNCERankingLoss)
    return loss(model, scale=run.scale, **options)


def evaluate(
    model: SentenceTransformer, train_part: Part, test: Part, draws: int
) -> dict[str, float]:
    """Retrieval of training texts of the same intent, and few-label probes."""
    by_label: dict[int, set[str]] = defaultdict(set)
    for row, label in enumerate(train_part.labels.tolist()):
        by_label[label].add(f"t{row}")
    evaluator = InformationRetrievalEvaluator(
        queries={f"q{row}": text for row, text in enumerate(test.texts)},
        corpus={f"t{row}": text for row, text in enumerate(train_part.texts)},
        relevant_docs={
            f"q{row}": by_label[label] for row, label in enumerate(test.labels.tolist())
        },
        map_at_k=[100],
        ndcg_at_k=[10],
        mrr_at_k=[10],
        accuracy_at_k=[1],
        precision_recall_at_k=[10],
        batch_size=512,
        write_csv=False,
    )
    found = evaluator(model)
    figures = {
        "map@100": found["cosine_map@100"],
        "ndcg@10": found["cosine_ndcg@10"],
        "accuracy@1": found["cosine_accuracy@1"],
    }
    features, others = (
        torch.nn.functional.normalize(
            model.encode(part.texts, convert_to_tensor=True, batch_size=512).clone(), dim=1
        )
        for part in (train_part, test)
    )
    labels = torch.tensor(train_part.labels), torch.tensor(test.labels)
    data = ProbeData(features, labels[0], others, labels[1], CLASSES)
    for count in (1, 5):
        score = few_label_probe(data, labels_per_class=count, draws=draws)
        figures[f"probe, {count} per class"] = score.mean
    return {name: float(value) for name, value in figures.items()}


class Bench:
    """The runs that there are, and what makes more."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        whole, test = read(options.data / "train.csv"), read(options.data / "test.csv")
        if options.limit:
            whole = whole.divided(options.limit / len(whole.texts))[0]
            test = test.divided(min(1.0, options.limit / len(test.texts)))[0]
        self.parts = {"validation": whole.divided(0.8), "test": (whole, test)}
        options.out.mkdir(parents=True, exist_ok=True)
        self.path = options.out / "runs.jsonl"
        self.done: dict[str, dict[str, Any]] = {}
        if self.path.exists():
            for line in self.path.read_text().splitlines():
                row = json.loads(line)
                self.done[row["key"]] = row

    def figures(self, run: Run) -> dict[str, float]:
        """The figures of a run, trained now or before."""
        settings = {"epochs": self.options.epochs, "dim": self.options.dim}
        key = json.dumps([run.key(), settings, self.options.limit])
        if key not in self.done:
            started, worked = time.perf_counter(), time.process_time()
            found = self._made(run)
            row = {
                "key": key,
                **run._asdict(),
                **settings,
                "figures": found,
                "seconds": round(time.perf_counter() - started, 2),
                "cpu_seconds": round(time.process_time() - worked, 2),
                "provenance": provenance(),
            }
            with self.path.open("a") as file:
                file.write(json.dumps(row) + "\n")
            self.done[key] = row
            print(f"{run.part} {run.method} batch {run.batch_size} seed {run.seed}: {found}")
        return self.done[key]["figures"]

    def _made(self, run: Run) -> dict[str, float]:
        options = self.options
        train_part, other = self.parts[run.part]
        data, guide = pairs(train_part, run.seed), None
        if run.method == "guide's mask":
            guide = fresh_model(train_part, options.dim, GUIDE_SEED + run.seed)
            plain = run._replace(method=BASELINE)
            train(plain, data, guide, loss_of(plain, guide, None), options.epochs)
        model = fresh_model(train_part, options.dim, run.seed)
        train(run, data, model, loss_of(run, model, guide), options.epochs)
        return evaluate(model, train_part, other, options.draws)

    def best(self, method: str, batch_size: int) -> Run:
        """The setting with the best mean average precision on the validation part."""

        def run(scale: float, lr: float, own: Mapping[str, float]) -> Run:
            return Run(method, batch_size, 0, "validation", scale, lr, own)

        if OWN[method]:
            # At the learning rate that is best for the baseline, which is to its advantage.
            lr = self.best(BASELINE, batch_size).lr
            tried = [run(scale, lr, own) for scale, own in product(SCALES, OWN[method])]
        else:
            tried = [run(scale, lr, {}) for scale, lr in product(SCALES, RATES)]
        return max(tried, key=lambda each: self.figures(each)["map@100"])

    def finals(self, batch_size: int) -> Iterator[tuple[Run, list[dict[str, float]]]]:
        """The chosen setting of every method, and its figures on the test part by seed."""
        for method in self.options.methods:
            chosen = self.best(method, batch_size)._replace(part="test")
            seeds = range(1, self.options.seeds + 1)
            yield chosen, [self.figures(chosen._replace(seed=seed)) for seed in seeds]

    def measurements(self) -> list[dict[str, Any]]:
        """A row per batch size and method: means and deviations over seeds, in per cent."""
        rows: list[dict[str, Any]] = []
        for batch_size in self.options.batch_sizes:
            finals = list(self.finals(batch_size))
            baseline = finals[0][1]
            for run, figures in finals:
                row: dict[str, Any] = {
                    "batch_size": batch_size,
                    "method": run.method,
                    "scale": run.scale,
                    "learning_rate": run.lr,
                    "own": ", ".join(f"{name} {value:.3g}" for name, value in run.own.items()),
                }
                for name in figures[0]:
                    row[name] = mean_text(mean_and_spread([it[name] for it in figures]), scale=100)
                won = sum(
                    mine["map@100"] > theirs["map@100"]
                    for mine, theirs in zip(figures, baseline, strict=True)
                )
                row["won"] = "" if figures is baseline else f"{won} of {len(figures)}"
                rows.append(row)
        return rows

    def result(self) -> dict[str, Any]:
        """What the result file holds: the rows, what was tried, and what produced them."""
        packages = ("sentence-transformers", "transformers", "tokenizers")
        asked = self.options
        return {
            "measurements": self.measurements(),
            "settings_tried": len(SCALES) * len(RATES),
            "seeds": asked.seeds,
            "epochs": asked.epochs,
            "dim": asked.dim,
            "spread": "standard deviation over seeds",
            "commits_of_runs": sorted({row["provenance"]["commit"] for row in self.done.values()}),
            "threads": torch.get_num_threads(),
            "libraries": {name: version(name) for name in packages},
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("results/banking77"))
    parser.add_argument(
        "--methods",
        nargs="+",
        choices=list(OWN),
        default=list(OWN),
        help="beside the baseline, which is always there; default: all",
    )
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--draws", type=int, default=20, help="draws of each few-label probe")
    parser.add_argument(
        "--limit", type=int, default=0, help="training texts, at least 2000; 0 for all"
    )
    options = parser.parse_args()
    options.methods = [name for name in OWN if name in (BASELINE, *options.methods)]
    bench = Bench(options)
    body = bench.result()
    table = Table(*body["measurements"][0], title="per cent: means ± standard deviations")
    for row in body["measurements"]:
        table.add_row(*map(str, row.values()))
    console = Console()
    console.print(table)
    command = ["python", "benchmarks/sentence_transformers_banking77.py", *sys.argv[1:]]
    path = write_result("banking77-trainer", shlex.join(command), body)
    shutil.copyfile(bench.path, path.with_suffix(".jsonl"))
    console.print(f"written to {path}")


if __name__ == "__main__":
    main()
