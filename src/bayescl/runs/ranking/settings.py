"""The settings of one trained recommender."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from bayescl._checks import check_choice, check_count, check_non_negative, check_positive
from bayescl.recsys.datasets import EVALUATION_PARTS
from bayescl.recsys.encoders import ENCODERS
from bayescl.recsys.scorers import SCORES, check_item_norm_exponent
from bayescl.runs.losses import RankingLoss, pop_loss
from bayescl.runs.ranking.data import RankingData

DEVICES = ("auto", "cpu", "cuda")
CANDIDATES = ("shared", "per-pair", "in-batch", "all")
SCHEDULES = ("constant", "cosine")
STANDARD, PAPER = "standard", "paper"
PROTOCOLS = (STANDARD, PAPER)


@dataclass(frozen=True)
class RankingSettings:
    """Everything that shapes one trained recommender, and nothing that does not.

    Attributes:
        loss: the loss and its hyper-parameters.
        data: what is read, and how.
        encoder: "mf" or "lightgcn".
        dim: coordinates of an embedding.
        layers: steps over the graph (lightgcn).
        score: "cosine" or "inner".
        item_norm_exponent: cosines are multiplied by this power of an item's length when items
            are ranked; training does not depend on it.
        initial_scale: standard deviation of each coordinate at the start.
        candidates: "shared" (drawn once per batch), "per-pair", "in-batch" or "all".
        count: candidates that are drawn, per batch or per pair.
        mask_known: whether a user's known items never count against the user.
        extra_positives: further known items of a pair's user behind the debiased loss's
            correction, drawn anew in every step; 0 leaves it to the pair's own item.
        batch_size: pairs per step.
        lr: learning rate of Adam.
        weight_decay: of Adam.
        schedule: "constant", or "cosine" for a learning rate that falls to 0.
        epochs: passes over the training pairs, at most.
        evaluate_on: the part that the result is about, "test" or "validation".
        watch_every: epochs between looks at a part that chooses the epoch: the validation part,
            which is then taken out of training, or in the paper's protocol the test part. 0 looks
            at none and keeps the last epoch.
        patience: looks without a better one after which training stops; 0 never stops early.
        protocol: "standard", or "paper": the best epoch on test, for each metric separately.
        seed: of weights, order and candidates.
        device: "auto", "cpu" or "cuda".

    Raises:
        ValueError: if a value is out of its range, or values contradict each other.
    """

    loss: RankingLoss = field(default_factory=RankingLoss)
    data: RankingData = field(default_factory=RankingData)
    encoder: str = "mf"
    dim: int = 64
    layers: int = 2
    score: str = "cosine"
    item_norm_exponent: float = 0.0
    initial_scale: float = 0.1
    candidates: str = "shared"
    count: int = 256
    mask_known: bool = True
    extra_positives: int = 0
    batch_size: int = 1024
    lr: float = 5e-3
    weight_decay: float = 1e-6
    schedule: str = "constant"
    epochs: int = 20
    evaluate_on: str = "test"
    watch_every: int = 0
    patience: int = 0
    protocol: str = STANDARD
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_choice("encoder", self.encoder, tuple(ENCODERS))
        check_count("dim", self.dim, 1)
        check_count("layers", self.layers, 0)
        check_choice("score", self.score, SCORES)
        check_item_norm_exponent(self.item_norm_exponent, self.score)
        check_positive("initial_scale", self.initial_scale)
        check_choice("candidates", self.candidates, CANDIDATES)
        check_count("count", self.count, 1)
        check_count("extra_positives", self.extra_positives, 0)
        check_count("batch_size", self.batch_size, 2)
        check_positive("lr", self.lr)
        check_non_negative("weight_decay", self.weight_decay)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_count("epochs", self.epochs, 1)
        check_choice("evaluate_on", self.evaluate_on, EVALUATION_PARTS)
        check_count("watch_every", self.watch_every, 0)
        check_count("patience", self.patience, 0)
        check_choice("protocol", self.protocol, PROTOCOLS)
        check_count("seed", self.seed, 0)
        check_choice("device", self.device, DEVICES)
        if self.patience and not self.watch_every:
            raise ValueError(f"patience must be 0 where watch_every is 0, got {self.patience}")
        if self.protocol == PAPER and (self.evaluate_on, self.watch_every > 0) != ("test", True):
            raise ValueError("protocol 'paper' needs evaluate_on 'test' and watch_every above 0")
        if self.candidates == "in-batch" and not self.loss.offers("in_batch"):
            raise ValueError(
                f"the loss {self.loss.loss} needs candidates that are drawn, or all, got 'in-batch'"
            )
        if self.extra_positives and not self.loss.offers("sampled", "extra_positives"):
            raise ValueError(
                "extra_positives must be 0 for every loss but debiased, "
                f"got {self.extra_positives} for {self.loss.loss}"
            )
        if self.extra_positives and self.candidates == "in-batch":
            raise ValueError(
                "extra_positives need candidates that are drawn, or all, got 'in-batch'"
            )
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device must be auto or cpu where torch finds no GPU, got 'cuda'")

    def torch_device(self) -> torch.device:
        """The device that the run uses on this machine."""
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        return torch.device(self.device)

    def as_config(self) -> dict[str, Any]:
        """The settings as plain values; of the loss, every hyper-parameter it takes."""
        config = asdict(self)
        del config["loss"], config["data"]
        loss = {"loss": self.loss.loss, **self.loss.resolved(score=self.score)}
        return {**asdict(self.data), **loss, **config}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> RankingSettings:
        """The settings that :meth:`as_config` wrote down.

        Raises:
            ValueError: if a setting is missing, unknown or out of range.
        """
        values = dict(config)
        try:
            loss = RankingLoss(*pop_loss(values))
            return cls(loss=loss, data=RankingData.taken_from(values), **values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"the settings of the run are damaged: {error}") from None
