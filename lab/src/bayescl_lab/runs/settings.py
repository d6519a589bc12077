"""Settings of runs, stored in the run's folder, and devices."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import torch
from pydantic import ConfigDict, ValidationError
from pydantic.dataclasses import dataclass
from typing_extensions import Self

from bayescl_lab._fields import Count, CountOr0, format_error
from bayescl_lab._types import Config, Values
from bayescl_lab.runs.folder import Kind

if TYPE_CHECKING:
    from bayescl_lab.runs.losses import LossSettings

Device = Literal["auto", "cpu", "cuda"]
"""Names of devices. "auto" is a GPU if there is one."""


class StoredSettings:
    """All settings of a run, as in ``config.yaml``; subclasses are dataclasses."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    parts: ClassVar[Mapping[str, Callable[[Config], object]]] = {}
    """Functions that take nested settings out of plain values, by field."""
    epochs: int

    def as_config(self) -> Config:
        """Return the settings as plain values."""
        config: Config = {}
        for field in fields(self):  # type: ignore[arg-type]  # subclasses are dataclasses
            value = getattr(self, field.name)
            config |= value.as_config() if field.name in self.parts else {field.name: value}
        return config

    @classmethod
    def from_config(cls, config: Values) -> Self:
        """Create settings from the result of :meth:`as_config`, with defaults for missing ones."""
        values = dict(config)
        try:
            parts = {name: take(values) for name, take in cls.parts.items()}
            return cls(**parts, **values)
        except ValidationError as error:
            raise ValueError(format_error(error)) from None
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"the stored settings are damaged: {error}") from None

    def with_values(self, values: Values) -> Self:
        """Replace values. Names that are not settings of the run belong to its loss."""
        own = {one.name for one in fields(self)} & values.keys()  # type: ignore[arg-type]
        changes = {name: values[name] for name in own}
        if others := {name: value for name, value in values.items() if name not in own}:
            loss: LossSettings = self.loss  # type: ignore[attr-defined]
            changes["loss"] = replace(loss, hyperparameters={**loss.hyperparameters, **others})
        return replace(self, **changes)  # type: ignore[type-var]


@dataclass(frozen=True)
class TrainedSettings(StoredSettings):
    """Settings of training that encoders and recommenders have in common.

    Attributes:
        evaluate_on: Split to evaluate on. The "validation" split is for choosing settings and is
            excluded from training.
        init: Run folder with initial weights of the encoder and the projection head, or
            (recommenders) of the users and items in both runs. Default: random weights.
        seed: Seed of weights, order, and views or candidates.
        device: Device for training. auto is a GPU if there is one.
        devices: Number of devices per node, with one process each.
        num_nodes: Number of nodes. Start the command on each node with torchrun.
    """

    kind: ClassVar[Kind]
    evaluate_on: Literal["test", "validation"] = "test"
    init: str | None = None
    seed: CountOr0 = 0
    device: Device = "auto"
    devices: Count = 1
    num_nodes: Count = 1

    def __post_init__(self) -> None:
        if self.init is not None:  # absolute, so the run can be resumed from another directory
            object.__setattr__(self, "init", str(Path(self.init).resolve()))
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device must be auto or cpu if torch finds no GPU, got 'cuda'")

    def with_method(self, name: str) -> Self:
        """Return the settings with a method of a comparison and its default hyper-parameters."""
        raise NotImplementedError

    @property
    def num_processes(self) -> int:
        """Number of processes that train together, one per device, on all nodes."""
        return self.devices * self.num_nodes

    def this_process(self) -> ProcessRank:
        """Return the ranks of this process.

        Raises:
            ValueError: if torchrun started a different number of processes than the settings need.
        """
        started = os.environ.get("WORLD_SIZE", "1")
        if "TORCHELASTIC_RUN_ID" in os.environ and int(started) != self.num_processes:
            raise ValueError(
                f"devices times num_nodes must be {started}, the number of processes that torchrun "
                f"started, got {self.devices} times {self.num_nodes}"
            )
        return ProcessRank(0, 0) if self.num_processes == 1 else process_rank(self.devices)

    def torch_device(self, number: int = 0) -> torch.device:
        """Return the run's device on this machine; ``number`` selects among several GPUs."""
        if self.device == "cpu" or not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", number) if self.devices > 1 else torch.device("cuda")


class ProcessRank(NamedTuple):
    """Ranks of a process among all processes and on its node. Rank 0 writes the run folder."""

    rank: int
    local_rank: int


def process_rank(devices: int = 1) -> ProcessRank:
    """Return the ranks of this process, given the number of devices per node."""
    if devices * int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return ProcessRank(0, 0)
    local = int(os.environ.get("LOCAL_RANK", "0"))
    node = int(os.environ.get("GROUP_RANK", os.environ.get("NODE_RANK", "0")))
    return ProcessRank(int(os.environ.get("RANK", str(node * devices + local))), local)
