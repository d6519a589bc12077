"""Published data sets: sources, and downloads with checksums."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from pydantic.dataclasses import dataclass

DATA_VARIABLE = "BAYESCL_DATA"
"""The environment variable that names the folder of data sets."""

Progress = Callable[[int], object]
"""Function called with the bytes downloaded so far."""

_BLOCK = 1 << 20
_TIMEOUT = 30.0  # seconds without data


@dataclass(frozen=True)
class DataSource:
    """A published data set: source, size and terms of use.

    Attributes:
        name: Name in commands.
        kind: "images" or "interactions".
        title: Name for display.
        url: Address of the archive. Empty if there is no download.
        size: Size of the archive in bytes.
        checksum: ``md5:`` or ``sha256:`` and the hexadecimal digest given by the publisher.
        terms: Conditions of use in one line.
        homepage: Web page of the data set.
        instructions: How to get a copy if there is no download.
        patterns: Patterns of the names of required files of interactions, separated by blanks.
    """

    name: str
    kind: str
    title: str
    url: str
    size: int
    checksum: str
    terms: str
    homepage: str
    instructions: str = ""
    patterns: str = ""

    @property
    def archive(self) -> Path:
        """Path of the archive in the data folder."""
        return data_folder() / self.name / self.url.rpartition("/")[2]


_LINES = files(__package__).joinpath("catalog.csv").read_text(encoding="utf-8").splitlines()
_ROWS: Iterable[Any] = csv.DictReader(_LINES)
SOURCES = {row["name"]: DataSource(**row) for row in _ROWS}
"""Published data sets by name, in the order of tables."""


def data_folder() -> Path:
    """Return the folder of data sets: ``$BAYESCL_DATA``, or ``data`` if it is not set."""
    return Path(os.environ.get(DATA_VARIABLE) or "data")


def fetch_source(source: DataSource, *, progress: Progress = lambda _: None) -> Path:
    """Download, verify and unpack a data set into ``<data folder>/<name>``.

    An archive with the right checksum is not downloaded again. Only verified archives are unpacked.

    Args:
        source: Data set to fetch.
        progress: Function called with the bytes downloaded so far.

    Returns:
        The folder of the data set.

    Raises:
        ValueError: if the source has no URL, the download fails, the checksum differs, or the file
            cannot be written. A failed download is removed.
    """
    if not source.url:
        raise ValueError(f"{source.name} cannot be downloaded: {source.instructions}")
    import pooch  # which imports requests: too slow for commands that do not download
    from requests import RequestException

    archive, done = source.archive, 0

    def update(count: int) -> None:
        nonlocal done
        done = min(done + count, source.size)  # at the end, pooch counts the total once more
        progress(done)

    meter = SimpleNamespace(total=0, update=update, reset=lambda: None, close=lambda: None)
    headers = {"User-Agent": "bayescl", "Accept-Encoding": "identity"}
    unpack = pooch.Unzip if archive.suffix == ".zip" else pooch.Untar
    pooch.get_logger().setLevel("WARNING")
    try:
        pooch.retrieve(
            source.url,
            known_hash=source.checksum,
            fname=archive.name,
            path=archive.parent,
            processor=unpack(extract_dir="."),
            downloader=pooch.HTTPDownloader(meter, _BLOCK, timeout=_TIMEOUT, headers=headers),
        )
    except RequestException as error:
        raise ValueError(f"cannot download {source.url}: {_reason(error)}") from None
    except OSError as error:
        raise ValueError(f"cannot write to {archive.parent}: {error.strerror or error}") from None
    return archive.parent


def _reason(error: BaseException) -> str:
    """Describe a network error by the server's words, or by its first cause."""
    response = getattr(error, "response", None)
    if response is not None:
        return f"{response.status_code} {response.reason}"
    while behind := error.__cause__ or error.__context__:
        error = behind
    return str(getattr(error, "strerror", None) or error or type(error).__name__).lower()
