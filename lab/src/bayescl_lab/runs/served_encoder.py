"""The encoder of a finished run with its preparation. This module does not import Lightning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from numpy.typing import ArrayLike
from torch import Tensor, nn
from typing_extensions import Self

from bayescl_lab._fields import Count, checked
from bayescl_lab.runs.encoder_settings import EncoderSettings
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.item_record import ItemRecord
from bayescl_lab.runs.weights import part_of_state, read_checkpoint


def refuse_own_encoder(name: str) -> None:
    """Raise ``ValueError`` if a run's encoder is custom: the stored name must not execute code.

    A custom encoder is built only if the user names it; see :mod:`bayescl_lab.runs.own_code`.
    """
    if ":" in name:
        raise ValueError(
            f"the run has a custom encoder: pass --encoder {name}, or encoder= in Python"
        )


class ServedEncoder(nn.Module):
    """Prepare raw items as in training, and map them to features by the ``encoder``.

    Subclasses define ``checked_items`` and ``prepared``.

    Attributes:
        settings_type: Settings of the run.
        build: Function that builds the network from settings, for items of a shape.
        input_dtype: Type of raw items.
        scaling: Module of a run that holds ``mean`` and ``deviation``.
        item_shape: Shape of an item.
    """

    settings_type: type[EncoderSettings]
    build: Callable[[Any, tuple[int, ...]], nn.Module]
    input_dtype: torch.dtype
    scaling: str

    mean: Float[Tensor, "..."]
    deviation: Float[Tensor, "..."]

    def __init__(
        self, encoder: nn.Module, mean: Tensor, deviation: Tensor, item_shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.item_shape = item_shape

    @classmethod
    def load(cls, folder: RunFolder, encoder: nn.Module | None = None) -> Self:
        """Load the encoder of a run to the CPU, in ``eval()`` mode.

        Args:
            folder: Folder of the run.
            encoder: Custom network of the run. Default: built from the settings.

        Raises:
            ValueError: if there is no checkpoint yet, or the weights belong to another network.
        """
        shape = ItemRecord.read(folder).item_shape
        state = read_checkpoint(folder)["state_dict"]
        if encoder is None:
            settings = cls.settings_type.from_config({**folder.config(), "device": "cpu"})
            encoder = cls.build(settings, shape)
        try:
            encoder.load_state_dict(part_of_state(state, "encoder"))
            scaling = part_of_state(state, cls.scaling)
            return cls(encoder, scaling["mean"], scaling["deviation"], shape).eval()
        except (RuntimeError, KeyError):
            raise ValueError(
                f"the weights of {folder.path} do not match the encoder in its settings"
            ) from None

    def checked_items(self, items: ArrayLike | Tensor) -> Tensor:
        """Convert items to a tensor; raise ``ValueError`` on invalid values."""
        raise NotImplementedError

    def prepared(self, items: Tensor) -> Tensor:
        """Prepare items for the encoder."""
        raise NotImplementedError

    def forward(self, items: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch features"]:
        """Compute features of raw items."""
        features: Tensor = self.encoder(self.prepared(items))
        return features

    @torch.no_grad()
    def embed(
        self, items: ArrayLike | Tensor, *, batch_size: int = 256
    ) -> Float[Tensor, "items features"]:
        """Compute features of items, prepared as in training.

        Args:
            items: Items of the shape in training. Images are ``[images, channels, height, width]``
                or, with one channel, ``[images, height, width]``, as integers from 0 to 255 or
                floating-point numbers from 0 to 1.
            batch_size: Number of items per forward call. Default: 256.

        Returns:
            Features of the items, float32.

        Raises:
            ValueError: if the items have the wrong shape or values.
        """
        checked("batch_size", batch_size, Count)
        values = self.checked_items(items)
        if tuple(values.shape[1:]) != self.item_shape:
            raise ValueError(
                f"items must have shape {list(self.item_shape)} each, as in training, "
                f"got {list(values.shape[1:])}"
            )
        return torch.cat([self(some).float() for some in values.split(batch_size)])
