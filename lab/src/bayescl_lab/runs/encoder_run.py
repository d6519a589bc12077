"""One run that trains an encoder on two views of each item: train, resume, evaluate."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from bayescl_lab._arrays import read_array
from bayescl_lab._fields import check_choice
from bayescl_lab._randomness import Purpose, derived_seed, seeded
from bayescl_lab._types import Config, Values
from bayescl_lab.items.augmentation import Augmentation
from bayescl_lab.items.batches import DomainOrder, EpochOrder, StoreBatches
from bayescl_lab.items.networks import ProjectionHead, feature_dim_of
from bayescl_lab.items.parts import Parts, announce
from bayescl_lab.items.probes import few_label_draws, run_probes
from bayescl_lab.items.simclr import SimCLR
from bayescl_lab.items.store import UNLABELED, ItemStore
from bayescl_lab.runs.encoder_settings import EncoderSettings
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.item_record import ItemRecord
from bayescl_lab.runs.losses import LOSSES
from bayescl_lab.runs.result import Result, Row, Score
from bayescl_lab.runs.run import TrainedRun
from bayescl_lab.runs.weights import part_of_state, read_checkpoint

AnyEncoderSettings = TypeVar("AnyEncoderSettings", bound=EncoderSettings)


class EncoderRun(TrainedRun[AnyEncoderSettings]):
    """A run of an encoder with its items, model and batches.

    Args:
        settings: Settings of the run.
        encoder: Custom network that replaces the encoder in the settings. Default: none.
        data: Location of the items. Default: the location in the settings.
        record: Record of items in the run's folder, which the items must match.
        item_shape: Shape of the run's items, if ``data`` are not the items of the run. Default:
            none.
        split: Whether to split items that are not the run's own into training and test items.
    """

    model: SimCLR
    source_of_domains: ClassVar[str]
    """Advice on where domains may come from."""

    def __init__(
        self,
        settings: AnyEncoderSettings,
        encoder: nn.Module | None = None,
        *,
        data: str | None = None,
        record: ItemRecord | None = None,
        item_shape: tuple[int, ...] | None = None,
        split: bool = True,
    ) -> None:
        super().__init__(settings)
        self.data = settings.where if data is None else data
        parts = self.load_parts(item_shape, split=split)
        if record is not None:
            record.refuse_changes(self.record_of(parts))
        shape = parts.train.item_shape
        if item_shape not in (None, shape):
            raise ValueError(
                f"{self.data}: {parts.train.noun} must have shape {[*item_shape]} as in training, "
                f"got {list(shape)}"
            )
        self.parts: Parts = parts.to(self.device)
        self.remarks = [*parts.remarks]
        if self.batch_size < settings.batch_size:
            count = f"the {len(parts.train)} training {parts.train.noun}"
            self.remarks.append(f"batch_size is reduced to {self.batch_size}, half of {count}")
        self.model = self.build_model(encoder)

    @abstractmethod
    def load_parts(self, item_shape: tuple[int, ...] | None, *, split: bool) -> Parts:
        """Load training and evaluation items; see the arguments of the class."""

    @abstractmethod
    def build_model(self, encoder: nn.Module | None) -> SimCLR:
        """Build the module to train, with weights drawn from the seed."""

    def is_published(self) -> bool:
        """Return whether the data are a published data set that was verified."""
        return False

    def record_of(self, parts: Parts) -> ItemRecord:
        """Return location, ids, labels and checksums of the items of ``parts``."""
        return ItemRecord.of(self.data, parts, is_published=self.is_published())

    def simclr(
        self,
        encoder: Callable[[], nn.Module],
        augmentation: Augmentation,
        normalization: nn.Module,
        **options: Any,
    ) -> SimCLR:
        """Build a :class:`SimCLR` with ``options``, given a function that builds its encoder."""
        settings, shape = self.settings, self.parts.train.item_shape
        with seeded(derived_seed(settings.seed, Purpose.WEIGHTS)):
            network = encoder()
            feature_dim = feature_dim_of(network, shape)
            head = ProjectionHead(feature_dim, settings.hidden_dim, settings.embedding_dim)
        of_loss: Config = {"ranks": settings.ranks} if settings.loss.takes_ranks else {}
        if not settings.loss.loss_class.needs_labels:  # SupCon's target comes from labels only
            of_loss["positive_share"] = settings.positive_share
        loss = settings.loss.build(gather=settings.num_processes > 1, **of_loss)
        steps = max(1, len(self.parts.train) // self.batch_size)
        return SimCLR(
            encoder=network,
            projection_head=head,
            loss=loss,
            augmentation=augmentation,
            normalization=normalization,
            embeds_items=settings.teacher == "items" and settings.positive_share < 1,
            learning_rate=settings.lr,
            weight_decay=settings.weight_decay,
            total_steps=settings.epochs * steps,
            seed=settings.seed,
            **options,
        )

    @property
    def batch_size(self) -> int:
        """Items per step: as in the settings or, if there are fewer items, half of the items."""
        size, count = self.settings.batch_size, len(self.parts.train)
        ranks = self.settings.num_processes
        return size if size <= count else max(2, count // 2 // ranks * ranks)

    @cached_property
    def known(self) -> dict[str, Tensor]:
        """Metadata of each training item, by the names of the loss's arguments."""
        settings, train = self.settings, self.parts.train
        loss = LOSSES[settings.loss.loss]
        unknown = int((train.labels == UNLABELED).sum())
        if loss.needs_labels and unknown:
            raise ValueError(
                f"the {loss.title} loss needs the class of every item, but "
                f"{unknown} of {len(train)} {train.noun} of {train.name} have none"
            )
        known = _known_labels(self.parts, settings)
        if settings.domains:
            if train.domains is None:
                raise ValueError(f"{self.data} has no domains: {self.source_of_domains}")
            known["domains"] = train.domains
        if settings.teacher not in ("items", "none") and settings.positive_share < 1:
            known["teacher"] = _teacher(Path(str(settings.teacher)), train)
        return known

    @cached_property
    def batches(self) -> StoreBatches:
        """Batches of the training items."""
        train, settings, known = self.parts.train, self.settings, self.known
        shared = len(train), self.batch_size, settings.seed, self.rank, settings.num_processes
        order = EpochOrder(*shared)
        few, domains = settings.domains_per_batch, known.get("domains")
        if few is not None and domains is not None and len(domains.unique()) > few:
            order = DomainOrder(*shared, domains=domains.cpu(), domains_per_batch=few)
        return StoreBatches(train, order, known)

    def part(self, name: str) -> ItemStore:
        """Return the items of a part, "train" or "evaluation"; raise if there are none."""
        check_choice("part", name, ("train", "evaluation"))
        store = self.parts.train if name == "train" else self.parts.evaluation
        if store is None:
            raise ValueError(f"{self.data} has no evaluation split, only train")
        return store

    @classmethod
    def restore(cls, folder: RunFolder, data: str | None = None) -> Config:
        """Return location and record of the run's items, or of other items to evaluate on."""
        if data is not None:
            return {"data": data, "item_shape": ItemRecord.read(folder).item_shape}
        if not folder.has_record:
            return {}
        record = ItemRecord.read(folder)
        if Path(record.data).is_absolute() and not Path(record.data).exists():
            missing = f"the data of the run are missing from {record.data}"
            raise ValueError(f"{missing}: give their location with --data")
        return {"data": record.data, "record": record}

    def write_record(self, folder: RunFolder) -> None:
        """Record the items and their location in the run's folder."""
        record = self.record_of(self.parts)
        record.write(folder)
        self.remarks += record.write_copies(folder)
        for remark in self.remarks:
            announce(remark)

    def start_from(self, path: Path) -> None:
        """Load the encoder and projection head of another run with the same networks."""
        state = read_checkpoint(RunFolder.open(path, self.kind))["state_dict"]
        try:
            for name in ("encoder", "projection_head"):
                self.model.get_submodule(name).load_state_dict(part_of_state(state, name))
        except RuntimeError:
            raise ValueError(
                f"init: the encoder or projection head of {path} does not match these settings"
            ) from None

    def evaluate(self) -> Row:
        """Evaluate the current encoder with all probes."""
        self.model.to(self.device)
        protocol = getattr(self.settings, "linear_protocol", "fast")  # a setting of images
        found = run_probes(self.model, self.parts, linear_protocol=protocol)
        probes = [name for name in found if not name.endswith("_spread") and "recall_" not in name]
        scores = {name: Score(found[name], found.get(f"{name}_spread")) for name in probes}
        names = {f"recall_{label}": name for label, name in enumerate(self.parts.train.class_names)}
        recalls = {names[key]: Score(found[key]) for key in names if key in found}
        return Row(scores, recalls=recalls)

    def result(self, row: Row, remarks: Sequence[str] = (), part: str | None = None) -> Result:
        """Return the result with the row of this run."""
        settings, part = self.settings, part or self.settings.evaluate_on
        evaluated = {part: len(self.parts.labeled()[1])} if self.parts.has_labels else {}
        return Result(
            settings.where,
            part,
            {settings.method: row},
            1,
            encoder=vars(settings)["encoder"],
            sizes={"train": len(self.parts.train), **evaluated},
            settings=settings.as_config(),
            remarks=remarks,
        )

    def results(self) -> Result:
        """Return all probes and remarks."""
        labels = self.known.get("labels")
        row, remarks = self.evaluate() if self.parts.has_labels else Row({}), [*self.remarks]
        if labels is not None:
            count = f"{int((labels != UNLABELED).sum())} of {len(labels)}"
            remarks.append(f"the loss was given the labels of {count} {self.parts.train.noun}")
        return self.result(row, remarks)

    @classmethod
    def relocated(cls, settings: Any, out: Path, given: Values) -> Any:
        """Record a new location of the items of a run to resume; return the run's settings."""
        folder = RunFolder.open(out, cls.kind)
        moved, before = settings.data, str(folder.config().get("data", settings.data))
        settings = replace(settings, data=before)
        if moved != before:
            record = ItemRecord.read(folder)
            cls(settings, **given, data=moved, record=record).write_record(folder)
        return settings

    def evaluation(self, part: str | None) -> Result:
        """Evaluate the current encoder; raise ``ValueError`` if there are no labels."""
        return self.result(self.evaluate(), part=part)


def _known_labels(parts: Parts, settings: EncoderSettings) -> dict[str, Int[Tensor, " items"]]:
    """Return the labels for the loss, -1 for the other items."""
    per_class = settings.labels_per_class
    if per_class is None or LOSSES[settings.loss.loss].needs_labels:
        return {}
    train = parts.train
    train.labeled()  # raises if there are no labels
    for label, name in enumerate(train.class_names):
        if (count := int((train.labels == label).sum())) < per_class:
            raise ValueError(
                "labels_per_class must be at most the number of labeled training items of each "
                f"class, got {per_class}: class {name} has {count}"
            )
    (rows,) = few_label_draws(
        train.labels,
        num_classes=len(train.class_names),
        labels_per_class=per_class,
        draws=1,
        seed=derived_seed(settings.seed, Purpose.LABELS),
    )
    known = torch.full_like(train.labels, UNLABELED)
    known[rows] = train.labels[rows]
    return {"labels": known}


def _teacher(path: Path, train: ItemStore) -> Float[Tensor, "items dim"]:
    """Read embeddings of the training items from a file."""
    if path.suffix != ".npy":
        raise ValueError(f"teacher must be an .npy file, got {path}")
    embeddings = read_array(path, dimensions=[2])
    if len(embeddings) != len(train):
        raise ValueError(
            f"teacher must have one embedding per training item, "
            f"got {len(embeddings)} in {path} for {len(train)} {train.noun}"
        )
    values = torch.from_numpy(np.asarray(embeddings, np.float32).copy())
    if not values.isfinite().all():
        raise ValueError(f"teacher must be finite, got NaN or infinite values in {path}")
    return values
