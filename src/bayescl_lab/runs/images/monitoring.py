"""What is measured on the current encoder: embeddings of views, and pairs that attract.

Measurements depend only on weights, seed and epoch. They do not change weights, statistics of batch
normalisation or generators, so a resumed run continues exactly.
"""

from __future__ import annotations

import torch

from bayescl.axes import Float, Tensor
from bayescl.diagnostics import diagnose, in_eval_mode, score_candidates
from bayescl.losses import LatentClassContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import ImageStore

PAIR_IMAGES = 256
"""Number of images whose pairs are inspected after each epoch."""
_IMAGES_AT_ONCE = 512


def pair_metrics(model: SimCLR, images: ImageStore, *, seed: int, epoch: int) -> dict[str, float]:
    """Precision and recall of the pairs that attract, for a row of ``metrics.csv``.

    Labels are used only to evaluate: nothing here affects the loss, its memory or a generator.
    There is no precision if no pair attracts, and nothing without latent classes or labels.
    """
    loss = model.loss
    if not isinstance(loss, LatentClassContrastiveLoss) or not images.is_labelled:
        return {}
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.ESTIMATES, epoch, 9))
    drawn = images.subset(torch.randperm(len(images), generator=generator)[:PAIR_IMAGES])
    views = embedded_views(model, drawn, derived_seed(seed, Purpose.ESTIMATES, epoch, 10), epoch)
    pairs = diagnose([score_candidates(loss, *views, labels=drawn.labels)]).confident
    if pairs is None:
        return {"pair_recall": 0.0}
    metrics = {"pair_precision": pairs.precision, "pair_recall": pairs.recall}
    return {name: value for name, value in metrics.items() if value is not None}


@torch.no_grad()
def embedded_views(
    model: SimCLR, images: ImageStore, seed: int, epoch: int
) -> tuple[Float[Tensor, "images dim"], Float[Tensor, "images dim"]]:
    """Embeddings of two augmented views of each image, in float32.

    Views depend only on seed and epoch. The model is in ``eval()`` mode meanwhile.
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
