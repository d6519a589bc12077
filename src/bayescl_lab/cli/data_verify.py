"""``bayescl data verify``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayescl_lab._downloads import DataSource


def command(name: str) -> int:
    """Check that a data set in the data folder can be read and matches known checksums.

    Args:
        name: a name from "bayescl data list".
    """
    from bayescl_lab.cli._console import say
    from bayescl_lab.cli._data import source_of
    from bayescl_lab.ranking.datasets import verify_interactions

    source = source_of(name)
    lines = _verified_images(source) if source.kind == "images" else verify_interactions(name)
    say(*lines)
    return 0


def _verified_images(source: DataSource) -> list[str]:
    """Check the archives of an image data set, or read it if there are none; a line per finding."""
    from bayescl_lab._downloads import verify_file
    from bayescl_lab.cli._data import archives

    found = [(path, file) for path, file in archives(source) if path.is_file()]
    for path, file in found:
        verify_file(path, file.checksum)
    if found:
        return [f"{path} is the published file (its checksum matches)" for path, _ in found]

    from bayescl_lab.images.datasets import load_images

    parts = load_images(source.name)
    test = 0 if parts.evaluation is None else len(parts.evaluation)
    return [
        f"{source.name} can be read: {len(parts.train):,} training images, {test:,} test images; "
        "there is no checksum without an archive"
    ]
