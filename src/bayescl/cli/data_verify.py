"""``bayescl data verify``."""

from __future__ import annotations


def command(name: str) -> int:
    """Check a data set in the data folder: checksums where known, and whether it can be read.

    Args:
        name: a name from "bayescl data list".
    """
    from bayescl.cli._console import console
    from bayescl.cli._data import source_of
    from bayescl.cli._data_copies import verified_images, verified_interactions

    source = source_of(name)
    lines = verified_images(source) if source.kind == "images" else verified_interactions(source)
    screen = console()
    for line in lines:
        screen.print(line, markup=False)
    return 0
