"""One run on questions: pairs of one intent, or two views of one question."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab.images.probes import ProbeData, few_label_probe
from bayescl_lab.runs.losses import LossSettings
from intents.questions import Bags, QuestionParts, Questions, find_data, load_questions

PAIRS = ("intents", "views")
DEPTHS = (1, 10, 100)
FEW_LABELS = (1, 5)
SCORES = (
    *(f"precision_{depth}" for depth in DEPTHS),
    *(f"few_label_{count}" for count in FEW_LABELS),
)
"""Names of the scores, in the order of tables."""


@dataclass(frozen=True)
class TextSettings:
    """What shapes one run beside its loss.

    Pairs of "intents" are an anchor and another question of its intent, drawn in each epoch;
    "views" are two copies of one question that lack different words.
    """

    pairs: Literal["intents", "views"] = "intents"
    epochs: int = 12
    batch_size: int = 512
    lr: float = 5e-3  # the highest; it follows a cosine down to 0
    dropout: float = 0.3  # probability that a view lacks a word


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
        """Embeddings ``[questions, 128]``, not normalised: losses and retrieval do that."""
        return self.bag(bags.features, bags.offsets)

    @torch.no_grad()
    def embed(self, questions: Questions) -> Tensor:
        """Embeddings of all questions, of length 1."""
        return nn.functional.normalize(self(questions.take(torch.arange(len(questions)))), dim=1)


def train_questions(
    method: str, seed: int, evaluate_on: str, data: str | None = None, **options: Any
) -> dict[str, Any]:
    """Train an encoder with a loss of the library and evaluate it by every score.

    ``options`` are the :class:`TextSettings`, and hyper-parameters of the loss.
    """
    names = {setting.name for setting in fields(TextSettings)}
    settings = TextSettings(**{name: options[name] for name in names & options.keys()})
    values = {name: value for name, value in options.items() if name not in names}
    parts = _loaded(find_data() if data is None else Path(data), evaluate_on)
    encoder, loss = fit(LossSettings(method, values).build(), parts, seed, settings)
    return {"scores": scores_of(encoder, parts), "loss": loss}


_loaded = lru_cache(maxsize=2)(
    lambda folder, evaluate_on: load_questions(folder, evaluate_on=evaluate_on)
)


def fit(
    loss: nn.Module, parts: QuestionParts, seed: int, settings: TextSettings
) -> tuple[BagEncoder, float]:
    """Train an encoder; it is returned with the mean loss of the last epoch."""
    questions = parts.train
    steps = len(questions) // settings.batch_size
    if steps == 0:
        raise ValueError(f"batch_size must be at most {len(questions)}, got {settings.batch_size}")
    with seeded(derived_seed(seed, Purpose.WEIGHTS)):
        encoder = BagEncoder(parts.num_features)
    optimizer = torch.optim.Adam(
        [*encoder.parameters(), *loss.parameters()], lr=settings.lr, fused=True
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps * settings.epochs)
    mean = math.nan
    for epoch in range(settings.epochs):
        generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.ORDER, epoch))
        partner = partners(questions.labels, generator)
        order = torch.randperm(len(questions), generator=generator)
        total = 0.0
        for rows in order[: steps * settings.batch_size].split(settings.batch_size):
            if settings.pairs == "intents":
                bags = questions.take(rows), questions.take(partner[rows])
            else:
                bags = tuple(
                    questions.take(rows, dropout=settings.dropout, generator=generator)
                    for _ in range(2)
                )
            needed = [name for name in ("groups", "labels") if getattr(loss, f"needs_{name}")]
            known = dict.fromkeys(needed, questions.labels[rows])
            value = loss.in_batch(*(encoder(bag) for bag in bags), **known)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
            total += value.item()
        mean = total / steps
        if not math.isfinite(mean):
            raise ValueError(f"the loss became {mean} in epoch {epoch + 1}")
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


def precisions(
    embeddings: Tensor, labels: Tensor, train_embeddings: Tensor, train_labels: Tensor
) -> dict[str, float]:
    """Mean share of the nearest training questions that have the question's intent, by depth."""
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
