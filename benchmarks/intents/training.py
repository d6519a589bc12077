"""One run on questions: pairs of one intent, or two views of one question."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from tuned_comparison import run_in_folder

from bayescl.checks import check_choice
from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.images.feature_probes import ProbeData, few_label_probe
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.losses import LossSettings, image_losses
from intents.questions import Bags, QuestionParts, Questions, find_data, load_questions

PAIRS = ("intents", "views")
HEADS = ("none", "linear", "mlp")
DEPTHS = (1, 10, 100)
FEW_LABELS = (1, 5)
SCORES = (
    *(f"precision_{depth}" for depth in DEPTHS),
    *(f"few_label_{count}" for count in FEW_LABELS),
)
"""Names of the scores, in the order of tables."""


@dataclass(frozen=True)
class TextSettings:
    """Everything that shapes one run.

    Attributes:
        method: a loss of the library.
        values: its hyper-parameters.
        pairs: "intents" for an anchor and another question of its intent, drawn in each epoch;
            "views" for two copies of one question that lack different words.
        evaluate_on: "test" or "validation".
        epochs: passes over the training questions.
        batch_size: pairs per step.
        head: of the encoder: "none", "linear" or "mlp".
        lr: highest learning rate; it follows a cosine down to 0.
        deviation: of the initial feature vectors.
        dropout: probability that a view lacks a word.
        seed: of weights, pairs, order and views.
        data: the folder of the data; found by itself by default.
    """

    method: str
    values: Mapping[str, Any] = field(default_factory=dict)
    pairs: str = "intents"
    evaluate_on: str = "test"
    epochs: int = 12
    batch_size: int = 512
    head: str = "none"
    lr: float = 5e-3
    deviation: float = 0.05
    dropout: float = 0.3
    seed: int = 0
    data: str | None = None

    def __post_init__(self) -> None:
        check_choice("method", self.method, image_losses())
        check_choice("pairs", self.pairs, PAIRS)

    def as_config(self) -> dict[str, Any]:
        """The settings as plain values, without the place of the data."""
        config = {**asdict(self), "values": dict(self.values)}
        del config["data"]
        return config


class BagEncoder(nn.Module):
    """The mean of a question's feature vectors, as it is or through a small head.

    Args:
        num_features: size of the vocabulary.
        head: "none", "linear", or "mlp" for one hidden layer.
        dim: length of a feature vector, and of an embedding.
        deviation: of a feature vector's initial entries. At 1, torch's default, twelve epochs
            hardly move the vectors of rare features, and questions are compared by random ones.
    """

    def __init__(
        self, num_features: int, *, head: str = "none", dim: int = 128, deviation: float = 0.05
    ) -> None:
        super().__init__()
        check_choice("head", head, HEADS)
        self.bag = nn.EmbeddingBag(num_features, dim, mode="mean")
        nn.init.normal_(self.bag.weight, std=deviation)
        hidden = [nn.Linear(dim, dim), nn.ReLU()] if head == "mlp" else []
        self.head = nn.Sequential(*hidden, *([] if head == "none" else [nn.Linear(dim, dim)]))

    def forward(self, bags: Bags) -> Tensor:
        """Embeddings ``[questions, dim]``, not normalised: losses and retrieval do that."""
        return self.head(self.bag(bags.features, bags.offsets))

    @torch.no_grad()
    def embed(self, questions: Questions, *, chunk: int = 1024) -> Tensor:
        """Embeddings of all questions, of length 1."""
        rows = torch.arange(len(questions)).split(chunk)
        return nn.functional.normalize(
            torch.cat([self(questions.take(part)) for part in rows]), dim=1
        )


def train_questions(
    settings: TextSettings,
    out: Path,
    *,
    progress: Callable[[int, float], None] | None = None,
    **_: object,
) -> dict[str, Any]:
    """Train an encoder and evaluate it by every score; a broken run starts anew.

    Args:
        settings: the settings of the run.
        out: the run folder.
        progress: told of every finished epoch.

    Returns:
        What ``result.json`` holds.

    Raises:
        ValueError: if there are no data, or ``out`` holds another run.
    """

    def work(_: RunFolder) -> dict[str, Any]:
        place = find_data() if settings.data is None else Path(settings.data)
        parts = _loaded(place, settings.evaluate_on)
        encoder, loss = fit(settings, parts, progress=progress)
        return {"scores": scores_of(encoder, parts), "loss": loss}

    return run_in_folder(settings, out, "benchmark questions", work)


@lru_cache(maxsize=2)
def _loaded(folder: Path, evaluate_on: str) -> QuestionParts:
    """The questions, tokenised once for all runs of a process."""
    return load_questions(folder, evaluate_on=evaluate_on)


def fit(
    settings: TextSettings,
    parts: QuestionParts,
    *,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[BagEncoder, float]:
    """Train an encoder; it is returned with the mean loss of the last epoch.

    Args:
        settings: the settings of the run.
        parts: the questions.
        progress: told of every finished epoch.

    Raises:
        ValueError: if there are fewer training questions than a batch holds.
    """
    questions = parts.train
    steps = len(questions) // settings.batch_size
    if steps == 0:
        raise ValueError(f"batch_size must be at most {len(questions)}, got {settings.batch_size}")
    with seeded(derived_seed(settings.seed, Purpose.WEIGHTS)):
        encoder = BagEncoder(parts.num_features, head=settings.head, deviation=settings.deviation)
    loss = LossSettings(settings.method, settings.values).build()
    optimizer = torch.optim.Adam(
        [*encoder.parameters(), *loss.parameters()], lr=settings.lr, fused=True
    )
    mean = math.nan
    for epoch in range(settings.epochs):
        generator = torch.Generator().manual_seed(derived_seed(settings.seed, Purpose.ORDER, epoch))
        partner = partners(questions.labels, generator)
        order = torch.randperm(len(questions), generator=generator)
        total = 0.0
        for step, rows in enumerate(
            order[: steps * settings.batch_size].split(settings.batch_size)
        ):
            done = (epoch + step / steps) / settings.epochs
            for group in optimizer.param_groups:
                group["lr"] = settings.lr * (1 + math.cos(math.pi * done)) / 2
            value = _loss_of_batch(settings, loss, encoder, questions, rows, partner, generator)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            total += value.item()
        mean = total / steps
        if not math.isfinite(mean):
            raise ValueError(f"the loss became {mean} in epoch {epoch + 1}")
        if progress is not None:
            progress(epoch + 1, mean)
    return encoder.eval(), mean


def partners(labels: Tensor, generator: torch.Generator) -> Tensor:
    """For each question another one of its intent, each the partner of exactly one.

    A question that is alone in its intent is its own partner.
    """
    partner = torch.empty_like(labels)
    for label in labels.unique():
        rows = (labels == label).nonzero().squeeze(1)
        circle = rows[torch.randperm(len(rows), generator=generator)]
        partner[circle] = circle.roll(1)
    return partner


def _loss_of_batch(
    settings: TextSettings,
    loss: nn.Module,
    encoder: BagEncoder,
    questions: Questions,
    rows: Tensor,
    partner: Tensor,
    generator: torch.Generator,
) -> Tensor:
    """The loss of one batch of pairs."""
    if settings.pairs == "intents":
        bags = questions.take(rows), questions.take(partner[rows])
    else:
        bags = tuple(
            questions.take(rows, dropout=settings.dropout, generator=generator) for _ in range(2)
        )
    labels = {"groups": questions.labels[rows]} if getattr(loss, "needs_groups", False) else {}
    return loss.in_batch(*(encoder(bag) for bag in bags), **labels)


def precisions(
    embeddings: Tensor, labels: Tensor, train_embeddings: Tensor, train_labels: Tensor
) -> dict[str, float]:
    """Share of the nearest training questions that have the question's intent.

    Args:
        embeddings: of the questions that ask, of length 1.
        labels: their intents.
        train_embeddings: of the questions that answer, of length 1.
        train_labels: their intents.

    Returns:
        The mean share by depth.
    """
    hits = []
    deepest = max(DEPTHS)
    for rows, truth in zip(embeddings.split(1024), labels.split(1024), strict=True):
        nearest = (rows @ train_embeddings.T).topk(deepest, dim=1).indices
        hits.append(train_labels[nearest] == truth[:, None])
    right = sum(hit.double().sum(0) for hit in hits) / len(labels)
    return {f"precision_{depth}": right[:depth].mean().item() for depth in DEPTHS}


def scores_of(encoder: BagEncoder, parts: QuestionParts) -> dict[str, float]:
    """Every score of :data:`SCORES`, in [0, 1]."""
    train, evaluation = encoder.embed(parts.train), encoder.embed(parts.evaluation)
    labels = parts.train.labels, parts.evaluation.labels
    scores = precisions(evaluation, labels[1], train, labels[0])
    data = ProbeData(train, labels[0], evaluation, labels[1], len(parts.intents))
    for count in FEW_LABELS:
        scores[f"few_label_{count}"] = few_label_probe(data, labels_per_class=count, draws=20).mean
    return scores
