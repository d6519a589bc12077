"""Settings of runs on rows of numbers and signals."""

from __future__ import annotations

from dataclasses import KW_ONLY
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic.dataclasses import dataclass

from bayescl_lab._arrays import unknown_words_of
from bayescl_lab._fields import Count, NonNegative, between
from bayescl_lab._types import Config
from bayescl_lab.runs.encoder_settings import EncoderOptions, EncoderSettings
from bayescl_lab.runs.folder import Kind


@dataclass(frozen=True)
class ArrayOptions(EncoderOptions):
    """Settings of a run on arrays, except the loss; see also :class:`EncoderOptions`.

    Attributes:
        data: File of items: .npz with an array "x" and optionally "labels", "domains", "is_train"
            and "ids"; .npy; CSV, TSV or Parquet with numeric columns as features; or .h5ad. "x"
            has shape [items, features] for rows or [items, channels, length] for signals.
        label_column: Column or array of labels: numbers or strings, empty if unknown. Default:
            found by its name (label, class, target, ...), if there is one.
        domain_column: Column or array of domains, such as experimental batches, devices or
            subjects. Default: found by its name (domain, batch, plate, subject, ...), if there is
            one.
        unknown: Comma-separated strings that mean an unknown label or domain. Default: -1, nan, NA,
            None, null and similar. Empty values are always unknown.
        standardize: Standardization of features or channels: over the training items (train), or
            within each domain first (domain).
        leave_out: Number of domains to leave out of training and to evaluate on. The seed
            determines which: consecutive seeds leave out different domains, until each domain has
            been left out once. Default: none; 30 % of the items of each class are the test split.
        encoder: mlp for rows, conv1d for signals, auto for the one that fits, or your own,
            my_module:build, where build() returns it.
        width: Width of the encoder's first layer. Default: 256 for mlp, 32 for conv1d.
        views: auto, or your own, my_module:view, where view(items, generator) returns a view of
            each standardized item.
        noise: Standard deviation of Gaussian noise in a view, in standard deviations of the data.
            Default: 0.8 for rows, 0.3 for signals.
        dropout: Probability that a feature of a row, or a channel of a signal, is set to its mean.
        swap: Probability that a feature of a row is replaced by its value in another row.
        crop: Smallest share of a signal that a crop keeps. Crops are resized to the whole length.
        scale: Standard deviation of the random factor of each row, or of each channel of a signal.
            Default: 0.4 for rows, 0.2 for signals.
        epochs: Number of passes over the training items.
        domains_per_batch: Number of domains in a batch with --domains, so that each anchor has
            enough candidates of its domain.
    """

    epochs: Count = 50
    domains_per_batch: Count | None = 4
    _: KW_ONLY
    data: str
    label_column: str | None = None
    domain_column: str | None = None
    unknown: str | None = None
    standardize: Literal["train", "domain"] = "train"
    leave_out: Count | None = None
    encoder: str = "auto"
    width: Count | None = None
    views: str = "auto"
    noise: NonNegative | None = None
    dropout: Annotated[float, between(0.0, 0.99)] = 0.0
    swap: Annotated[float, between(0.0, 1.0)] = 0.0
    crop: Annotated[float, between(0.01, 1.0)] = 0.5
    scale: NonNegative | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "data", str(Path(self.data).expanduser()))


@dataclass(frozen=True)
class ArraySettings(ArrayOptions, EncoderSettings):
    """All settings of a run on arrays: :class:`ArrayOptions` and the loss."""

    kind: ClassVar[Kind] = Kind.ARRAYS

    def choice_of_items(self) -> Config:
        """Return the arguments of :func:`~bayescl_lab.arrays.data.load_arrays`."""
        same = ("label_column", "domain_column", "standardize", "leave_out", "evaluate_on")
        chosen = {name: getattr(self, name) for name in (*same, "classes", "labels_per_class")}
        return {**chosen, "unknown": unknown_words_of(self.unknown), "fold": self.seed}
