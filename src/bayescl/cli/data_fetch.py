"""``bayescl data fetch``."""

from __future__ import annotations

from collections.abc import Callable


def command(name: str) -> int:
    """Download a data set into the data folder, or explain how to get it.

    An interrupted download continues where it stopped; its checksum is verified.

    Args:
        name: a name from "bayescl data list".
    """
    from bayescl._downloads import data_folder, fetch_source
    from bayescl.cli._console import ByteBar, console
    from bayescl.cli._data import in_bytes, source_of
    from bayescl.recsys.local_copies import fetch_interactions

    source = source_of(name)
    screen = console()
    screen.print(f"{source.title}, {source.homepage}")
    screen.print(f"terms: {source.terms}")
    if not source.files:
        screen.print(source.instructions)
        return 0
    screen.print(f"{in_bytes(source.size)} to {data_folder() / name}")
    fetch: Callable[..., object] = (
        fetch_interactions if source.kind == "interactions" else fetch_source
    )
    with ByteBar(source.size) as bar:
        fetch(source, progress=lambda done, _: bar.update("", done))
    screen.print("fetched and verified")
    return 0
