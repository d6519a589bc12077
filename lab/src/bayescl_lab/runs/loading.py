""":func:`bayescl_lab.load`: open a run's folder to embed or recommend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.run import Kind

if TYPE_CHECKING:
    from torch import nn


def load(path: str | Path, *, encoder: nn.Module | None = None) -> Any:
    """Load a run to embed images or arrays, or to recommend items.

    The training data and a trainer are not needed.

    Args:
        path: Folder of a run of ``bayescl train images``, ``arrays`` or ``ranking``. The last
            checkpoint is used if the run is still training.
        encoder: Custom network of the run, if it has one.

    Returns:
        A :class:`~bayescl_lab.runs.images.encoder.PreparedEncoder`, which embeds images, an
        :class:`~bayescl_lab.runs.arrays.array_encoder.ArrayEncoder`, which embeds arrays, or a
        :class:`~bayescl_lab.runs.ranking.serving.Recommender`.

    Raises:
        ValueError: if the folder does not hold a trained run.
    """
    path = Path(path)
    kind = Kind.of(path)
    if kind is Kind.RANKING:
        from bayescl_lab.runs.ranking.serving import Recommender

        return Recommender(path)
    from bayescl_lab.runs.encoder_kinds import load_encoder

    return load_encoder(RunFolder(path, kind), encoder)
