"""Banking77 with the sentence-transformers trainer: which remedy for false negatives helps?

Pairs are two customers' questions with the same intent, one of 77, so about one candidate in 77 is
a false negative that no rule on equal texts can see. The encoder is a bag of word embeddings,
trained from scratch.

    python benchmarks/sentence_transformers_banking77.py --data DIRECTORY

DIRECTORY holds train.csv and test.csv with the columns text and category. First every method is
tuned with the same number of settings on a fifth of the training part, with one seed. Then the
best setting of each, by mean average precision, is trained on the whole training part with each
seed and evaluated on the test part. Finished runs are kept in ``runs/``, so the command resumes.
"""

from __future__ import annotations

import json
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from harness import publish
from questions import partners, read_texts
from sentence_transformers import (
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
)
from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, StaticEmbedding, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
from transformers.trainer_callback import PrinterCallback
from tuned_comparison import Plan, Runs, compared, parser_of

import bayescl
from bayescl.integrations import sentence_transformers as ours
from bayescl_lab.compare.tuning import Grid
from bayescl_lab.images.probes import ProbeData, few_label_probe
from bayescl_lab.images.subsets import stratified_split
from bayescl_lab.report.tables import mean_text

BASELINE, SAMPLER = "MultipleNegativesRankingLoss", "NO_DUPLICATES sampler"
GUIDED, TAUGHT = "guide's mask", "InfoNCE, documents as teacher"
CLASSES, DIM = 77, 128
GUIDE_SEED = 1000  # is added to a run's seed for its guide, which starts from other weights

SCALES = (2.5, 5.0, 10.0)
RATES = (0.03, 0.1)
OWN: dict[str, Grid] = {
    BASELINE: {},
    SAMPLER: {},
    "InfoNCE, equal texts masked": {},
    TAUGHT: {"positive_share": (0.5, 0.2)},
    GUIDED: {"guide_margin": (0.0, 0.1)},
    "margin rule": {"margin": (0.0, 0.1)},
    "debiased": {"tau_plus": (1 / CLASSES, 2 / CLASSES)},
    "hard": {"tau_plus": (1 / CLASSES,), "concentration": (0.25, 1.0)},
    "Bayesian": {"tau_plus": (1 / CLASSES,), "alpha": (0.9,), "beta": (0.5, 0.7)},
}
"""What matters most to each method. A method that has nothing of its own tries learning rates; the
others take the one that is best for the baseline, which is to its advantage."""

GRIDS = {
    method: {"scale": SCALES, **(own or {"learning_rate": RATES})} for method, own in OWN.items()
}
SCORES = ("map@100", "ndcg@10", "accuracy@1", "probe, 1 per class", "probe, 5 per class")


class Part(NamedTuple):
    """Texts and their intents."""

    texts: list[str]
    labels: torch.Tensor

    def take(self, rows: torch.Tensor) -> Part:
        """Some of the rows."""
        return Part([self.texts[row] for row in rows], self.labels[rows])


def read(path: Path) -> Part:
    """The questions of a file."""
    texts, names = read_texts(path)
    number = {name: index for index, name in enumerate(sorted(set(names)))}
    return Part([text.strip() for text in texts], torch.tensor([number[name] for name in names]))


@cache
def parts(data: str, evaluate_on: str) -> tuple[Part, Part]:
    """What to train on, and to evaluate on."""
    whole, test = read(Path(data, "train.csv")), read(Path(data, "test.csv"))
    if evaluate_on == "test":
        return whole, test
    first, rest = stratified_split(whole.labels, share=0.8, seed=0)
    return whole.take(first), whole.take(rest)


def pairs(part: Part, seed: int) -> Dataset:
    """Every text with another text of its intent."""
    partner = partners(part.labels, torch.Generator().manual_seed(seed))
    return Dataset.from_dict({"anchor": part.texts, "positive": part.take(partner).texts})


def words_of(part: Part) -> Tokenizer:
    """The words of some texts."""
    words = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    words.normalizer = normalizers.Lowercase()
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = ["[PAD]", "[UNK]"]
    words.train_from_iterator(part.texts, trainers.WordLevelTrainer(special_tokens=special))
    return words


def fresh_model(part: Part, seed: int) -> SentenceTransformer:
    """A bag of words, from scratch."""
    torch.manual_seed(seed)
    words = StaticEmbedding(words_of(part), embedding_dim=DIM)
    return SentenceTransformer(modules=[words], device="cpu")


def small_transformer(part: Part, seed: int) -> SentenceTransformer:
    """A transformer of two layers on words, from scratch."""
    words = PreTrainedTokenizerFast(
        tokenizer_object=words_of(part), pad_token="[PAD]", unk_token="[UNK]", model_max_length=32
    )
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
    )
    with tempfile.TemporaryDirectory() as folder:
        for saved in (words, BertModel(config)):
            saved.save_pretrained(folder)
        network = Transformer(folder, max_seq_length=32)
    modules = [network, Pooling(network.get_embedding_dimension())]
    return SentenceTransformer(modules=modules, device="cpu")


def train(
    model: SentenceTransformer,
    loss: torch.nn.Module,
    data: Dataset,
    *,
    batch_size: int,
    epochs: int,
    learning_rate: float,
    seed: int,
    no_duplicates: bool = False,
) -> None:
    """Train by sentence-transformers' own trainer, as its users call it."""
    with tempfile.TemporaryDirectory() as folder:
        settings = SentenceTransformerTrainingArguments(
            output_dir=folder,
            num_train_epochs=epochs,
            per_device_train_batch_size=batch_size,
            learning_rate=learning_rate,
            warmup_steps=0.1,
            seed=seed,
            batch_sampler="no_duplicates" if no_duplicates else "batch_sampler",
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


def loss_of(method: str, model: SentenceTransformer, **options: Any) -> torch.nn.Module:
    """The loss of a method, with its scale and what it has of its own."""
    if method in (BASELINE, SAMPLER):
        return MultipleNegativesRankingLoss(model, **options)
    losses = {
        "debiased": bayescl.DebiasedContrastiveLoss,
        "hard": bayescl.HardContrastiveLoss,
        "Bayesian": bayescl.BayesianContrastiveLoss,
    }
    rules = {"teacher": "documents" if method == TAUGHT else options.pop("teacher", None)}
    for name, by_teacher in (("margin", False), ("guide_margin", True)):
        if name in options:
            gap = options.pop(name) * (-1 if by_teacher else 1)
            rules["margin"] = bayescl.Margin(absolute=gap, extra=True, by_teacher=by_teacher)
            options["positive_share"] = 1.0
    temperature = 1 / options.pop("scale")
    loss = losses.get(method, bayescl.InfoNCELoss)(temperature=temperature, **options)
    return ours.ContrastiveRankingLoss(model, loss, **rules)


def train_and_evaluate(
    method: str, seed: int, evaluate_on: str, *, data: str, scale: float, **options: Any
) -> dict[str, Any]:
    """Train one method and return every score."""
    train_part, other = parts(data, evaluate_on)
    shared = {name: options.pop(name) for name in ("batch_size", "epochs", "learning_rate")}
    shared |= {"seed": seed, "data": pairs(train_part, seed)}
    if method == GUIDED:
        guide = fresh_model(train_part, GUIDE_SEED + seed)
        train(guide, loss_of(BASELINE, guide, scale=scale), **shared)
        options["teacher"] = guide
    model = fresh_model(train_part, seed)
    loss = loss_of(method, model, scale=scale, **options)
    train(model, loss, **shared, no_duplicates=method == SAMPLER)
    return {"scores": evaluate(model, train_part, other)}


def evaluate(model: SentenceTransformer, train_part: Part, test: Part) -> dict[str, float]:
    """Retrieval of training texts of the same intent, and few-label probes."""
    by_label = {
        label: {f"t{row}" for row in (train_part.labels == label).nonzero().flatten().tolist()}
        for label in train_part.labels.unique().tolist()
    }
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
    figures = {name: found[f"cosine_{name}"] for name in ("map@100", "ndcg@10", "accuracy@1")}
    rows = []
    for part in (train_part, test):
        embeddings = model.encode(part.texts, convert_to_tensor=True, batch_size=512)
        rows += [torch.nn.functional.normalize(embeddings.clone(), dim=1), part.labels]
    data = ProbeData(*rows, CLASSES)
    for count in (1, 5):
        score = few_label_probe(data, labels_per_class=count, draws=20)
        figures[f"probe, {count} per class"] = score.mean
    return {name: float(value) for name, value in figures.items()}


def rows_of(record: dict[str, Any], batch_size: int) -> list[dict[str, Any]]:
    """A row per method: means and deviations over seeds, in per cent."""
    baseline = record["methods"][BASELINE]
    rate = record["tuning"]["shared"]["choice"]["learning_rate"]
    rows = []
    for method, entry in record["methods"].items():
        scores, values = entry["scores"], {"learning_rate": rate, **entry["values"]}
        own = {name: values[name] for name in OWN[method] if len(OWN[method][name]) > 1}
        finals = (each["scores"]["map@100"]["values"] for each in (entry, baseline))
        won = sum(mine > theirs for mine, theirs in zip(*finals, strict=True))
        rows.append(
            {
                "batch_size": batch_size,
                "method": method,
                "scale": values["scale"],
                "learning_rate": values["learning_rate"],
                "own": ", ".join(f"{name} {value:.3g}" for name, value in own.items()),
                **{name: mean_text(scores[name], scale=100) for name in SCORES},
                "won": "" if method == BASELINE else f"{won} of {record['seeds'][-1] + 1}",
            }
        )
    return rows


def main() -> None:
    """Tune, compare and write."""
    parser = parser_of(__doc__, OWN)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch_sizes", type=int, nargs="+", default=[64, 512])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--name", default="banking77-trainer", help="name of the result file")
    options = parser.parse_args()
    options.methods = [name for name in OWN if name in (BASELINE, *options.methods)]
    rows: list[dict[str, Any]] = []
    lines: list[dict[str, Any]] = []
    for batch_size in options.batch_sizes:
        plan = Plan(
            name="banking77-trainer",
            title="sentence-transformers' trainer on Banking77",
            grids=GRIDS,
            tuning_seeds=(1000,),
            train=train_and_evaluate,
            criterion=("map@100",),
            scores=SCORES,
            titles={method: method for method in OWN},
            fixed={"data": options.data, "epochs": options.epochs, "batch_size": batch_size},
            shared_grid={"scale": SCALES, "learning_rate": RATES},
            baseline=BASELINE,
        )
        runs = Runs(plan, options.runs / "banking77-trainer.jsonl", options.workers)
        record = compared(plan, options, runs)
        rows += rows_of(record, batch_size)
        lines += runs.lines
    libraries = ("sentence-transformers", "transformers", "tokenizers")
    path = publish(
        options.name,
        rows,
        settings_tried=record["settings_tried"],
        seeds=options.seeds,
        epochs=options.epochs,
        dim=DIM,
        spread=record["spread"],
        commits_of_runs=sorted({str(line["commit"]) for line in lines}),
        threads=1,
        libraries={name: version(name) for name in libraries},
    )
    path.with_suffix(".jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
