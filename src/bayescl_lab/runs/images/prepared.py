"""A run's encoder with the preparation of its images, without Lightning."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import UInt8
from numpy.typing import NDArray
from torch import nn

from bayescl.axes import Float, Tensor
from bayescl.checks import check_count
from bayescl_lab.images.store import store_from_arrays
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.images.encoder import build_encoder
from bayescl_lab.runs.images.memory import ImageMemory
from bayescl_lab.runs.images.settings import ImageSettings
from bayescl_lab.runs.weights import read_weights


class PreparedEncoder(nn.Module):
    """Map raw images to features: division by 255, normalisation, encoder.

    Args:
        encoder: maps normalised images to features.
        mean: mean of each channel, in [0, 1].
        deviation: standard deviation of each channel.
        image_shape: channels, height and width of the training images.
    """

    mean: Float[Tensor, "1 channels 1 1"]
    deviation: Float[Tensor, "1 channels 1 1"]

    def __init__(
        self,
        encoder: nn.Module,
        mean: Float[Tensor, "1 channels 1 1"],
        deviation: Float[Tensor, "1 channels 1 1"],
        image_shape: tuple[int, int, int],
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", deviation)
        self.image_shape = image_shape

    def forward(
        self, images: UInt8[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch features"]:
        """Features of images with values from 0 to 255."""
        features: Tensor = self.encoder((images.float() / 255 - self.mean) / self.deviation)
        return features

    @torch.no_grad()
    def embed(
        self, images: Tensor | NDArray[np.generic], *, batch_size: int = 256
    ) -> Float[Tensor, "images features"]:
        """Features of any number of images; see :meth:`.LoadedRun.embed`."""
        check_count("batch_size", batch_size, 1)
        array = images.detach().cpu().numpy() if isinstance(images, Tensor) else images
        store = store_from_arrays(array, np.zeros(len(array), dtype=np.int64), name="images")
        if store.image_shape != self.image_shape:
            raise ValueError(
                f"images must have shape {list(self.image_shape)} each, as in training, "
                f"got {list(store.image_shape)}"
            )
        chunks = torch.arange(len(store)).split(batch_size)
        return torch.cat([self(store.take(rows)).float() for rows in chunks])


def load_encoder(folder: RunFolder, encoder: nn.Module | None = None) -> PreparedEncoder:
    """The encoder of a run, on the CPU and in ``eval()`` mode.

    Args:
        folder: the folder of a run on images.
        encoder: the run's custom network, if it has one.

    Raises:
        ValueError: if the folder does not record its images' shape, there is no usable checkpoint
            yet, or the weights belong to another network.
    """
    memory = ImageMemory.read(folder)
    if memory is None:
        raise ValueError(
            f"{folder.path} is from before runs recorded their data: use 'bayescl embed' where the "
            "data still exist"
        )
    channels, height, width = map(int, memory.preparation["image_shape"])
    state = read_weights(folder)
    if encoder is None:
        settings = ImageSettings.from_config({**folder.config(), "device": "cpu"})
        encoder = build_encoder(settings, (channels, height, width))
    own = {
        name.removeprefix("encoder."): value
        for name, value in state.items()
        if name.startswith("encoder.")
    }
    try:
        encoder.load_state_dict(own)
        mean, deviation = state["normalization.mean"], state["normalization.deviation"]
    except (RuntimeError, KeyError):
        raise ValueError(
            f"the weights of {folder.path} do not match the encoder in its settings"
        ) from None
    return PreparedEncoder(encoder, mean, deviation, (channels, height, width)).eval()
