"""One run on questions: pairs of one intent, or two views of one question."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from rivals.library import (
    LOSSES,
    LossSettings,
    Purpose,
    RunFolder,
    check_choice,
    derived_seed,
    provenance,
    seeded,
)
from torch import Tensor, nn

from intents.encoder import BagEncoder
from intents.questions import QuestionParts, Questions, find_data, load_questions
from intents.retrieval import scores_of

KIND = "benchmark questions"
PAIRS = ("intents", "views")


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
        check_choice("method", self.method, LOSSES)
        check_choice("pairs", self.pairs, PAIRS)

    def as_config(self) -> dict[str, Any]:
        """The settings as plain values, without the place of the data."""
        config = {**asdict(self), "values": dict(self.values)}
        del config["data"]
        return config


def build_loss(settings: TextSettings) -> nn.Module:
    """The loss of a run."""
    return LossSettings(settings.method, settings.values).build()


def train_questions(
    settings: TextSettings,
    out: Path,
    *,
    resume: bool = False,
    checkpoint_every: int = 1,
    progress: Callable[[int, float], None] | None = None,
) -> dict[str, Any]:
    """Train an encoder, judge it and write the scores into a run folder.

    Args:
        settings: the settings of the run.
        out: the run folder.
        resume: whether a folder may be there; a finished run is merely read.
        checkpoint_every: not used; a run takes seconds.
        progress: told of every finished epoch.

    Returns:
        What ``result.json`` holds.

    Raises:
        ValueError: if there are no data, or ``out`` holds another run.
    """
    del checkpoint_every
    origin = provenance()
    if resume:
        folder = RunFolder.open(out, KIND)
        if folder.config() != settings.as_config():
            raise ValueError(f"{out} holds a run with other settings")
        if folder.is_finished:
            return folder.read_result()
    place = find_data() if settings.data is None else Path(settings.data)
    parts = _loaded(place, settings.evaluate_on)
    if not resume:
        folder = RunFolder.create(out, KIND, settings.as_config())
    start = time.perf_counter()
    encoder, last_loss = fit(settings, parts, progress=progress)
    seconds = time.perf_counter() - start
    train, evaluation = encoder.embed(parts.train), encoder.embed(parts.evaluation)
    scores = scores_of(
        evaluation,
        parts.evaluation.labels,
        train,
        parts.train.labels,
        num_classes=len(parts.intents),
    )
    result = {
        "settings": settings.as_config(),
        "seed": settings.seed,
        "scores": scores,
        "seconds": round(time.perf_counter() - start, 2),
        "seconds_per_epoch": seconds / settings.epochs,
        "loss": last_loss,
        **origin,
    }
    folder.write_result(result)
    return result


@lru_cache(maxsize=2)
def _loaded(folder: Path, evaluate_on: str) -> QuestionParts:
    """The questions, tokenised once for all runs of a process."""
    return load_questions(folder, evaluate_on=evaluate_on)


def fit(
    settings: TextSettings,
    parts: QuestionParts,
    *,
    loss: nn.Module | None = None,
    progress: Callable[[int, float], None] | None = None,
) -> tuple[BagEncoder, float]:
    """Train an encoder; it is returned with the mean loss of the last epoch.

    Args:
        settings: the settings of the run.
        parts: the questions.
        loss: in place of the settings' own.
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
    loss = build_loss(settings) if loss is None else loss
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
