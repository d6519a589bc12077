"""Embeddings of a run on images: two views of each image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from bayescl.axes import Float, Tensor
from bayescl.diagnostics import in_eval_mode
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import UNLABELED, ImageStore
from bayescl_lab.inspect.files import EmbeddingArrays
from bayescl_lab.runs.images.run import ImageRun

_IMAGES_AT_ONCE = 512


def image_arrays(
    path: Path,
    *,
    images: int = 1024,
    seed: int = 0,
    data: str | None = None,
    encoder: nn.Module | None = None,
) -> tuple[EmbeddingArrays, dict[str, Any]]:
    """Embed random images of a run with its last checkpoint. The run need not be finished.

    Args:
        path: Run folder.
        images: Largest number of images. Images with a label are preferred.
        seed: Seed for drawing images and their views.
        data: Other images to inspect. Default: the training images of the run.
        encoder: Custom network of the run, if it has one.

    Returns:
        Two views with labels and domains, and the temperature and batch size of the run.

    Raises:
        ValueError: if the folder does not hold a run on images with a checkpoint.
    """
    _, run, _ = ImageRun.reopen(path, data=data, encoder=encoder)
    run.model.to(run.device)
    settings, store = run.settings, run.parts.train
    loss: Any = run.model.loss
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.ESTIMATES, 0, 5))
    order = torch.randperm(len(store), generator=generator)
    is_labeled = store.labels.cpu()[order] != UNLABELED
    rows = order[is_labeled.long().argsort(descending=True, stable=True)][:images]
    chosen = store.subset(rows)
    first, second = (view.cpu().numpy() for view in embedded_views(run.model, chosen, seed, 0))
    # A code that all images share has no information.
    labels, domains = (
        None if codes is None or len(codes.unique()) < 2 else codes.cpu().numpy()
        for codes in (chosen.labels, chosen.domains)
    )
    arrays = EmbeddingArrays(
        first,
        second,
        labels,
        domains=domains,
        measured="head of two augmented views of each image, as the loss sees them",
    )
    options = {"temperature": float(loss.temperature), "batch_size": settings.batch_size}
    return arrays, options


@torch.no_grad()
def embedded_views(
    model: SimCLR, images: ImageStore, seed: int, epoch: int
) -> tuple[Float[Tensor, "images dim"], Float[Tensor, "images dim"]]:
    """Embed two augmented views of each image, in float32.

    Views depend only on seed and epoch. The model is in ``eval()`` mode during this call.
    """
    views: tuple[list[Tensor], list[Tensor]] = ([], [])
    chunks = torch.arange(len(images), device=images.device).split(_IMAGES_AT_ONCE)
    with in_eval_mode(model):
        for step, rows in enumerate(chunks):
            pixels = images.take(rows)
            for view, parts in enumerate(views, start=1):
                position = derived_seed(seed, Purpose.ESTIMATES, epoch, view, step)
                drawn = model.augmentation(pixels, seed=position)
                parts.append(model.projection_head(model.encode_views(drawn)).float())
    return torch.cat(views[0]), torch.cat(views[1])
