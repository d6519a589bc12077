"""Published interactions in the data folder.

Only MovieLens is downloaded automatically. Its archives are verified by the SHA-256 checksums of
GroupLens's files. Users must copy the other data sets themselves, because of terms of use or
because there is no published checksum.
"""

from __future__ import annotations

from pathlib import Path

from bayescl_lab._downloads import SOURCES, data_folder

SPLIT = ("train.txt", "test.txt")
"""Files of a split in LightGCN's format, which is accepted for all published interactions."""


def known_names() -> list[str]:
    """Return the names of published interactions."""
    return [source.name for source in SOURCES.values() if source.kind == "interactions"]


def known_folder(name: str) -> Path | None:
    """Return ``<data>/<name>`` or ``<data>/<name>/<name>``, the first that has the files."""
    for patterns in (SOURCES[name].patterns.split(), SPLIT):
        for folder in (data_folder() / name, data_folder() / name / name):
            if all(any(folder.glob(pattern)) for pattern in patterns):
                return folder
    return None


def required_folder(name: str) -> Path:
    """Return the folder of a known data set; raise ``ValueError`` with instructions if missing."""
    if folder := known_folder(name):
        return folder
    source = SOURCES[name]
    fetch = f"`bayescl data fetch {name}` downloads it, " if source.url else ""
    raise ValueError(f"{name} is not in {data_folder() / name}: {fetch}{source.instructions}")
