"""The encoder of a run on arrays: built from its settings, or loaded with its standardization."""

from __future__ import annotations

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from bayescl_lab.arrays.encoders import Conv1dEncoder, MLPEncoder
from bayescl_lab.arrays.views import standardized
from bayescl_lab.runs.arrays.array_settings import ArraySettings
from bayescl_lab.runs.served_encoder import ServedEncoder, refuse_own_encoder


def build_encoder(settings: ArraySettings, shape: tuple[int, ...]) -> nn.Module:
    """Build the encoder named by the settings for items of a given shape."""
    name = settings.encoder
    refuse_own_encoder(name)
    fitting = "mlp" if len(shape) == 1 else "conv1d"
    if name not in ("auto", fitting):
        raise ValueError(
            f"encoder must be auto, {fitting} for items of shape {list(shape)}, or your own as "
            f"my_module:build, got {name!r}"
        )
    if fitting == "mlp":
        return MLPEncoder(shape[0], settings.width or 256)
    return Conv1dEncoder(shape[0], settings.width or 32)


class ArrayEncoder(ServedEncoder):
    """Map raw items to features: standardization and the ``encoder``."""

    settings_type = ArraySettings
    build = staticmethod(build_encoder)
    input_dtype = torch.float32
    scaling = "augmentation.standardization"

    def checked_items(self, items: ArrayLike | Tensor) -> Tensor:
        """Convert items to float32; raise ``ValueError`` if values are not finite."""
        values = torch.as_tensor(items).float()
        if not values.isfinite().all():
            raise ValueError("items must be finite, got NaN or infinite values")
        return values

    def prepared(self, items: Tensor) -> Tensor:
        """Standardize items."""
        return standardized(items, self.mean, self.deviation)
