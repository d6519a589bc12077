"""``bayescl data``: list, fetch and verify published data sets."""

from __future__ import annotations

from collections.abc import Callable

from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

from bayescl_lab._downloads import (
    DATA_VARIABLE,
    DataSource,
    data_folder,
    fetch_source,
    verify_file,
)
from bayescl_lab.cli._console import Bar, console, say, table
from bayescl_lab.images.catalog import DIGITS
from bayescl_lab.images.catalog import SOURCES as IMAGES
from bayescl_lab.ranking.catalog import SOURCES as INTERACTIONS
from bayescl_lab.ranking.catalog import fetch_interactions, known_folder


def list() -> None:
    """List the data sets that have names, with size and terms of use."""
    rows = [(DIGITS.name, DIGITS.title, "always", "with scikit-learn", DIGITS.terms)]
    for source in (*IMAGES, *INTERACTIONS):
        here = "yes" if is_there(source) else "no"
        size = decimal(source.size) if source.files else "by hand"
        rows.append((source.name, source.title, here, size, source.terms))
    head = ("name", "description", "here", "download", "terms")
    shown = table(f"data sets of {data_folder()}", head, rows, words=len(head))
    shown.show_lines = True
    for column, ratio in zip(shown.columns, (None, 3, None, None, 2), strict=True):
        column.ratio, column.no_wrap = ratio, ratio is None
    screen = console()
    screen.print(shown)
    screen.print(
        f"The data folder is {DATA_VARIABLE}, or ./data if it is not set. bayescl data fetch NAME "
        "downloads a data set or explains how to get it; bayescl data verify NAME checks a copy."
    )


def fetch(name: str) -> None:
    """Download a data set into the data folder, or explain how to get it.

    The checksum of the download is verified. An interrupted download leaves no files.

    Args:
        name: Name from "bayescl data list".
    """
    source = _source(name)
    say(f"{source.title}, {source.homepage}", f"terms: {source.terms}")
    if not source.files:
        say(source.instructions)
        return
    say(f"{decimal(source.size)} to {data_folder() / source.name}")
    of_interactions = source.kind == "interactions"
    get: Callable[..., object] = fetch_interactions if of_interactions else fetch_source
    speeds = DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Bar(source.size, BarColumn(), *speeds) as bar:
        get(source, progress=lambda done: bar.tell(done, "bytes"))
    say("fetched and verified")


def verify(name: str) -> None:
    """Check a data set: the checksum of an archive of images, or a file of interactions.

    Args:
        name: Name from "bayescl data list".
    """
    from bayescl_lab.ranking.datasets import verify_interactions

    source = _source(name)
    if source.kind == "interactions":
        say(*verify_interactions(name))
        return
    for file in source.files:
        path = data_folder() / name / file.filename
        verify_file(path, file.checksum)
        say(f"{path} is the published file (its checksum matches)")


def is_there(source: DataSource) -> bool:
    """Return whether the data folder has a data set, possibly damaged."""
    if source.kind == "interactions":
        return known_folder(source.name) is not None
    files = (data_folder() / source.name).glob("*")
    return any(file.suffix != ".part" for file in files)  # an incomplete download


def _source(name: str) -> DataSource:
    """Return the source of a data set; raise ``ValueError`` if the name is unknown."""
    if name == DIGITS.name:
        raise ValueError(f"{name} come with scikit-learn: there is nothing to fetch or verify")
    sources = {source.name: source for source in (*IMAGES, *INTERACTIONS)}
    if name not in sources:
        raise ValueError(f"no data set is called {name!r}; known are {', '.join(sources)}")
    return sources[name]
