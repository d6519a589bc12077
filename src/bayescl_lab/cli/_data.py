"""Helpers of the commands on data sets: the sources of every kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from bayescl_lab._downloads import DataSource, RemoteFile, data_folder
from bayescl_lab.images.catalog import DIGITS
from bayescl_lab.images.catalog import SOURCES as IMAGES
from bayescl_lab.ranking.catalog import SOURCES as INTERACTIONS
from bayescl_lab.ranking.catalog import known_folder


def sources() -> tuple[DataSource, ...]:
    """All published data sets, images first."""
    return (*IMAGES, *INTERACTIONS)


def source_of(name: str) -> DataSource:
    """The source of that name; a ``ValueError`` if there is none."""
    if name == DIGITS.name:
        raise ValueError(f"{name} come with scikit-learn: there is nothing to fetch or verify")
    for source in sources():
        if source.name == name:
            return source
    known = ", ".join(source.name for source in sources())
    raise ValueError(f"no data set is called {name!r}; known are {known}")


def fetch(source: DataSource, screen: Console) -> None:
    """Download a data set and print its terms, or how to get it."""
    from bayescl_lab._downloads import fetch_source
    from bayescl_lab.cli._console import ByteBar
    from bayescl_lab.ranking.catalog import fetch_interactions

    screen.print(f"{source.title}, {source.homepage}")
    screen.print(f"terms: {source.terms}")
    if not source.files:
        screen.print(source.instructions)
        return
    screen.print(f"{in_bytes(source.size)} to {data_folder() / source.name}")
    download: Callable[..., object] = (
        fetch_interactions if source.kind == "interactions" else fetch_source
    )
    with ByteBar(source.size) as bar:
        download(source, progress=lambda done, _: bar.update("", done))
    screen.print("fetched and verified")


def is_there(source: DataSource) -> bool:
    """Whether the data folder has a data set, whatever its state."""
    if source.kind == "interactions":
        return known_folder(source.name) is not None
    folder = data_folder() / source.name
    begun = ".part"  # of a download
    unpacked = folder.is_dir() and any(file.suffix != begun for file in folder.iterdir())
    return unpacked or any(archive.is_file() for archive, _ in archives(source))


def archives(source: DataSource) -> list[tuple[Path, RemoteFile]]:
    """Places of a data set's files: in its own folder, or beside it."""
    places = (data_folder() / source.name, data_folder())
    return [(place / file.filename, file) for file in source.files for place in places]


def in_bytes(size: int) -> str:
    """A size in a suitable unit.

    Example:
        >>> in_bytes(4_924_029), in_bytes(170_498_071), in_bytes(2_640_397_119)
        ('4.9 MB', '170 MB', '2.6 GB')
    """
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= factor:
            number = size / factor
            return f"{number:.1f} {unit}" if number < 10 else f"{number:.0f} {unit}"
    return f"{size} bytes"
