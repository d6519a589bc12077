"""``bayescl data fetch``."""

from __future__ import annotations


def command(name: str) -> int:
    """Download a data set into the data folder, or explain how to get it.

    An interrupted download continues where it stopped; its checksum is verified.

    Args:
        name: a name from "bayescl data list".
    """
    from bayescl_lab.cli._console import console
    from bayescl_lab.cli._data import fetch, source_of

    fetch(source_of(name), console())
    return 0
