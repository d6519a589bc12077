"""Published data sets: what to download, and where to put it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

DATA_VARIABLE = "BAYESCL_DATA"
"""The environment variable that names the folder of data sets."""


@dataclass(frozen=True)
class RemoteFile:
    """A published file that anybody can check.

    Attributes:
        url: where it is.
        filename: what it is called here.
        size: how many bytes it has.
        checksum: ``md5:`` or ``sha256:`` and the hexadecimal digest, as its publisher states it.
    """

    url: str
    filename: str
    size: int
    checksum: str


@dataclass(frozen=True)
class DataSource:
    """A published data set: source, size and terms of use.

    Attributes:
        name: what commands call it.
        kind: "images" or "interactions".
        title: what people call it.
        files: what is downloaded; empty where its owner asks people to fetch it by hand.
        terms: the conditions of use, in one line.
        homepage: where its owner describes it.
        instructions: how to use a copy at hand, or to get one where nothing can be downloaded.
    """

    name: str
    kind: str
    title: str
    files: tuple[RemoteFile, ...]
    terms: str
    homepage: str
    instructions: str = ""

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


def data_folder() -> Path:
    """The folder of data sets: ``$BAYESCL_DATA``, or ``data`` where that is not set."""
    return Path(os.environ.get(DATA_VARIABLE) or "data")
