"""``bayescl data fetch``."""

from __future__ import annotations


def command(name: str) -> int:
    """Download a data set into the data folder, or say how to get it.

    An interrupted download goes on where it stopped; its checksum is verified.

    Args:
        name: a name from "bayescl data list".
    """
    from bayescl._downloads import data_folder, fetch_source
    from bayescl.cli._console import console
    from bayescl.cli._data import ByteBar, in_bytes, source_of
    from bayescl.recsys.local_copies import fetch_interactions

    source = source_of(name)
    screen = console()
    screen.print(f"{source.title}, {source.homepage}")
    screen.print(f"terms: {source.terms}")
    if not source.files:
        screen.print(source.instructions)
        return 0
    screen.print(f"{in_bytes(source.size)} to {data_folder() / name}")
    with ByteBar(source.size) as bar:
        if source.kind == "interactions":
            fetch_interactions(source, progress=bar.update)
        else:
            fetch_source(source, progress=bar.update)
    screen.print("fetched and verified")
    return 0
