"""The encoder of a run on arrays: built from its settings, or loaded with its standardization.

This module does not import Lightning.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from bayescl_lab.arrays.encoders import Conv1dEncoder, MLPEncoder
from bayescl_lab.arrays.views import Standardization
from bayescl_lab.runs.arrays.array_settings import ArraySettings
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.item_record import ItemRecord
from bayescl_lab.runs.weights import part_of_state, read_weights


def build_encoder(settings: ArraySettings, shape: tuple[int, ...]) -> nn.Module:
    """Build the encoder named by the settings for items of a given shape."""
    name = settings.encoder
    if ":" in name:
        raise ValueError(
            f"the run uses its own encoder: name it again with --encoder {name}, or pass encoder= "
            "in Python"
        )
    fitting = "mlp" if len(shape) == 1 else "conv1d"
    if name not in ("auto", fitting):
        raise ValueError(
            f"encoder must be auto, {fitting} for items of shape {list(shape)}, or your own as "
            f"my_module:build, got {name!r}"
        )
    if fitting == "mlp":
        return MLPEncoder(shape[0], settings.width or 256)
    return Conv1dEncoder(shape[0], settings.width or 32)


class ArrayEncoder(nn.Module):
    """Map raw items to features: standardization and the ``encoder``."""

    input_dtype = torch.float32

    def __init__(
        self, encoder: nn.Module, mean: Tensor, deviation: Tensor, item_shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.standardization = Standardization.of(mean, deviation)
        self.item_shape = item_shape

    def forward(self, items: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch features"]:
        """Compute features of raw items."""
        features: Tensor = self.encoder(self.standardization(items))
        return features

    @torch.no_grad()
    def embed(
        self, items: Tensor | NDArray[np.generic], *, batch_size: int = 1024
    ) -> Float[Tensor, "items features"]:
        """Compute features of items, standardized as in training.

        Raises:
            ValueError: if items have another shape than in training, or values are not finite.
        """
        values = torch.as_tensor(items).float()
        if tuple(values.shape[1:]) != self.item_shape:
            raise ValueError(
                f"items must have shape {list(self.item_shape)} each, as in training, "
                f"got {list(values.shape[1:])}"
            )
        if not values.isfinite().all():
            raise ValueError("items must be finite, got NaN or infinite values")
        return torch.cat([self(some) for some in values.split(batch_size)])


def load_encoder(folder: RunFolder, encoder: nn.Module | None = None) -> ArrayEncoder:
    """Load the encoder of a run on arrays to the CPU, in ``eval()`` mode.

    Raises:
        ValueError: if there is no checkpoint yet, or the weights belong to another network.
    """
    preparation = ItemRecord.read(folder).preparation
    shape = tuple(map(int, preparation["item_shape"]))
    state = read_weights(folder)
    if encoder is None:
        settings = ArraySettings.from_config({**folder.config(), "device": "cpu"})
        encoder = build_encoder(settings, shape)
    try:
        encoder.load_state_dict(part_of_state(state, "encoder"))
        scaling = part_of_state(state, "augmentation.standardization")
        mean, deviation = scaling["mean"], scaling["deviation"]
    except (RuntimeError, KeyError):
        raise ValueError(
            f"the weights of {folder.path} do not match the encoder in its settings"
        ) from None
    return ArrayEncoder(encoder, mean, deviation, shape).eval()
