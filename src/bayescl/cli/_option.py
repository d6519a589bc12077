"""One option of a command."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from bayescl._fields import Among, Kind


@dataclass(frozen=True)
class Option:
    """One option of a command.

    Attributes:
        name: as in Python, with underscores.
        kind: what it may be.
        default: its value where nothing is given.
        help: what the docstring says.
        is_word: whether it is a bare word, without its name.
        is_setting: whether it belongs to what a run is.
        wants: what has to follow its name.
    """

    name: str
    kind: Kind
    default: Any
    help: str
    is_word: bool = False
    is_setting: bool = True
    wants: str = "a value"

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is inspect.Parameter.empty

    @property
    def is_switch(self) -> bool:
        """Whether its name alone means true."""
        return self.kind.base is bool

    @property
    def is_list(self) -> bool:
        """Whether it holds several words."""
        return self.kind.base is tuple

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it may be; none where it is no choice."""
        lists = [one.words() for one in self.kind.ranges if isinstance(one, Among)]
        return tuple(lists[0]) if lists else self.kind.choices
