"""One run on rows of numbers or signals: train, resume, evaluate, serve."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor, nn

from bayescl_lab._types import Config, Values
from bayescl_lab.arrays.data import load_arrays
from bayescl_lab.arrays.encoders import Conv1dEncoder, MLPEncoder
from bayescl_lab.arrays.views import ArrayViews, RowViews, SignalViews, Standardization
from bayescl_lab.items.parts import Parts
from bayescl_lab.items.simclr import SimCLR
from bayescl_lab.runs.arrays.array_settings import ArraySettings
from bayescl_lab.runs.encoder_run import EncoderRun
from bayescl_lab.runs.folder import RunFolder
from bayescl_lab.runs.item_record import ItemRecord
from bayescl_lab.runs.own_code import own_encoder, own_object
from bayescl_lab.runs.result import Result
from bayescl_lab.runs.run import Kind
from bayescl_lab.runs.weights import part_of_state, read_weights

View = Callable[[Tensor, torch.Generator], Tensor]
"""Function that returns a view of each standardized item."""


class ArrayRun(EncoderRun[ArraySettings]):
    """A run on arrays; see :class:`EncoderRun`.

    Args:
        settings: Settings of the run.
        encoder: Custom network. Default: none.
        view: Custom views. Default: none.
        **given: Further arguments of :class:`EncoderRun`.
    """

    kind = Kind.ARRAYS
    settings_type = ArraySettings
    source_of_domains = (
        "name a column or array with --domain-column, or add an array domains to the .npz file"
    )

    def __init__(
        self,
        settings: ArraySettings,
        encoder: nn.Module | None = None,
        *,
        view: View | None = None,
        **given: Any,
    ) -> None:
        self._view = view
        super().__init__(settings, encoder, **given)

    def load_parts(self, preparation: Values | None, *, split: bool) -> Parts:
        """Load the items of the run, or other items."""
        choice = self.settings.choice_of_items()
        if preparation is not None and not split:
            choice |= {"split": False, "leave_out": None}
        return load_arrays(self.data, **choice)

    def build_model(self, encoder: nn.Module | None) -> SimCLR:
        """Build the module for the training items."""
        settings, train = self.settings, self.parts.train
        views = build_views(settings, Standardization(train), train.item_shape, self._view)
        shape = train.item_shape
        return self.simclr(
            lambda: build_encoder(settings, shape) if encoder is None else encoder,
            views,
            nn.Identity(),
        )

    def preparation(self) -> Config:
        """Describe how items are prepared for the encoder."""
        views: Any = self.model.augmentation
        return {
            "standardize": self.settings.standardize,
            "mean": views.standardization.mean.flatten().tolist(),
        }


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


def build_views(
    settings: ArraySettings,
    standardization: Standardization,
    shape: tuple[int, ...],
    view: View | None = None,
) -> ArrayViews:
    """Build the views named by the settings, or the given ones."""
    if view is not None or ":" in settings.views:
        return OwnViews(standardization, view)
    same: Any = {"noise": settings.noise, "dropout": settings.dropout}
    if len(shape) == 1:
        return RowViews(swap=settings.swap, standardization=standardization, **same)
    crop, scale = settings.crop, settings.scale
    return SignalViews(crop=crop, scale=scale, standardization=standardization, **same)


class OwnViews(ArrayViews):
    """Views by a function of standardized items and a generator."""

    def __init__(self, standardization: Standardization, view: View | None) -> None:
        super().__init__(standardization, noise=0.0, dropout=0.0)
        self._own = view

    def view(self, items: Tensor, generator: torch.Generator) -> Tensor:
        """Call the function, which must keep the shape."""
        if self._own is None:
            raise ValueError("the run uses its own views: name them again with --views")
        views = self._own(items, generator)
        if not isinstance(views, Tensor) or views.shape != items.shape:
            got = list(views.shape) if isinstance(views, Tensor) else type(views).__name__
            raise ValueError(f"views must keep the shape {list(items.shape)}, got {got}")
        return views


class ArrayEncoder(nn.Module):
    """Map raw items to features: standardization and the ``encoder``."""

    def __init__(
        self, encoder: nn.Module, mean: Tensor, deviation: Tensor, item_shape: tuple[int, ...]
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.standardization = Standardization.of(mean, deviation)
        self.item_shape = item_shape
        self.dtype = torch.float32

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


def train_arrays(
    settings: ArraySettings,
    out: Path,
    *,
    encoder: nn.Module | None = None,
    view: View | None = None,
    resume: bool = False,
    **fit_options: Any,
) -> Result:
    """Train on arrays, evaluate the encoder, and write both to a run folder.

    See :func:`~bayescl_lab.runs.images.image_run.train_images`; ``view`` are custom views.
    """
    if ":" in settings.views and view is None:
        raise ValueError(
            f"the run uses its own views: name them again with --views {settings.views}"
        )
    given: Any = {"encoder": encoder, "view": view}
    return ArrayRun.train_in(settings, out, resume=resume, fit_options=fit_options, **given)


def train_with_own_code(settings: ArraySettings, out: Path, **options: Any) -> Result:
    """Train one run with an encoder and views named by the user, possibly custom code."""
    encoder = own_encoder(settings.encoder, settings.seed)
    view = own_object("views", settings.views)
    return train_arrays(settings, out, encoder=encoder, view=view, **options)
