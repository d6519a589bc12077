"""``bayescl data fetch``."""

from __future__ import annotations


def command(name: str) -> int:
    """Download a data set into the data folder, or explain how to get it.

    The checksum of a download is verified; one that breaks off leaves nothing.

    Args:
        name: a name from "bayescl data list".
    """
    from bayescl_lab.cli._console import console
    from bayescl_lab.cli._data import fetch, source_of

    fetch(source_of(name), console())
    return 0
