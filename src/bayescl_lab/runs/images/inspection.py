"""``bayescl inspect`` for images: how a run's loss weights its candidates, and how well.

The loss scores batches as in training, with two views of each image, but with the encoder in
``eval()`` mode. Labels are used only to judge. Without labels, the candidates with the smallest and
largest weights can still be inspected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_choice, check_count
from bayescl.diagnostics import (
    ScoredCandidates,
    candidate_weights,
    diagnose,
    extreme_candidates,
    score_candidates,
)
from bayescl.losses import ContrastiveLoss, LatentClassContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import UNLABELLED, ImageStore
from bayescl_lab.runs.images.alpha import embedded_views
from bayescl_lab.runs.images.candidates_figure import CandidateRow, candidates_figure
from bayescl_lab.runs.images.components import (
    Component,
    coarsest_components,
    components_figure,
)
from bayescl_lab.runs.images.run import ImageRun
from bayescl_lab.runs.inspection import (
    Inspection,
    latent_classes_found,
    telling_apart,
    weighed_by,
    write_inspection,
)
from bayescl_lab.runs.losses import LOSSES

PARTS = ("train", "evaluation")

Views = tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch dim"]]
"""Embeddings of two views of the images of a batch."""


def inspect_images(
    path: Path,
    *,
    part: str = "train",
    images: int = 1024,
    anchors: int = 6,
    shown: int = 6,
    anchor_images: Sequence[int] = (),
    seed: int = 0,
    data: str | None = None,
    encoder: nn.Module | None = None,
) -> Inspection:
    """Inspect the last checkpoint of a run on images, finished or not.

    It writes ``inspection.json``, ``inspection-weights.png``, ``inspection-candidates.png`` and,
    with labels, ``inspection-reliability.png`` to the run's folder; for a loss that has found
    latent classes also ``inspection-components.png``.

    Args:
        path: the run folder.
        part: "train" for the training images, or "evaluation" for the evaluation images.
        images: largest number of images to score, in whole batches of the run's size.
        anchors: number of images to show with their candidates.
        shown: number of candidates to show for each, at each end.
        anchor_images: numbers of the images to show; default: random ones.
        seed: seed for drawing images and their views.
        data: other images to inspect; default: the run's own.
        encoder: the run's custom network, if it has one.

    Returns:
        Figures and files.

    Raises:
        ValueError: if the folder does not hold a run on images with a checkpoint, or a number is
            out of range.
    """
    check_choice("part", part, PARTS)
    for name, value, least in (("images", images, 2), ("anchors", anchors, 1), ("shown", shown, 1)):
        check_count(name, value, least)
    check_count("seed", seed, 0)
    folder, run, epochs = ImageRun.kept(path, data=data, encoder=encoder)
    settings = run.settings
    run.model.to(run.device)
    loss: Any = run.model.loss
    loss.gather = False
    store = run.parts.train if part == "train" else run.parts.evaluation
    if store is None:
        raise ValueError(f"the images of {path} have no evaluation part: ask for train")

    rows = drawn_batches(store, settings.batch_size, images, anchor_images, seed)
    views = [views_of(run.model, store.subset(some), seed, step) for step, some in enumerate(rows)]
    batches = [
        _scored(loss, both, store.subset(some)) for both, some in zip(views, rows, strict=True)
    ]
    diagnosis = diagnose(batches)
    first, by_loss = telling_apart(batches[0])
    chosen = torch.arange(min(len(anchor_images) or anchors, len(rows[0])))
    table = _candidate_rows(first, rows[0].cpu(), chosen, shown)
    components = _components(loss, views, rows, store)
    report = {
        "epochs": epochs,
        "of_epochs": settings.epochs,
        "part": part,
        "images": sum(len(some) for some in rows),
        "batches": len(rows),
        "labelled": batches[0].false_negative is not None,
        **diagnosis.figures(),
        "latent_classes": latent_classes_found(loss),
        "components": [component.figures() for component in components],
        "candidates": {
            "weighed_by": weighed_by(settings.loss.loss, by_loss),
            "anchors": [row.figures() for row in table],
        },
        "settings": settings.as_config(),
    }
    title = f"{LOSSES[settings.loss.loss].title} on {settings.data}, {epochs} epochs"
    further = {
        "candidates": candidates_figure(
            store,
            table,
            title=title,
            weighed_by="its own weights" if by_loss else "Bayesian weights",
        )
    }
    if components:
        further["components"] = components_figure(store, components, title=title)
    return write_inspection(folder, diagnosis, report, title=title, further=further)


def drawn_batches(
    store: ImageStore, batch_size: int, images: int, first: Sequence[int], seed: int
) -> list[Int[Tensor, " batch"]]:
    """Rows of whole batches in random order; requested rows come first.

    If only some images have labels, the others are left out, unless too few would remain.
    """
    count = len(store)
    for row in first:
        if not 0 <= row < count:
            raise ValueError(f"anchor_images must lie in [0, {count - 1}], got {row}")
    if len(set(first)) < len(first):
        raise ValueError("anchor_images must not repeat an image")
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.ESTIMATES, 0, 5))
    order = torch.randperm(count, generator=generator)
    labelled = store.labels.cpu()[order] != UNLABELLED
    if int(labelled.sum()) >= min(batch_size, count):
        order = order[labelled]
    wanted = torch.tensor(list(first), dtype=torch.int64)
    order = torch.cat([wanted, order[~torch.isin(order, wanted)]])
    size = min(batch_size, len(order))
    batches = max(1, min(images, len(order)) // size)
    return list(order[: batches * size].split(size))


def scored_batch(model: SimCLR, store: ImageStore, seed: int, step: int) -> ScoredCandidates:
    """One batch as a model's loss sees it, with the truth if every image has a label."""
    loss: Any = model.loss
    return _scored(loss, views_of(model, store, seed, step), store)


def views_of(model: SimCLR, store: ImageStore, seed: int, step: int) -> Views:
    """Embeddings of two views of each image of a batch."""
    return embedded_views(model, store, derived_seed(seed, Purpose.ESTIMATES, step, 6), 0)


def _scored(loss: ContrastiveLoss, views: Views, store: ImageStore) -> ScoredCandidates:
    """A batch's views as a loss sees them."""
    labels = store.labels if store.is_labelled else None
    scored = score_candidates(loss, *views, labels=labels)
    # The oracle's weights need labels; without labels they would be those of InfoNCE.
    return replace(scored, sees_labels=scored.sees_labels and labels is not None)


def _components(
    loss: ContrastiveLoss,
    views: Sequence[Views],
    rows: Sequence[Int[Tensor, " batch"]],
    store: ImageStore,
) -> list[Component]:
    """The components of all inspected images; none if the loss has not found any."""
    classes = loss.memory.classes if isinstance(loss, LatentClassContrastiveLoss) else None
    if classes is None:
        return []
    images = torch.cat(list(rows)).cpu()
    some = store.subset(images)
    first, second = (torch.cat([both[view] for both in views]) for view in (0, 1))
    return coarsest_components(
        classes,
        first,
        second,
        images=images,
        labels=some.labels if some.is_labelled else None,
        class_names=some.class_names,
    )


def _candidate_rows(
    scored: ScoredCandidates,
    images: Int[Tensor, " batch"],
    chosen: Int[Tensor, " chosen"],
    shown: int,
) -> list[CandidateRow]:
    """The images with the smallest and largest weights for each chosen anchor."""
    batch = len(images)
    weights = candidate_weights(scored).cpu()
    valid = scored.valid.cpu().clone()
    valid[:, batch:] = False  # the second views of the same images
    fewest = int(valid[chosen].sum(dim=1).min())
    ends = extreme_candidates(
        weights, scored.unlabeled.cpu(), valid, anchors=chosen, count=min(shown, fewest)
    )
    truth = None if scored.false_negative is None else scored.false_negative.cpu()
    rows = []
    for place, anchor in enumerate(chosen.tolist()):
        down, up = ends.down[place], ends.up[place]
        rows.append(
            CandidateRow(
                anchor=int(images[anchor]),
                down=images[down].tolist(),
                up=images[up].tolist(),
                down_weights=weights[anchor, down].tolist(),
                up_weights=weights[anchor, up].tolist(),
                down_false=None if truth is None else truth[anchor, down].tolist(),
                up_false=None if truth is None else truth[anchor, up].tolist(),
            )
        )
    return rows
