"""Settings stored in and restored from a run folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from pydantic import ConfigDict, ValidationError
from typing_extensions import Self

from bayescl_lab._fields import complaint
from bayescl_lab.runs.processes import Device, Processes, check_device, chosen_device


class StoredSettings(ABC):
    """All settings of a run, as in ``config.yaml``."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    may_change: ClassVar[frozenset[str]] = frozenset()
    """Options that may change when a run is resumed; :meth:`continues` says to which values."""

    def continues(self, stored: Self) -> bool:
        """Whether a run with other settings, ``stored``, can continue with these.

        Raises:
            ValueError: if it cannot, for a reason that needs an explanation.
        """
        del stored
        return False

    @abstractmethod
    def as_config(self) -> dict[str, Any]:
        """The settings as plain values."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The settings that :meth:`as_config` stored; missing ones get defaults.

        Raises:
            ValueError: if a setting is missing, unknown or out of range.
        """
        values = dict(config)
        try:
            return cls(**cls._taken_from(values), **values)
        except ValidationError as error:
            raise ValueError(complaint(error)) from None
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"the stored settings are damaged: {error}") from None

    @classmethod
    def _taken_from(cls, _: dict[str, Any], /) -> dict[str, Any]:
        """Remove values that are stored in another form; return them by field."""
        return {}


def check_start(options: Any) -> None:
    """Refuse a GPU if there is none, and make the folder to start from absolute."""
    if options.init is not None:  # to resume from another directory
        object.__setattr__(options, "init", str(Path(options.init).resolve()))
    check_device(options.device)


class TrainedSettings(StoredSettings):
    """Settings of a run that trains: what images and interactions have in common."""

    device: Device
    init: str | None
    epochs: int
    if TYPE_CHECKING:

        @property
        def processes(self) -> Processes:
            """The devices that train together."""

    @property
    @abstractmethod
    def decays(self) -> bool:
        """Whether the learning rate falls to 0 at the last epoch."""

    def torch_device(self, number: int = 0) -> torch.device:
        """The run's device on this machine; with several GPUs, the one with the given number."""
        return chosen_device(self.device, number if self.processes.devices > 1 else None)

    def continues(self, stored: Self) -> bool:
        """Whether only what may change differs, and the epochs only grow."""
        free = {name: getattr(stored, name) for name in self.may_change - {"epochs"}}
        here: Any = replace(self, **free)  # type: ignore[type-var]
        if here.as_config() == stored.as_config():
            return True
        if replace(here, epochs=stored.epochs).as_config() != stored.as_config():
            return False
        if self.decays:
            raise ValueError(
                f"epochs must stay {stored.epochs}, since the run's learning rate falls to 0 at "
                f"that epoch, got {self.epochs}: start a new run from its weights with --init"
            )
        if self.epochs < stored.epochs:
            raise ValueError(
                f"epochs of a resumed run must be at least {stored.epochs}, got {self.epochs}"
            )
        return True
