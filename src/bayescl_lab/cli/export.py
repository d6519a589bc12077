"""``bayescl export``."""

from __future__ import annotations

from pathlib import Path

from bayescl_lab.cli._console import say
from bayescl_lab.cli._folders import named_encoder


def command(run: str, *, to: str, encoder: str | None = None) -> int:
    """Write a run's model in a form that works without this library.

    An encoder becomes a torch program that maps uint8 images to features; a recommender becomes
    NumPy arrays. model.json in the same folder says how to use it.

    Args:
        run: a run folder of "train ranking" or "train images".
        to: a new folder.
        encoder: my_module:build, as in training, for a run with your own encoder.
    """
    from bayescl_lab.runs.exporting import export_run

    say(*map(str, export_run(Path(run), Path(to), encoder=named_encoder(encoder))))
    return 0
