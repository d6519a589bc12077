"""Settings stored in and restored from a run folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import ConfigDict, ValidationError
from typing_extensions import Self

from bayescl_lab._fields import complaint


class StoredSettings(ABC):
    """All settings of a run, as in ``config.yaml``."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    may_change: ClassVar[frozenset[str]] = frozenset()
    """Options that may change when a run is resumed; :meth:`continues` says to which values."""

    def continues(self, stored: Self) -> bool:
        """Whether a run with other settings can continue with these; by default it cannot.

        Args:
            stored: the settings that the run has.

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
