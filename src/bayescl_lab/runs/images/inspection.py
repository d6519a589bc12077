"""``bayescl inspect`` for images: how a run's loss weights its candidates, and how well.

The loss scores batches as in training, with two views of each image, but with the encoder in
``eval()`` mode. Labels are used only to evaluate. Without labels, the candidates with the smallest
and largest weights can still be inspected.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_choice
from bayescl.diagnostics import ScoredCandidates, score_candidates
from bayescl.functional import item_responsibilities
from bayescl.losses import ContrastiveLoss, LatentClassContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import UNLABELLED, ImageStore
from bayescl_lab.runs.advice import advise_on_views
from bayescl_lab.runs.images.alpha import embedded_views
from bayescl_lab.runs.images.figures import SHOWN, candidates_figure, components_figure
from bayescl_lab.runs.images.run import ImageRun
from bayescl_lab.runs.inspection import Inspection, check_sizes, extreme_rows, write_inspection
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
    with labels, ``inspection-reliability.png`` to the run's folder; for a loss that has fitted
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
    check_sizes(seed, images=images, anchors=anchors, shown=shown)
    folder, run, epochs = ImageRun.reopen(path, data=data, encoder=encoder)
    settings = run.settings
    run.model.to(run.device)
    loss: Any = run.model.loss
    loss.gather = False
    store = run.parts.train if part == "train" else run.parts.evaluation
    if store is None:
        raise ValueError(f"the images of {path} have no evaluation part: ask for train")

    rows = drawn_batches(store, settings.batch_size, images, anchor_images, seed)
    views = [views_of(run.model, store.subset(it), seed, step) for step, it in enumerate(rows)]
    batches = [_scored(loss, pair, store.subset(it)) for pair, it in zip(views, rows, strict=True)]
    first, ids, every = batches[0], rows[0].cpu(), torch.cat(rows)
    valid = first.valid.clone()
    valid[:, len(ids) :] = False  # the second views of the same images
    table = extreme_rows(
        first,
        valid,
        [{"anchor": image} for image in ids[: len(anchor_images) or anchors].tolist()],
        shown=shown,
        names=lambda columns: ids[columns].tolist(),
    )
    view_1, view_2 = (torch.cat([pair[view] for pair in views]) for view in (0, 1))
    labels = store.labels.cpu()[every.cpu()].numpy()
    known = labels if labels.max() >= 0 else None
    advice = advise_on_views(
        view_1.cpu().numpy(), view_2.cpu().numpy(), known, float(loss.temperature)
    )
    components = _components(loss, (view_1, view_2), every, store)
    title = f"{LOSSES[settings.loss.loss].title} on {settings.data}, {epochs} epochs"
    own = "its own weights" if first.tells_apart else "Bayesian weights"
    figures = {"candidates": candidates_figure(store, table, title=title, weighed_by=own)}
    if components:
        figures["components"] = components_figure(store, components, title=title)
    about = {
        "part": part,
        "images": len(every),
        "batches": len(rows),
        "labelled": first.false_negative is not None,
        "components": components,
        "advice": advice.figures(),
    }
    return write_inspection(
        folder, run, epochs, batches, table, about=about, title=title, figures=figures
    )


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


@torch.no_grad()
def _components(
    loss: ContrastiveLoss, views: Views, rows: Int[Tensor, " images"], store: ImageStore
) -> list[dict[str, Any]]:
    """Describe the components of the coarsest mixture that a loss fitted, by the inspected images.

    An image belongs to the component with its largest responsibility. The closer it is to the
    component's direction, the more typical it is.

    Returns:
        The components, the largest weight first; none if the loss has not fitted any: the mixing
        ``weight``, the ``size`` in images, and the most ``typical`` images; with labels, the most
        frequent class (``majority``), its ``share``, and which typical images are ``of_majority``.
    """
    classes = loss.memory.classes if isinstance(loss, LatentClassContrastiveLoss) else None
    if classes is None:
        return []
    inspected = store.subset(rows.cpu())
    view_1, view_2 = (view.to(classes.center) for view in views)
    shares, _ = item_responsibilities(view_1, view_2, classes)
    coarsest = min(range(len(classes.sizes)), key=lambda place: classes.sizes[place])
    start = sum(classes.sizes[:coarsest])
    columns = slice(start, start + classes.sizes[coarsest])
    member_of = shares[:, columns].argmax(dim=1)
    # How close an image is to a direction: in the metric of the fit, by the mean of its views.
    mean = F.normalize(F.normalize(view_1, dim=1) + F.normalize(view_2, dim=1), dim=1)
    projected = F.normalize((mean - classes.center) @ classes.transform, dim=1)
    similarity = projected @ classes.mixtures.directions[columns].T
    weights = classes.mixtures.weights[columns]
    components = []
    for component in weights.argsort(descending=True, stable=True).tolist():
        members = (member_of == component).nonzero().squeeze(1)
        nearest = members[similarity[members, component].argsort(descending=True, stable=True)]
        shown, size = nearest[:SHOWN], len(members)
        counts = torch.zeros(1)
        if inspected.is_labelled and size:
            counts = inspected.labels[members].bincount(minlength=len(inspected.class_names))
        labelled, majority = bool(counts.any()), int(counts.argmax())
        of_majority = (inspected.labels[shown] == majority).tolist()
        components.append(
            {
                "weight": float(weights[component]),
                "size": size,
                "typical": rows.cpu()[shown.cpu()].tolist(),
                "majority": inspected.class_names[majority] if labelled else None,
                "share": float(counts[majority]) / size if labelled else None,
                "of_majority": of_majority if labelled else None,
            }
        )
    return components
