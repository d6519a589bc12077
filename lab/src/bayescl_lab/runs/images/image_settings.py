"""Settings of runs on images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic.dataclasses import dataclass

from bayescl_lab._arrays import unknown_words_of
from bayescl_lab._fields import Count, at_least, between
from bayescl_lab._types import Config
from bayescl_lab.images.table import ImageTable
from bayescl_lab.runs.encoder_settings import EncoderOptions, EncoderSettings
from bayescl_lab.runs.folder import Kind

_COLUMNS = ("file_column", "label_column", "domain_column")


@dataclass(frozen=True)
class ImageOptions(EncoderOptions):
    """Settings of a run on images, except the loss; see also :class:`EncoderOptions`.

    Attributes:
        data: Name of a data set (see "bayescl data list"), a folder of images, or an .npz file with
            an array "images" and optionally "labels" and "domains".
        table: CSV, TSV or Parquet file with labels or domains of a folder's images.
        file_column: Column of files in the table. Default: found by its name (file, path, image,
            ...).
        label_column: Column of labels in the table: numbers or strings, empty if unknown. Default:
            found by its name (label, class, ...), if there is one.
        domain_column: Column of domains in the table. Default: found by its name (domain, batch,
            device, ...), if there is one.
        unknown: Comma-separated strings that mean an unknown label or domain, in a table or an .npz
            file. Default: -1, nan, NA, None, null and similar. Empty values are always unknown.
        folders: Meaning of the folders of images: classes or domains.
        max_train_images: Approximate number of training images, with the same share of each class.
            Default: all.
        image_size: Side in pixels that a folder's images are resized to. Default: chosen if sizes
            differ or exceed 512.
        encoder: "small"; a ResNet of torchvision such as resnet18 or resnet50; or your own,
            my_module:build, where build() returns it.
        width: Number of channels of the small encoder's first block.
        stride: Stride of the first convolution of the small encoder, and of torchvision's ResNets
            on images of at most 64 pixels. 2 takes about a quarter of the time of 1.
        augmentation: Affine noise for small drawings, the simclr recipe for photographs, or auto,
            which uses affine noise for images of one channel and at most 32 pixels.
        strength: Strength of the augmentation. Default: 0.75 for affine noise and 1 for the simclr
            recipe.
        view_size: Side in pixels of the simclr recipe's views. Default: the size of the images.
        precision: float32, or bfloat16 by autocast.
        channels_last: Use PyTorch's channels-last memory format.
        captured: Record augmentation and training step as one CUDA graph (simclr recipe, one GPU).
        linear_protocol: Training of the linear probe: on cached features (fast), or on views of all
            training images (augmented).

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
    max_train_images: Annotated[int, at_least(2)] | None = None
    image_size: Count | None = None
    encoder: str = "small"
    width: Count = 32
    stride: Count = 1
    augmentation: Literal["auto", "affine", "simclr"] = "auto"
    strength: Annotated[float, between(0.0, 5.0)] | None = None
    view_size: Count | None = None
    precision: Literal["float32", "bfloat16"] = "float32"
    channels_last: bool = False
    captured: bool = False
    linear_protocol: Literal["fast", "augmented"] = "fast"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.table is not None:  # to resume from another directory
            object.__setattr__(self, "table", str(Path(self.table).resolve()))
        elif given := [name for name in _COLUMNS if getattr(self, name) is not None]:
            raise ValueError(f"{given[0]} needs --table")


@dataclass(frozen=True)
class ImageSettings(ImageOptions, EncoderSettings):
    """All settings of a run on images: :class:`ImageOptions` and the loss."""

    kind: ClassVar[Kind] = Kind.IMAGES

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
        }
