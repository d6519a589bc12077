"""What is measured on the current encoder: alpha that changes, and pairs that attract.

The current alpha is a hyper-parameter of the loss and so part of every checkpoint. The epoch in
which it was set is part of the state of :class:`~bayescl.integrations.lightning.AlphaCallback`.
Measurements depend only on weights, seed and epoch, and do not change weights, statistics of batch
normalisation or generators, so a resumed run continues exactly.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from bayescl.axes import Float, Tensor
from bayescl.checks import check_count
from bayescl.diagnostics import confident_pairs, in_eval_mode, score_candidates
from bayescl.estimation import LinearRamp, MeasuredAlpha, Reading, label_free_alpha, macro_auc
from bayescl.integrations.lightning import AlphaCallback
from bayescl.losses import LatentClassContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import UNLABELLED, ImageStore
from bayescl_lab.runs.images.settings import ImageSettings

PAIR_IMAGES = 256
"""Number of images whose pairs are inspected after each epoch."""
_IMAGES_AT_ONCE = 512


def alpha_callback(settings: ImageSettings, images: ImageStore) -> AlphaCallback | None:
    """The callback for a run's settings and training images; None if alpha is fixed."""
    if settings.alpha_schedule == "fixed":
        return None
    if settings.alpha_schedule == "ramp":
        return AlphaCallback(LinearRamp.over(settings.epochs, settings.loss.resolved()["alpha"]))
    options: dict[str, Any] = {"reading": settings.alpha_reading, "seed": settings.seed}
    source = partial(unlabelled_alpha, images=images, **options)
    if settings.alpha_schedule == "measured":
        part = labelled_part(images, per_class=settings.alpha_labels, seed=settings.seed)
        source = partial(labelled_alpha, images=part, **options)
    return AlphaCallback(source, every=settings.alpha_every)


def labelled_alpha(
    model: Any, epoch: int, *, images: ImageStore, reading: Reading = "model", seed: int = 0
) -> float:
    """Alpha measured as macro-AUC on a small labelled part of the training images.

    Views are compared as in training: one view of each image against the other view of all others.
    """
    view_1, view_2 = embedded_views(model, images, seed, epoch)
    labels, normalize = images.labels, model.loss.normalize
    own = torch.arange(len(labels), device=labels.device)
    auc = macro_auc(view_1, labels, view_2, labels, own=own, normalize=normalize)
    return MeasuredAlpha(auc, reading).alpha


def unlabelled_alpha(
    model: Any,
    epoch: int,
    *,
    images: ImageStore,
    size: int = 512,
    reading: Reading = "model",
    seed: int = 0,
) -> float:
    """Alpha estimated from two views of some images, without labels, at the loss's ``tau_plus``.

    It is biased upwards, since two views of an image are more alike than two images of a class; see
    :mod:`bayescl.estimation.label_free`.
    """
    drawn = _drawn(images, size, derived_seed(seed, Purpose.ESTIMATES, epoch, 3))
    loss: Any = model.loss
    scored = score_candidates(loss, *embedded_views(model, drawn, seed, epoch))
    sides = scored.positive, scored.unlabeled
    options: Any = {"reading": reading, "valid": scored.valid}
    return label_free_alpha(*sides, tau_plus=loss.tau_plus, **options).alpha


def pair_columns(model: SimCLR, images: ImageStore, *, seed: int, epoch: int) -> dict[str, float]:
    """Precision and recall of the pairs that attract, for a row of ``metrics.csv``.

    Labels are used only to evaluate: nothing here affects the loss, its memory or a generator.
    There is no precision if no pair attracts, and nothing without latent classes or labels.
    """
    loss = model.loss
    if not isinstance(loss, LatentClassContrastiveLoss) or not images.is_labelled:
        return {}
    drawn = _drawn(images, PAIR_IMAGES, derived_seed(seed, Purpose.ESTIMATES, epoch, 9))
    views = embedded_views(model, drawn, derived_seed(seed, Purpose.ESTIMATES, epoch, 10), epoch)
    scored = score_candidates(loss, *views, labels=drawn.labels)
    if scored.same_class is None:
        return {"pair_recall": 0.0}
    same_class, truth = scored.same_class[scored.valid], scored.truth[scored.valid]
    pairs = confident_pairs(same_class, truth, threshold=loss.threshold)
    columns = {"pair_precision": pairs.precision, "pair_recall": pairs.recall}
    return {name: value for name, value in columns.items() if value is not None}


def labelled_part(images: ImageStore, *, per_class: int = 20, seed: int = 0) -> ImageStore:
    """Draw a few labelled images of every class, at least 2, for measuring alpha.

    They stay among the training images, which the loss sees without labels.

    Raises:
        ValueError: if fewer than two classes have two images.
    """
    check_count("per_class", per_class, 2)
    labels = images.labels.cpu()
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.ESTIMATES, 0, 4))
    order = torch.randperm(len(labels), generator=generator)
    classes = labels[labels != UNLABELLED].unique()
    by_class = [order[labels[order] == label][:per_class] for label in classes]
    rows = [drawn for drawn in by_class if len(drawn) >= 2]
    if len(rows) < 2:
        raise ValueError(
            f"{images.name}: measuring alpha needs two classes with two labelled images each, "
            f"got {len(rows)}"
        )
    return images.subset(torch.cat(rows))


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


def _drawn(images: ImageStore, size: int, seed: int) -> ImageStore:
    """Some images, drawn at random."""
    generator = torch.Generator().manual_seed(seed)
    return images.subset(torch.randperm(len(images), generator=generator)[:size])
