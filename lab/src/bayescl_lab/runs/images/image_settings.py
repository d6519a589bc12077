"""Settings of runs on images."""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic.dataclasses import dataclass
from typing_extensions import Self

from bayescl_lab._arrays import unknown_words_of
from bayescl_lab._fields import Count, CountOr0, NonNegative, Positive, Share, at_least, between
from bayescl_lab._types import Config
from bayescl_lab.images.table import ImageTable
from bayescl_lab.runs.losses import LOSSES, TEACHER, LossSettings
from bayescl_lab.runs.settings import Device, TrainedSettings

_COLUMNS = ("file_column", "label_column", "domain_column")


@dataclass(frozen=True)
class ImageOptions(TrainedSettings):
    """Settings of a run on images, except the loss.

    Attributes:
        data: Name of a data set (see "bayescl data list"), a folder of images, or an .npz file with
            an array "images" and optionally "labels" and "domains".
        table: CSV, TSV or Parquet file with labels or domains of the images of a folder.
        file_column: Column of files in the table. Default: found by its name (file, path, image,
            ...).
        label_column: Column of labels in the table: numbers or words, empty if unknown. Default:
            found by its name (label, class, ...), if there is one.
        domain_column: Column of domains in the table. Default: found by its name (domain, batch,
            device, ...), if there is one.
        unknown: Comma-separated words that mean an unknown label or domain, in a table or an .npz
            file. Default: -1, nan, NA, None, null and similar ones. Empty values always are.
        folders: Meaning of the folders of images: classes or domains.
        value_range: LOW,HIGH, the values of 16-bit gray images that become black and white.
            Default: the smallest and the largest value of all images.
        evaluate_on: Part to evaluate on. The "validation" part is for choosing settings and is
            excluded from training.
        classes: Comma-separated names of the classes to use. Default: all.
        max_train_images: Approximate number of training images, with the same share of each class.
            Default: all.
        image_size: Side in pixels that the images of a folder are resized to. Default: no resizing.
        encoder: "small"; a ResNet of torchvision such as resnet18, resnet34 or resnet50; or your
            own, my_module:build, where build() returns it.
        width: Number of channels of the small encoder's first block.
        stride: Stride of the first convolution of the small encoder, and of torchvision's ResNets
            on images of at most 64 pixels. 2 takes about a quarter of the time of 1.
        hidden_dim: Width of the projection head's hidden layer.
        embedding_dim: Length of an embedding.
        augmentation: Affine noise for small drawings, the simclr recipe for photographs, or auto,
            which uses affine noise for images of one channel and at most 32 pixels.
        strength: Strength of the augmentation. Default: 0.75 for affine noise and 1 for the simclr
            recipe.
        view_size: Side in pixels of the simclr recipe's views. Default: the size of the images.
        epochs: Number of passes over the training images.
        batch_size: Number of images per step, over all devices. Each image gives two views.
        lr: Peak learning rate. It decreases to 0 by a cosine schedule.
        weight_decay: Weight decay of Adam.
        precision: float32, or bfloat16 by autocast.
        channels_last: Use PyTorch's channels-last memory format.
        captured: Launch views and network as one CUDA graph, for the simclr recipe on one GPU.
        labels_per_class: Number of labeled training images per class for the loss, drawn by the
            seed. The oracles use all labels. Default: none.
        domains: Use only candidates of the image's domain (batch, device, source). Domains come
            from an array "domains" of an .npz file, a column of a table, or folders (--folders
            domains).
        ranks: Kind of rank in the Bayesian loss: mid counts half of the equal logits and of the
            candidate itself, upper counts all of them, as in the paper.
        teacher: Embeddings that determine the target of a loss with a teacher: "items", the
            embeddings of the images without augmentation by the trained network, or an .npy file
            with one embedding per training image, such as the output of "embed". "none" is no
            teacher. Default: items for a loss with the suffix "+teacher", else none.
        positive_share: Share of the target for the other view. The teacher, or known labels,
            determine the shares of the other images. 1 turns soft targets off.
        linear_protocol: Training of the linear probe: on cached features (fast), or on views of all
            training images (augmented).
        init: Run folder with initial weights for encoder and projection head. Default: random
            weights.
        seed: Seed of weights, order and views.
        device: Device for training. auto is a GPU if there is one.
        devices: Number of devices per node, with one process each.
        num_nodes: Number of nodes. Start the command on each node with torchrun.

    Raises:
        ValueError: if a value is out of its range.
    """

    data: str = "digits"
    table: str | None = None
    file_column: str | None = None
    label_column: str | None = None
    domain_column: str | None = None
    unknown: str | None = None
    folders: Literal["classes", "domains"] = "classes"
    value_range: str | None = None
    evaluate_on: Literal["test", "validation"] = "test"
    classes: str | None = None
    max_train_images: Annotated[int, at_least(2)] | None = None
    image_size: Count | None = None
    encoder: str = "small"
    width: Count = 32
    stride: Count = 1
    hidden_dim: Count = 256
    embedding_dim: Count = 128
    augmentation: Literal["auto", "affine", "simclr"] = "auto"
    strength: Annotated[float, between(0.0, 5.0)] | None = None
    view_size: Count | None = None
    epochs: Count = 30
    batch_size: Annotated[int, at_least(2)] = 256
    lr: Positive = 1e-3
    weight_decay: NonNegative = 1e-6
    precision: Literal["float32", "bfloat16"] = "float32"
    channels_last: bool = False
    captured: bool = False
    labels_per_class: Count | None = None
    domains: bool = False
    ranks: Literal["mid", "upper"] = "mid"
    teacher: str | None = None
    positive_share: Share = 0.5
    linear_protocol: Literal["fast", "augmented"] = "fast"
    init: str | None = None
    seed: CountOr0 = 0
    device: Device = "auto"
    devices: Count = 1
    num_nodes: Count = 1
    may_change = frozenset({"captured"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size % self.num_processes:
            raise ValueError(
                f"batch_size must be divisible by the number of devices, "
                f"got {self.batch_size} for {self.num_processes} devices"
            )
        if self.teacher not in (None, "items", "none"):
            object.__setattr__(self, "teacher", str(Path(str(self.teacher)).resolve()))
        if self.table is not None:  # to resume from another directory
            object.__setattr__(self, "table", str(Path(self.table).resolve()))
        elif given := [name for name in _COLUMNS if getattr(self, name) is not None]:
            raise ValueError(f"{given[0]} is for a table: name it with --table")
        self._values()

    def _values(self) -> tuple[int, int] | None:
        """Return the values that become black and white."""
        if self.value_range is None:
            return None
        low, _, high = self.value_range.partition(",")
        if not (low.isdecimal() and high.isdecimal() and int(low) < int(high) < 1 << 16):
            raise ValueError(
                "value_range must be LOW,HIGH with 0 <= LOW < HIGH <= 65535, "
                f"got {self.value_range!r}"
            )
        return int(low), int(high)


@dataclass(frozen=True)
class ImageSettings(ImageOptions):
    """All settings of a run on images: :class:`ImageOptions` and the loss.

    Attributes:
        loss: Loss and hyper-parameters.
    """

    loss: LossSettings = field(kw_only=True)
    parts: ClassVar = {"loss": LossSettings.pop_from}

    def __post_init__(self) -> None:
        super().__post_init__()
        if LOSSES[self.loss.loss].needs_labels:
            object.__setattr__(self, "teacher", "none")
        elif self.teacher is None:
            object.__setattr__(self, "teacher", "items")

    @property
    def method(self) -> str:
        """Name of the loss, with a suffix if a teacher is used."""
        is_used = self.teacher != "none" and self.positive_share < 1
        return f"{self.loss.loss}{TEACHER * is_used}"

    def with_method(self, name: str) -> Self:
        """Return the settings with a method of a comparison and its default hyper-parameters."""
        loss, teacher = name.removesuffix(TEACHER), self.teacher
        if loss == name:
            teacher = "none"
        elif teacher == "none":
            teacher = "items"
        return replace(self, loss=LossSettings(loss), teacher=teacher)

    def choice_of_images(self) -> Config:
        """Return the arguments of :func:`~bayescl_lab.images.datasets.load_images`."""
        limits = ("classes", "max_train_images", "labels_per_class", "image_size")
        columns = {name: getattr(self, name) for name in _COLUMNS}
        words = unknown_words_of(self.unknown)
        table = None if self.table is None else Path(self.table)
        return {
            **{name: getattr(self, name) for name in ("evaluate_on", "folders", *limits)},
            "table": None if table is None else ImageTable.read(table, **columns, unknown=words),
            "unknown": words,
            "values": self._values(),
        }

    def as_config(self) -> Config:
        """Return the settings as plain values, without settings that have no effect."""
        unused = set() if self.loss.takes_ranks else {"ranks"}
        if self.teacher == "none" and self.labels_per_class is None:
            unused.add("positive_share")
        return {name: it for name, it in super().as_config().items() if name not in unused}
