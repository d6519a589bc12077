"""The settings of one run on images."""

from __future__ import annotations

import hashlib
from dataclasses import field
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic.dataclasses import dataclass

from bayescl_lab._fields import Count, CountOr0, NonNegative, Positive, Share, at_least, between
from bayescl_lab.images.streaming import decoding_workers
from bayescl_lab.images.table import ImageTable
from bayescl_lab.runs.losses import LossSettings
from bayescl_lab.runs.settings import Device, TrainedSettings

SHA256 = "#sha256="
"""Stands between the file of weights and its checksum."""
_COLUMNS = ("file_column", "label_column", "domain_column")


@dataclass(frozen=True)
class ImageOptions(TrainedSettings):
    """All settings that affect a run on images, but for the loss.

    Attributes:
        data: name of a data set (see "bayescl data list"), or the path of a folder of images or of
            an .npz file with an array "images", and maybe "labels" and "domains".
        table: a CSV, TSV or Parquet file with labels or domains of the images of a folder.
        file_column: the table's column of files; default: found by its name (file, path, image,
            ...).
        label_column: its column of labels, numbers or words, empty where unknown; default: found by
            its name (label, class, ...), if there is one.
        domain_column: its column of domains; default: found by its name (domain, batch, device,
            ...), if there is one.
        folders: whether the folders of images are classes or domains.
        value_range: LOW,HIGH, the values of grey images of 16 bits that become black and white;
            default: the smallest and the largest of all images.
        evaluate_on: the part that probes are scored on; "validation" is for choosing settings, and
            is then left out of training.
        classes: use only these classes: comma-separated names, or a number of classes to draw;
            default: all.
        max_train_images: train on at most this many images, equally many of each class; default:
            all.
        max_evaluation_images: evaluate on at most this many images, equally many of each class;
            default: all.
        image_size: side in pixels that images are resized to; default: their own.
        loader: how a folder of images is read, to the same pixels: memory decodes all images once,
            stream decodes them on each access, and auto streams if the pixels would take more than
            half of the memory or of the cache folder's free space.
        loader_workers: processes that decode streamed images; 0 decodes in the run's own process;
            default: one less than the number of cores, shared by the devices.
        encoder: "small"; a ResNet of torchvision such as resnet18, resnet34 or resnet50; a network
            of timm, such as timm:resnet18; or your own, my_module:build, where build() returns it.
        width: channels of the small encoder's first block.
        stride: stride of the first convolution of the small encoder, and of torchvision's ResNets
            on images of at most 64 pixels; 2 costs about a quarter.
        hidden_dim: width of the projection head's hidden layer.
        embedding_dim: length of an embedding.
        augmentation: affine noise for small drawings, the simclr recipe for photographs, or auto,
            which uses affine noise for images of one channel and at most 32 pixels.
        strength: how much views differ from their image; default: 0.75 for affine noise and 1 for
            the simclr recipe.
        view_size: side in pixels of the simclr recipe's views; default: that of the images.
        epochs: passes over the training images.
        batch_size: images per step, over all devices; each gives two views.
        optimizer: which optimizer trains.
        lr: peak learning rate; it follows a cosine down to 0.
        weight_decay: weight decay of the optimizer.
        precision: float32, or bfloat16 by autocast.
        channels_last: use PyTorch's channels-last memory format.
        compiled: compile the network with torch.compile.
        captured: launch views and network as one CUDA graph; for the simclr recipe on one GPU.
        labels_per_class: labelled training images of each class that the loss knows, drawn by the
            seed; the oracles know all. Default: none.
        domains: keep to candidates of an image's own domain (batch, device, source), for data that
            have them: an array "domains" of an .npz file, a column of a table, or folders below
            the class folders.
        ranks: how the Bayesian loss counts a candidate's rank: mid counts half of equal logits and
            of the candidate itself, upper all of them, as the paper does.
        positive_share: part of the target that the other view keeps. The embeddings of the images
            without augmentation decide how the other images share the rest; 1 turns that off.
        teacher: the folder of a run, or an .npy file with one embedding per training image. Its
            embeddings replace those of the trained network in the target.
        linear_protocol: how the linear probe is trained: fast, on cached features, or as in the
            paper.
        init: the folder of a run whose encoder and projection head initialise training; default:
            random weights.
        weights: a file with pretrained weights of the network of torchvision or timm, as
            safetensors or as torch saves a state; its classifier is ignored. The file's SHA-256 is
            recorded, and a resumed run does without the file.
        seed: seed of weights, order and views.
        device: where to train; auto is a GPU if there is one.
        devices: devices per node, with one process each.
        num_nodes: number of nodes; start the command on each of them with torchrun.

    Raises:
        ValueError: if a value is out of its range.
    """

    data: str = "digits"
    table: str | None = None
    file_column: str | None = None
    label_column: str | None = None
    domain_column: str | None = None
    folders: Literal["classes", "domains"] = "classes"
    value_range: str | None = None
    evaluate_on: Literal["test", "validation"] = "test"
    classes: str | None = None
    max_train_images: Annotated[int, at_least(2)] | None = None
    max_evaluation_images: Annotated[int, at_least(2)] | None = None
    image_size: Count | None = None
    loader: Literal["auto", "memory", "stream"] = "auto"
    loader_workers: CountOr0 | None = None
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
    optimizer: Literal["adam", "sgd"] = "adam"
    lr: Positive = 1e-3
    weight_decay: NonNegative = 1e-6
    precision: Literal["float32", "bfloat16"] = "float32"
    channels_last: bool = False
    compiled: bool = False
    captured: bool = False
    labels_per_class: Count | None = None
    domains: bool = False
    ranks: Literal["mid", "upper"] = "mid"
    positive_share: Share = 0.5
    teacher: str | None = None
    linear_protocol: Literal["fast", "paper"] = "fast"
    init: str | None = None
    weights: str | None = None
    seed: CountOr0 = 0
    device: Device = "auto"
    devices: Count = 1
    num_nodes: Count = 1
    may_change = frozenset({"epochs", "loader", "loader_workers", "captured"})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size % self.num_processes:
            raise ValueError(
                f"batch_size must be divisible by the number of devices, "
                f"got {self.batch_size} for {self.num_processes} devices"
            )
        if self.teacher is not None:
            object.__setattr__(self, "teacher", str(Path(self.teacher).resolve()))
        if self.table is not None:  # to resume from another directory
            object.__setattr__(self, "table", str(Path(self.table).resolve()))
        elif given := [name for name in _COLUMNS if getattr(self, name) is not None]:
            raise ValueError(f"{given[0]} is for a table: name it with --table")
        self._values()
        if self.weights is None or SHA256 in self.weights:
            return
        file = Path(self.weights).resolve()
        if self.init is not None:
            raise ValueError("give init or weights, not both")
        if not file.is_file():
            raise ValueError(f"weights: there is no file {self.weights}")
        checksum = hashlib.sha256(file.read_bytes()).hexdigest()
        object.__setattr__(self, "weights", f"{file}{SHA256}{checksum}")

    def _values(self) -> tuple[int, int] | None:
        """The values that become black and white."""
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
    """All settings that affect one run on images; the loss's come to :class:`ImageOptions`.

    Attributes:
        loss: the loss and its hyper-parameters.
    """

    loss: LossSettings = field(kw_only=True)
    parts: ClassVar = {"loss": LossSettings.taken_from}

    def choice_of_images(self) -> dict[str, Any]:
        """Arguments of :func:`~bayescl_lab.images.datasets.load_images` but for where they are."""
        limits = ("max_train_images", "max_evaluation_images", "labels_per_class")
        names = ("evaluate_on", "classes", *limits, "image_size", "loader", "folders")
        columns = {name: getattr(self, name) for name in _COLUMNS}
        workers = self.loader_workers
        return {
            **{name: getattr(self, name) for name in names},
            "loader_workers": decoding_workers(self.devices) if workers is None else workers,
            "table": None if self.table is None else ImageTable.read(Path(self.table), **columns),
            "values": self._values(),
        }

    @property
    def probe_epochs(self) -> float:
        """About how many epochs the probes take: an image passes forward once, or 100 times."""
        return 17.0 if self.linear_protocol == "paper" else 0.3

    def as_config(self) -> dict[str, Any]:
        """The settings as plain values, without those that change nothing."""
        unused = {"positive_share", "teacher"} if self.loss.made.needs_labels else set()
        unused |= set() if self.loss.uses_ranks else {"ranks"}
        return {name: it for name, it in super().as_config().items() if name not in unused}
