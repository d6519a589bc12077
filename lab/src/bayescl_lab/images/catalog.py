"""Published image data sets: location, size and terms of use."""

from __future__ import annotations

import csv
from importlib.resources import files

from bayescl_lab._downloads import DataSource, RemoteFile

DIGITS = DataSource(
    "digits",
    "images",
    "handwritten digits: 1,797 drawings of 8 pixels, 10 classes",
    (),
    terms="CC BY 4.0; cite Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, 1998",
    homepage="https://archive.ics.uci.edu/dataset/80",
)


def _source(name: str, title: str, url: str, size: str, md5: str, *texts: str) -> DataSource:
    """Return a data set of one archive."""
    file = RemoteFile(url, url.rpartition("/")[2], int(size), f"md5:{md5}")
    return DataSource(name, "images", title, (file,), *texts)


_ROWS = files(__package__).joinpath("catalog.csv").read_text(encoding="utf-8").splitlines()
SOURCES = tuple(_source(*row) for row in csv.reader(_ROWS[1:]))
"""Image data sets that can be fetched."""
