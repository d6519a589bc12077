"""The settings of one trained recommender."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import torch

from bayescl._fields import (
    Count,
    CountOr0,
    NonNegative,
    Positive,
    among,
    at_least,
    check_fields,
)
from bayescl.recsys.encoders import ENCODERS
from bayescl.recsys.scorers import Score, check_item_norm_exponent
from bayescl.runs.devices import Device, check_device, chosen_device
from bayescl.runs.losses import RankingLoss, pop_loss
from bayescl.runs.processes import Processes
from bayescl.runs.ranking.data import RankingData
from bayescl.runs.settings import StoredSettings

KIND = "train ranking"
"""The kind of run: the command that makes it."""

EncoderName = Annotated[str, among(lambda: tuple(ENCODERS))]
POPULARITY: Literal["popularity"] = "popularity"
EASE_NAME: Literal["ease"] = "ease"
BASELINES = (POPULARITY, EASE_NAME)
"""Names of the baselines; they stand where a trained run names its encoder."""
PAPER: Literal["paper"] = "paper"


@dataclass(frozen=True)
class RankingSettings(StoredSettings):
    """All settings that affect one trained recommender.

    Attributes:
        loss: the loss and its hyper-parameters.
        data: what is read, and how.
        encoder: what makes embeddings of users and items.
        dim: coordinates of an embedding.
        layers: steps over the graph of users and items (lightgcn).
        score: cosine, or inner for inner products.
        item_norm_exponent: cosines are multiplied by this power of an item's length when items are
            ranked, which favours popular ones; training does not depend on it.
        initial_scale: standard deviation of each coordinate at the start.
        candidates: shared (drawn once per batch), per-pair, in-batch or all.
        count: candidates that are drawn, per batch or per pair.
        mask_known: whether a user's known items are left out of the user's candidates.
        extra_positives: further items of a pair's user, drawn anew in every step, that the debiased
            loss takes its correction from.
        batch_size: pairs per step, on all devices together.
        lr: learning rate of Adam.
        weight_decay: of Adam.
        schedule: constant, or cosine for a learning rate that falls to 0.
        epochs: passes over the training pairs, at most.
        evaluate_on: the part that the result is about; "validation" is for choosing settings:
            training then leaves that part out.
        watch_every: epochs between two evaluations on a validation part, which is taken out of
            training and chooses the epoch (in the paper's protocol it is the test part); 0: none,
            and the last epoch is kept.
        patience: stop after this many evaluations without a better one; 0 never stops early.
        protocol: standard; or paper: the best epoch on test for each metric separately, which
            inflates figures; the results are marked.
        init: the folder of a run whose embeddings training starts from, where it knows the user
            or item; default: start anew.
        seed: of weights, order and candidates.
        device: where to train; auto is a GPU if there is one.
        processes: how many devices train together.

    Raises:
        ValueError: if a value is out of its range, or values contradict each other.
    """

    loss: RankingLoss = field(default_factory=RankingLoss)
    data: RankingData = field(default_factory=RankingData)
    encoder: EncoderName = "mf"
    dim: Count = 64
    layers: CountOr0 = 2
    score: Score = "cosine"
    item_norm_exponent: float = 0.0
    initial_scale: Positive = 0.1
    candidates: Literal["shared", "per-pair", "in-batch", "all"] = "shared"
    count: Count = 256
    mask_known: bool = True
    extra_positives: CountOr0 = 0
    batch_size: Annotated[int, at_least(2)] = 1024
    lr: Positive = 5e-3
    weight_decay: NonNegative = 1e-6
    schedule: Literal["constant", "cosine"] = "constant"
    epochs: Count = 20
    evaluate_on: Literal["test", "validation"] = "test"
    watch_every: CountOr0 = 0
    patience: CountOr0 = 0
    protocol: Literal["standard", "paper"] = "standard"
    init: str | None = None
    seed: CountOr0 = 0
    device: Device = "auto"
    processes: Processes = field(default_factory=Processes)
    may_change = frozenset({"epochs"})

    def __post_init__(self) -> None:
        check_fields(self)
        if self.init is not None:  # a run that goes on elsewhere finds it
            object.__setattr__(self, "init", str(Path(self.init).resolve()))
        check_item_norm_exponent(self.item_norm_exponent, self.score)
        if self.patience and not self.watch_every:
            raise ValueError(f"patience must be 0 where watch_every is 0, got {self.patience}")
        if self.protocol == PAPER and (self.evaluate_on, self.watch_every > 0) != ("test", True):
            raise ValueError("protocol 'paper' needs evaluate_on 'test' and watch_every above 0")
        if self.data.split == "none" and self.watch_every:
            raise ValueError(
                "watch_every must be 0 where split is 'none', which leaves nothing to look at, "
                f"got {self.watch_every}"
            )
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
        check_device(self.device)

    def continues(self, stored: RankingSettings) -> bool:
        """Whether these only ask for more epochs, at the same learning rate throughout."""
        if replace(self, epochs=stored.epochs).as_config() != stored.as_config():
            return False
        if self.schedule == "cosine":
            raise ValueError(
                f"epochs must stay {stored.epochs}, at the end of which the learning rate of the "
                f"run is 0, got {self.epochs}: start another run from its weights with --init"
            )
        if self.epochs < stored.epochs:
            raise ValueError(
                f"epochs of a resumed run must be at least {stored.epochs}, got {self.epochs}"
            )
        return True

    def torch_device(self, number: int = 0) -> torch.device:
        """The device that the run uses on this machine; of several GPUs the one of a number."""
        return chosen_device(self.device, number if self.processes.devices > 1 else None)

    def as_config(self) -> dict[str, Any]:
        """The settings as plain values; of the loss, every hyper-parameter it takes."""
        config = asdict(self)
        del config["loss"], config["data"], config["processes"]
        if self.init is None:
            del config["init"]
        loss = {"loss": self.loss.loss, **self.loss.resolved(score=self.score)}
        return {**asdict(self.data), **loss, **config, **asdict(self.processes)}

    @classmethod
    def _taken_from(cls, values: dict[str, Any], /) -> dict[str, Any]:
        names = [one.name for one in fields(Processes) if one.name in values]
        return {
            "loss": RankingLoss(*pop_loss(values)),
            "data": RankingData.taken_from(values),
            "processes": Processes(**{name: values.pop(name) for name in names}),
        }


@dataclass(frozen=True)
class BaselineSettings(StoredSettings):
    """Everything that shapes a baseline.

    Attributes:
        encoder: "popularity" or "ease".
        data: what is read, and how.
        regularization: the penalty of ease.
        evaluate_on: the part that the result is about, "test" or "validation".

    Raises:
        ValueError: if a value is out of its range.
    """

    encoder: Literal["popularity", "ease"]
    data: RankingData = field(default_factory=RankingData)
    regularization: Positive = 300.0
    evaluate_on: Literal["test", "validation"] = "test"

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def epochs(self) -> int:
        """A baseline is fitted in one go."""
        return 1

    def as_config(self) -> dict[str, Any]:
        """The settings as plain values."""
        config = asdict(self)
        del config["data"]
        if self.encoder == POPULARITY:
            del config["regularization"]
        return {**asdict(self.data), **config}

    @classmethod
    def _taken_from(cls, values: dict[str, Any], /) -> dict[str, Any]:
        return {"data": RankingData.taken_from(values)}
