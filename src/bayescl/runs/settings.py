"""Settings that go into a run folder and come back from there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from typing_extensions import Self


class StoredSettings(ABC):
    """Everything that shapes a run, as ``config.yaml`` holds it."""

    may_change: ClassVar[frozenset[str]] = frozenset()
    """Options that a resumed run may be given anew; :meth:`continues` says with which values."""

    def continues(self, stored: Self) -> bool:
        """Whether a run with other settings can go on under these; by default none can.

        Args:
            stored: the settings that the run has.

        Raises:
            ValueError: if it cannot for a reason that needs words.
        """
        del stored
        return False

    @abstractmethod
    def as_config(self) -> dict[str, Any]:
        """The settings as plain values."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """The settings that :meth:`as_config` wrote down; those that it lacks have defaults.

        Raises:
            ValueError: if a setting is missing, unknown or out of range.
        """
        values = dict(config)
        try:
            return cls(**cls._taken_from(values), **values)
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"the stored settings are damaged: {error}") from None

    @classmethod
    def _taken_from(cls, _: dict[str, Any], /) -> dict[str, Any]:
        """Take what is written down in another form out of plain values; return it by fields."""
        return {}
