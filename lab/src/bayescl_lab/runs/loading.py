"""Train and load runs by their kind. Modules of other kinds are not imported."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bayescl_lab.runs.folder import Kind, RunFolder
from bayescl_lab.runs.own_code import own_code_of

if TYPE_CHECKING:
    from torch import nn

    from bayescl_lab.runs.encoder_run import EncoderRun
    from bayescl_lab.runs.result import Result


def encoder_run(kind: str) -> type[EncoderRun[Any]]:
    """Return ``ArrayRun`` for the kind "train arrays", otherwise ``ImageRun``."""
    if kind == Kind.ARRAYS:
        from bayescl_lab.runs.arrays.array_run import ArrayRun

        return ArrayRun
    from bayescl_lab.runs.images.image_run import ImageRun

    return ImageRun


def train_encoder(
    settings: Any, out: Path, *, own_code: Collection[str] = (), **options: Any
) -> Result:
    """Train on images or arrays; see :meth:`.TrainedRun.train`.

    Of the settings "encoder" and "views", only those in ``own_code`` may name custom code.
    """
    given = own_code_of(settings, own_code)
    return encoder_run(settings.kind).train(settings, out, **given, **options)


def load_encoder(folder: RunFolder, encoder: nn.Module | None = None) -> Any:
    """Load the encoder of a run, which maps raw items to features; see ``ServedEncoder.load``."""
    if folder.kind == Kind.ARRAYS:
        from bayescl_lab.runs.arrays.array_encoder import ArrayEncoder

        return ArrayEncoder.load(folder, encoder)
    from bayescl_lab.runs.images.encoder import PreparedEncoder

    return PreparedEncoder.load(folder, encoder)


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
    return load_encoder(RunFolder(path, kind), encoder)
