"""One run on rows of numbers or signals: train, resume, evaluate, serve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from bayescl_lab._types import Config
from bayescl_lab.arrays.data import load_arrays
from bayescl_lab.arrays.views import ArrayViews, RowViews, SignalViews, Standardization
from bayescl_lab.items.parts import Parts
from bayescl_lab.items.simclr import SimCLR
from bayescl_lab.runs.arrays.array_encoder import build_encoder
from bayescl_lab.runs.arrays.array_settings import ArraySettings
from bayescl_lab.runs.encoder_run import EncoderRun
from bayescl_lab.runs.folder import Kind

View = Callable[[Tensor, torch.Generator], Tensor]
"""Function that returns a view of each standardized item."""
USUAL_STRENGTHS = {1: (0.8, 0.4), 2: (0.3, 0.2)}
"""Default noise and scale of views of rows and of signals, by number of dimensions of an item.

Chosen on validation domains (``evaluate_on="validation"``) of gas sensors, blood cells and a
smartwatch.
"""


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
        "name a column or array with --domain-column, or add an array 'domains' to the .npz file"
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

    def load_parts(self, item_shape: tuple[int, ...] | None, *, split: bool) -> Parts:
        """Load the items of the run, or other items."""
        choice = self.settings.choice_of_items()
        if item_shape is not None and not split:
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


def build_views(
    settings: ArraySettings,
    standardization: Standardization,
    shape: tuple[int, ...],
    view: View | None = None,
) -> ArrayViews:
    """Build the views named by the settings, or the given ones."""
    if view is not None or ":" in settings.views:
        return OwnViews(standardization, view)
    noise, scale = USUAL_STRENGTHS[len(shape)]
    same: Config = {
        "standardization": standardization,
        "noise": noise if settings.noise is None else settings.noise,
        "dropout": settings.dropout,
        "scale": scale if settings.scale is None else settings.scale,
    }
    if len(shape) == 1:
        return RowViews(swap=settings.swap, **same)
    return SignalViews(crop=settings.crop, **same)


class OwnViews(ArrayViews):
    """Views by a function of standardized items and a generator."""

    def __init__(self, standardization: Standardization, view: View | None) -> None:
        super().__init__(standardization, noise=0.0, dropout=0.0, scale=0.0)
        self._own = view

    def view(self, items: Tensor, generator: torch.Generator) -> Tensor:
        """Call the function of the user, which must keep the shape of the items."""
        if self._own is None:
            raise ValueError("the run has custom views: name them again with --views")
        views = self._own(items, generator)
        if not isinstance(views, Tensor) or views.shape != items.shape:
            got = list(views.shape) if isinstance(views, Tensor) else type(views).__name__
            raise ValueError(f"views must keep the shape {list(items.shape)}, got {got}")
        return views


train_arrays = ArrayRun.train
"""Train an encoder on arrays; see :meth:`.TrainedRun.train`."""
