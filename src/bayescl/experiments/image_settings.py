"""The settings of one run on images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from bayescl._checks import check_choice, check_count, check_interval, check_positive
from bayescl.experiments.loss_settings import HYPERPARAMETERS, LossSettings
from bayescl.vision.datasets import EVALUATION_PARTS

DEVICES = ("auto", "cpu", "cuda")


@dataclass(frozen=True)
class ImageSettings:
    """Everything that shapes one run on images, and nothing that does not.

    Attributes:
        loss: the loss and its hyper-parameters.
        data: name of a data set, or the path of an .npz file.
        evaluate_on: the part that probes are scored on, "test" or "validation".
        epochs: passes over the training images.
        batch_size: images per step; each gives two views.
        lr: learning rate of Adam at the start.
        strength: how much views differ from their image.
        width: channels of the encoder's first block.
        seed: of weights, order and views.
        device: "auto", "cpu" or "cuda".

    Raises:
        ValueError: if a value is out of its range.
    """

    loss: LossSettings
    data: str = "digits"
    evaluate_on: str = "test"
    epochs: int = 30
    batch_size: int = 256
    lr: float = 1e-3
    strength: float = 0.75
    width: int = 32
    seed: int = 0
    device: str = "auto"

    def __post_init__(self) -> None:
        check_choice("evaluate_on", self.evaluate_on, EVALUATION_PARTS)
        check_count("epochs", self.epochs, 1)
        check_count("batch_size", self.batch_size, 2)
        check_positive("lr", self.lr)
        check_interval("strength", self.strength, 0.0, 5.0)
        check_count("width", self.width, 1)
        check_count("seed", self.seed, 0)
        check_choice("device", self.device, DEVICES)
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
        del config["loss"]
        return {"loss": self.loss.loss, **self.loss.resolved(), **config}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ImageSettings:
        """The settings that :meth:`as_config` wrote down.

        Raises:
            ValueError: if a setting is missing, unknown or out of range.
        """
        values = dict(config)
        try:
            loss = values.pop("loss")
            given = {name: values.pop(name) for name in HYPERPARAMETERS if name in values}
            return cls(loss=LossSettings(loss, given), **values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"the settings of the run are damaged: {error}") from None
