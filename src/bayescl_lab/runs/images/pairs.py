"""Precision and recall of the pairs that a run's loss takes for one class."""

from __future__ import annotations

import torch

from bayescl.diagnostics import confident_pairs, score_candidates
from bayescl.losses import LatentClassContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import ImageStore
from bayescl_lab.runs.images.alpha import embedded_views

SIZE = 256
"""Number of images inspected after each epoch."""


def pair_columns(model: SimCLR, images: ImageStore, *, seed: int, epoch: int) -> dict[str, float]:
    """Return precision and recall of the pairs that attract, for a row of ``metrics.csv``.

    Labels are used only to judge: nothing here affects the loss, its memory or a generator.

    Args:
        model: the model after the epoch.
        images: training images; some of them are drawn.
        seed: the seed of the run.
        epoch: the epoch that ended.

    Returns:
        ``pair_precision``, if any pair attracts, and ``pair_recall``; neither for a loss without
        latent classes or images without labels.
    """
    loss = model.loss
    if not isinstance(loss, LatentClassContrastiveLoss) or not images.is_labelled:
        return {}
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.ESTIMATES, epoch, 9))
    some = images.subset(torch.randperm(len(images), generator=generator)[:SIZE])
    views = embedded_views(model, some, derived_seed(seed, Purpose.ESTIMATES, epoch, 10), epoch)
    scored = score_candidates(loss, *views, labels=some.labels)
    if scored.same_class is None:
        return {"pair_recall": 0.0}
    found = confident_pairs(
        scored.same_class[scored.valid], scored.truth[scored.valid], threshold=loss.threshold
    )
    columns = {"pair_precision": found.precision, "pair_recall": found.recall}
    return {name: value for name, value in columns.items() if value is not None}
