"""``bayescl data``: list and fetch published data sets."""

from __future__ import annotations

from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, TimeRemainingColumn, TransferSpeedColumn

from bayescl_lab._downloads import DATA_VARIABLE, SOURCES, DataSource, data_folder, fetch_source
from bayescl_lab.cli._console import Bar, console, say, table
from bayescl_lab.ranking.catalog import known_folder

_DIGITS = "digits"


def list() -> None:
    """List the published data sets, with size and terms of use."""
    rows = []
    for source in SOURCES.values():
        here = "always" if source.name == _DIGITS else "yes" if is_there(source) else "no"
        by_hand = "with scikit-learn" if source.name == _DIGITS else "by hand"
        size = decimal(source.size) if source.url else by_hand
        rows.append((source.name, source.title, here, size, source.terms))
    head = ("name", "description", "here", "download", "terms")
    shown = table(f"data sets of {data_folder()}", head, rows, words=len(head))
    shown.show_lines = True
    screen = console()
    screen.print(shown)
    screen.print(
        f"The data folder is ${DATA_VARIABLE}, or ./data if it is not set. bayescl data fetch NAME "
        "downloads a data set or explains how to get it."
    )


def fetch(name: str) -> None:
    """Download a data set into the data folder, or explain how to get it.

    The checksum of the download is verified. An interrupted download leaves no files.

    Args:
        name: Name from "bayescl data list".
    """
    if name not in SOURCES:
        raise ValueError(f"there is no data set {name!r}; choose {', '.join(SOURCES)}")
    source = SOURCES[name]
    say(f"{source.title}, {source.homepage}", f"terms: {source.terms}")
    if not source.url:
        say(source.instructions)
        return
    say(f"{decimal(source.size)} to {data_folder() / source.name}")
    if source.kind == "interactions" and known_folder(name):
        say("the data set is already there")
        return
    speeds = DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Bar(source.size, BarColumn(), *speeds) as bar:
        fetch_source(source, progress=lambda done: bar.tell(done, "bytes"))
    say("fetched and verified")


def is_there(source: DataSource) -> bool:
    """Return whether the data folder has a data set, possibly damaged."""
    if source.kind == "interactions":
        return known_folder(source.name) is not None
    files = (data_folder() / source.name).glob("*")
    return any(file.suffix != ".part" for file in files)  # an incomplete download
