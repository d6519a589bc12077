"""Settings of runs that train an encoder on two views of each item."""

from __future__ import annotations

from dataclasses import field, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

from pydantic.dataclasses import dataclass
from typing_extensions import Self

from bayescl_lab._fields import Count, NonNegative, Positive, Share, at_least
from bayescl_lab._types import Config
from bayescl_lab.runs.losses import DOMAINS, LOSSES, TEACHER, LossSettings, loss_of
from bayescl_lab.runs.settings import TrainedSettings


@dataclass(frozen=True)
class EncoderOptions(TrainedSettings):
    """Settings that all runs of encoders have, except the loss; see also :class:`TrainedSettings`.

    Attributes:
        epochs: Number of passes over the training items.
        batch_size: Number of items per step, over all devices. Each item gives two views. With
            fewer training items, a batch has half of them.
        lr: Peak learning rate. It decreases to 0 by a cosine schedule.
        weight_decay: Weight decay of Adam.
        hidden_dim: Width of the projection head's hidden layer.
        embedding_dim: Length of an embedding.
        classes: Comma-separated names of the classes to use. Default: all.
        labels_per_class: Number of labeled training items per class for the loss, drawn by the
            seed. The losses oracle and supervised use all labels. Default: none.
        domains: Use only candidates of the item's own domain, such as its experimental batch,
            device, subject or source. Domains come from an array "domains" or a column; see
            --domain-column.
        domains_per_batch: Number of domains in a batch with --domains, so that each anchor has
            enough candidates of its domain. Default: batches are drawn from all domains.
        ranks: Kind of rank in the Bayesian loss: mid counts equal logits and the candidate itself
            by half, upper counts them fully, as Liu et al. (2024) do.
        teacher: Embeddings that determine the target of a loss with a teacher: "items", the
            network's own embeddings of the unaugmented items, or an .npy file with one embedding
            per training item, such as the output of "embed". "none" disables the teacher. Default:
            items for a loss with the suffix "+teacher", else none.
        positive_share: Share of the target for the other view. The teacher, or known labels,
            determine the shares of the other items. 1 turns soft targets off.

    Raises:
        ValueError: if a value is out of its range.
    """

    epochs: Count = 30
    batch_size: Annotated[int, at_least(2)] = 256
    lr: Positive = 1e-3
    weight_decay: NonNegative = 1e-6
    hidden_dim: Count = 256
    embedding_dim: Count = 128
    classes: str | None = None
    labels_per_class: Count | None = None
    domains: bool = False
    domains_per_batch: Count | None = None
    ranks: Literal["mid", "upper"] = "mid"
    teacher: str | None = None
    positive_share: Share = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch_size % self.num_processes:
            raise ValueError(
                f"batch_size must be divisible by the number of devices, "
                f"got {self.batch_size} for {self.num_processes} devices"
            )
        if self.teacher not in (None, "items", "none"):
            object.__setattr__(self, "teacher", str(Path(str(self.teacher)).resolve()))


@dataclass(frozen=True)
class EncoderSettings(EncoderOptions):
    """All settings of a run of an encoder: :class:`EncoderOptions` and the loss.

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
    def where(self) -> str:
        """Location of the items."""
        return str(vars(self)["data"])

    @property
    def method(self) -> str:
        """Name of the loss, with suffixes for domains and a teacher."""
        is_used = self.teacher != "none" and self.positive_share < 1
        return f"{self.loss.loss}{DOMAINS * self.domains}{TEACHER * is_used}"

    def with_method(self, name: str) -> Self:
        """Return the settings with a method of a comparison and its default hyper-parameters."""
        teacher, domains = self.teacher, self.domains or DOMAINS in name
        if not name.endswith(TEACHER):
            teacher = "none"
        elif teacher == "none":
            teacher = "items"
        return replace(self, loss=LossSettings(loss_of(name)), teacher=teacher, domains=domains)

    def as_config(self) -> Config:
        """Return the settings as plain values, without settings that have no effect."""
        unused = set() if self.loss.takes_ranks else {"ranks"}
        if self.teacher == "none" and self.labels_per_class is None:
            unused.add("positive_share")
        return {name: it for name, it in super().as_config().items() if name not in unused}
