"""Runs of encoders by their kind. Modules of other kinds are not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.run import Kind

if TYPE_CHECKING:
    from torch import nn

    from bayescl_lab.runs.encoder_run import EncoderRun


def encoder_run(kind: Kind) -> type[EncoderRun[Any]]:
    """Return the class of runs on images or arrays."""
    if kind is Kind.ARRAYS:
        from bayescl_lab.runs.arrays.array_run import ArrayRun

        return ArrayRun
    from bayescl_lab.runs.images.image_run import ImageRun

    return ImageRun


def load_encoder(folder: RunFolder, encoder: nn.Module | None = None) -> Any:
    """Load the encoder of a run, which maps raw items to features; see ``ServedEncoder.load``."""
    if folder.kind == Kind.ARRAYS:
        from bayescl_lab.runs.arrays.array_encoder import ArrayEncoder

        return ArrayEncoder.load(folder, encoder)
    from bayescl_lab.runs.images.encoder import PreparedEncoder

    return PreparedEncoder.load(folder, encoder)
