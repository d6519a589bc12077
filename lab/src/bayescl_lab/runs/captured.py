"""Views and network of a training step as one CUDA graph.

A step launches hundreds of kernels. On a slow host, launching them can take longer than computing
them. A graph launches all of them at once. The loss is computed eagerly between the graphs of the
forward and the backward pass, so any loss can be used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor, nn

from bayescl_lab.images.augmentation_recipe import SimCLRAugmentation
from bayescl_lab.images.pixels import Pixels
from bayescl_lab.items.simclr import SimCLR

Embeddings = tuple[Tensor, ...]


class CapturedStep:
    """Compute :meth:`SimCLR.embed` with one CUDA graph, which the first call captures.

    If capturing fails, steps are computed eagerly with a warning. All batches must have the same
    shape. The model must stay on its GPU.

    Args:
        model: Model with a :class:`SimCLRAugmentation`.
    """

    def __init__(self, model: SimCLR) -> None:
        self._model = model
        self._augmentation = cast(SimCLRAugmentation, model.augmentation)
        self._step: Callable[..., Embeddings] | None = None

    def __call__(self, images: Pixels, step: int, with_plain: bool) -> Embeddings:
        """Compute embeddings of both views of a step and, with ``with_plain``, of the images."""
        seeds = self._model.view_seeds((1, 2), step)
        rows = self._augmentation.parameter_rows(images, seeds)
        if self._step is None:
            self._step = self._captured(images, rows, with_plain)
        return self._step(images, rows)

    def _captured(
        self, images: Pixels, rows: Tensor, with_plain: bool
    ) -> Callable[..., Embeddings]:
        """Return the step as a graph, or unchanged if capturing fails."""
        step = _Step(self._model, self._augmentation, with_plain)
        buffers = [(buffer, buffer.clone()) for buffer in self._model.buffers()]
        kind = images.device.type
        precision = torch.get_autocast_dtype(kind)
        enabled = torch.is_autocast_enabled(kind)
        stream = torch.cuda.current_stream() if images.is_cuda else None
        graph: Callable[..., Embeddings] = step
        # The warm-up runs on another stream, of which PyTorch would warn in every run.
        quiet = getattr(torch.autograd.graph, "set_warn_on_accumulate_grad_stream_mismatch", None)
        if quiet is not None:
            quiet(False)
        try:
            # A graph must not use weights that autocast has converted and kept outside of it.
            with torch.autocast(kind, precision, enabled=enabled, cache_enabled=False):
                graph = torch.cuda.make_graphed_callables(  # type: ignore[assignment]
                    step, (images.clone(), rows.clone()), allow_unused_input=True
                )
        except Exception as error:  # training can continue without a graph after any error
            reason = str(error).partition("\n")[0]
            logging.getLogger(__name__).warning(
                "training continues without a CUDA graph: %s", reason
            )
            if stream is not None:  # a failed capture leaves its own stream behind
                torch.cuda.set_stream(stream)
        finally:
            with torch.no_grad():  # passes before the capture updated the running statistics
                for buffer, value in buffers:
                    buffer.copy_(value)
        return graph


class _Step(nn.Module):
    """The captured part of a step. Its only parameters are the network's."""

    def __init__(self, model: SimCLR, augmentation: SimCLRAugmentation, with_plain: bool) -> None:
        super().__init__()
        self.encoder, self.projection_head = model.encoder, model.projection_head
        # In a tuple, so they are not registered as submodules.
        self._captured = model, augmentation
        self._with_plain = with_plain

    def forward(self, images: Pixels, rows: Tensor) -> Embeddings:
        """Compute embeddings of the views, given their parameters, and of the images if needed."""
        model, augmentation = self._captured
        views = augmentation.apply_rows(images, rows)
        return model.embed_views(views, images if self._with_plain else None)
