"""The settings of one run on images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from bayescl._checks import (
    check_choice,
    check_count,
    check_interval,
    check_non_negative,
    check_positive,
)
from bayescl.estimation.auc import READINGS
from bayescl.runs.losses import LossSettings, pop_loss, takes
from bayescl.vision.datasets import EVALUATION_PARTS
from bayescl.vision.optimizers import OPTIMIZERS

AUGMENTATIONS = ("auto", "affine", "simclr")
PRECISIONS = ("float32", "bfloat16")
LINEAR_PROTOCOLS = ("fast", "paper")
DEVICES = ("auto", "cpu", "cuda")
ALPHA_SCHEDULES = ("fixed", "ramp", "measured", "label-free")


@dataclass(frozen=True)
class ImageSettings:
    """Everything that shapes one run on images, and nothing that does not.

    Attributes:
        loss: the loss and its hyper-parameters.
        data: name of a data set, or the path of an .npz file or of a folder of images.
        evaluate_on: the part that probes are scored on, "test" or "validation".
        classes: of the data set's classes only these, their names with commas between, or a
            number of classes to draw; all unless given.
        max_train_images: train on so many images at most; on all unless given.
        image_size: side in pixels that images are brought to; their own unless given.
        encoder: "small", or a network of torchvision such as "resnet18".
        width: channels of the small encoder's first block.
        stride: of the small encoder's first convolution.
        hidden_dim: width of the projection head's hidden layer.
        embedding_dim: length of an embedding.
        augmentation: "affine" noise for small drawings, the "simclr" recipe for photographs, or
            "auto": affine noise for images of one channel and at most 32 pixels.
        strength: how much views differ from their image; unless given, 0.75 of affine noise and
            1 of the recipe.
        view_size: side of the recipe's views in pixels; that of the images unless given.
        joint_views: whether both views go through the network in one call, so that batch
            normalisation sees them together.
        epochs: passes over the training images.
        batch_size: images per step on all devices together; each gives two views.
        optimizer: "adam", "sgd" or "lars".
        lr: highest learning rate.
        weight_decay: of the optimizer.
        warmup_epochs: epochs in which the learning rate rises, before its cosine falls.
        cache_chunk: images that go through the network together, where a step does not fit into
            memory; all of them unless given.
        precision: "float32", or "bfloat16" by autocast.
        channels_last: whether images lie in memory pixel by pixel.
        compiled: whether the network goes through ``torch.compile``.
        alpha_schedule: how alpha comes about, for a loss that has one: "fixed" as given; by a
            "ramp" from 0.501 to what is given, in up to 20 steps; "measured" with labels of a few
            training images; or "label-free", from two views of training images.
        alpha_every: epochs between two measurements.
        alpha_reading: how a measured AUC becomes alpha, by the "model" or as the "auc" itself.
        alpha_labels: labelled images of each class that alpha is measured with.
        knn_every: epochs between k-NN scores while training; 0 for none.
        linear_protocol: of the linear probe: "fast" on cached features, or the "paper" one.
        seed: of weights, order and views.
        device: "auto", "cpu" or "cuda".
        devices: devices on each node.
        num_nodes: nodes.

    Raises:
        ValueError: if a value is out of its range.
    """

    loss: LossSettings
    data: str = "digits"
    evaluate_on: str = "test"
    classes: str | None = None
    max_train_images: int | None = None
    image_size: int | None = None
    encoder: str = "small"
    width: int = 32
    stride: int = 1
    hidden_dim: int = 256
    embedding_dim: int = 128
    augmentation: str = "auto"
    strength: float | None = None
    view_size: int | None = None
    joint_views: bool = False
    epochs: int = 30
    batch_size: int = 256
    optimizer: str = "adam"
    lr: float = 1e-3
    weight_decay: float = 1e-6
    warmup_epochs: int = 0
    cache_chunk: int | None = None
    precision: str = "float32"
    channels_last: bool = False
    compiled: bool = False
    alpha_schedule: str = "fixed"
    alpha_every: int = 20
    alpha_reading: str = "model"
    alpha_labels: int = 20
    knn_every: int = 0
    linear_protocol: str = "fast"
    seed: int = 0
    device: str = "auto"
    devices: int = 1
    num_nodes: int = 1

    def __post_init__(self) -> None:
        for name, choices in (
            ("evaluate_on", EVALUATION_PARTS),
            ("augmentation", AUGMENTATIONS),
            ("optimizer", tuple(OPTIMIZERS)),
            ("precision", PRECISIONS),
            ("linear_protocol", LINEAR_PROTOCOLS),
            ("alpha_schedule", ALPHA_SCHEDULES),
            ("alpha_reading", READINGS),
            ("device", DEVICES),
        ):
            check_choice(name, getattr(self, name), choices)
        for name, minimum in _SMALLEST.items():
            value = getattr(self, name)
            if value is not None:
                check_count(name, value, minimum)
        check_positive("lr", self.lr)
        check_non_negative("weight_decay", self.weight_decay)
        if self.strength is not None:
            check_interval("strength", self.strength, 0.0, 5.0)
        if self.warmup_epochs >= self.epochs:
            raise ValueError(
                f"warmup_epochs must be less than epochs, got {self.warmup_epochs} of {self.epochs}"
            )
        if self.alpha_schedule != "fixed":
            self._check_alpha_schedule()
        ranks = self.devices * self.num_nodes
        if self.batch_size % ranks:
            raise ValueError(
                f"batch_size must be divisible by the number of devices, "
                f"got {self.batch_size} for {ranks} devices"
            )
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device must be auto or cpu where torch finds no GPU, got 'cuda'")

    def _check_alpha_schedule(self) -> None:
        """Refuse a schedule for a loss that has no alpha, or may not have all its values."""
        if not takes(self.loss.loss, "alpha"):
            raise ValueError(
                f"alpha_schedule must be fixed for the loss {self.loss.loss}, which has no alpha, "
                f"got {self.alpha_schedule!r}"
            )
        if self.alpha_schedule != "ramp" and self.loss.resolved()["beta"] == 1:
            raise ValueError("beta must be below 1 where alpha is measured, for that may be 1 too")

    def torch_device(self, number: int = 0) -> torch.device:
        """The device that the run uses on this machine; of several GPUs the one of a number."""
        on_gpu = self.device != "cpu" and torch.cuda.is_available()
        if on_gpu and self.devices > 1:
            return torch.device("cuda", number)
        return torch.device("cuda" if on_gpu else "cpu")

    def choice_of_images(self) -> dict[str, Any]:
        """What :func:`~bayescl.vision.datasets.load_images` is to choose, where it is to choose."""
        choice = {
            "classes": self.classes,
            "max_train_images": self.max_train_images,
            "image_size": self.image_size,
        }
        return {name: value for name, value in choice.items() if value is not None}

    def as_config(self) -> dict[str, Any]:
        """The settings as plain values; of the loss, every hyper-parameter it takes.

        How alpha changes is named only where it does.
        """
        config = asdict(self)
        del config["loss"]
        if self.alpha_schedule == "fixed":
            config = {key: value for key, value in config.items() if key not in _OF_ALPHA}
        return {"loss": self.loss.loss, **self.loss.resolved(), **config}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ImageSettings:
        """The settings that :meth:`as_config` wrote down; those that it lacks have defaults.

        Raises:
            ValueError: if a setting is missing, unknown or out of range.
        """
        values = dict(config)
        try:
            return cls(loss=LossSettings(*pop_loss(values)), **values)
        except (KeyError, TypeError) as error:
            raise ValueError(f"the settings of the run are damaged: {error}") from None


_OF_ALPHA = ("alpha_schedule", "alpha_every", "alpha_reading", "alpha_labels")

_SMALLEST = {
    "max_train_images": 2,
    "image_size": 1,
    "width": 1,
    "stride": 1,
    "hidden_dim": 1,
    "embedding_dim": 1,
    "view_size": 1,
    "epochs": 1,
    "batch_size": 2,
    "warmup_epochs": 0,
    "cache_chunk": 1,
    "alpha_every": 1,
    "alpha_labels": 2,
    "knn_every": 0,
    "seed": 0,
    "devices": 1,
    "num_nodes": 1,
}
"""The smallest value of every whole number."""
