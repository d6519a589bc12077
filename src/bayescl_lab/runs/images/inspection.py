"""``bayescl inspect`` for images: how a run's loss weights its candidates, and how well.

The loss scores batches as in training, with two views of each image, but with the encoder in
``eval()`` mode. Labels are used only to evaluate. Without labels, the candidates with the smallest
and largest weights can still be inspected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.diagnostics import ScoredCandidates, score_candidates
from bayescl.figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR, blank_figure
from bayescl.functional import class_responsibilities
from bayescl.losses import ContrastiveLoss, LatentClassContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import UNLABELLED, ImageStore
from bayescl_lab.runs.advice import advise_on_views
from bayescl_lab.runs.images.monitoring import embedded_views
from bayescl_lab.runs.images.run import ImageRun
from bayescl_lab.runs.inspection import Inspection, Row, Sample, inspect_run
from bayescl_lab.runs.losses import LOSSES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 8
"""Images of each component in the picture."""
MOST = 20
"""Components in the picture, those with the largest weights."""

Views = tuple[Float[Tensor, "batch dim"], Float[Tensor, "batch dim"]]
"""Embeddings of two views of the images of a batch."""


def inspect_images(
    path: Path,
    *,
    part: str = "train",
    images: int = 1024,
    anchors: int = 6,
    shown: int = 6,
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
        seed: seed for drawing images and their views.
        data: other images to inspect; default: the run's own.
        encoder: the run's custom network, if it has one.

    Raises:
        ValueError: if the folder does not hold a run on images with a checkpoint, or the images do
            not have the part.
    """

    def sampler(run: ImageRun, epochs: int) -> Sample:
        settings, store = run.settings, run.part(part)
        loss: Any = run.model.loss
        loss.gather = False
        rows = drawn_batches(store, settings.batch_size, images, seed)
        subsets = enumerate(map(store.subset, rows))
        scored = [scored_batch(run.model, subset, seed, step) for step, subset in subsets]
        batches, views = zip(*scored, strict=True)
        first, ids, every = batches[0], rows[0].cpu(), torch.cat(rows)
        valid = first.valid.clone()
        valid[:, len(ids) :] = False  # the second views of the same images
        view_1, view_2 = map(torch.cat, zip(*views, strict=True))
        labels = store.labels[every]
        known = labels if bool((labels != UNLABELLED).any()) else None
        components = _components(loss, (view_1, view_2), every, store)
        title = f"{LOSSES[settings.loss.loss].title} on {settings.data}, {epochs} epochs"

        def draw(table: Sequence[Row], weights: str) -> dict[str, Figure]:
            drawn = {"candidates": candidates_figure(store, table, title=title, weighed_by=weights)}
            if components:
                drawn["components"] = components_figure(store, components, title=title)
            return drawn

        return Sample(
            batches,
            anchors=[{"anchor": it} for it in ids[:anchors].tolist()],
            names=lambda columns: ids[columns].tolist(),
            valid=valid,
            about={
                "part": part,
                "images": len(every),
                "batches": len(rows),
                "labelled": first.false_negative is not None,
                "components": components,
            },
            title=title,
            draw=draw,
            advice=advise_on_views(view_1, view_2, known, float(loss.temperature)),
        )

    return inspect_run(ImageRun, path, sampler, shown=shown, data=data, encoder=encoder)


def drawn_batches(
    store: ImageStore, batch_size: int, images: int, seed: int
) -> list[Int[Tensor, " batch"]]:
    """Rows of whole batches in random order.

    If only some images have labels, the others are left out, unless too few would remain.
    """
    count = len(store)
    generator = torch.Generator().manual_seed(derived_seed(seed, Purpose.ESTIMATES, 0, 5))
    order = torch.randperm(count, generator=generator)
    labelled = store.labels.cpu()[order] != UNLABELLED
    if int(labelled.sum()) >= min(batch_size, count):
        order = order[labelled]
    size = min(batch_size, len(order))
    batches = max(1, min(images, len(order)) // size)
    return list(order[: batches * size].split(size))


def scored_batch(
    model: SimCLR, store: ImageStore, seed: int, step: int
) -> tuple[ScoredCandidates, Views]:
    """One batch as a model's loss sees it, with the truth if every image has a label; its views."""
    loss: Any = model.loss
    views = embedded_views(model, store, derived_seed(seed, Purpose.ESTIMATES, step, 6), 0)
    labels = store.labels if store.is_labelled else None
    scored = score_candidates(loss, *views, labels=labels)
    # The oracle's weights need labels; without labels they would be those of InfoNCE.
    return replace(scored, sees_labels=scored.sees_labels and labels is not None), views


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
    shares = class_responsibilities(view_1, classes) + class_responsibilities(view_2, classes)
    coarsest = classes.sizes.index(min(classes.sizes))
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
        nearest = similarity[members, component].argsort(descending=True, stable=True)
        typical = members[nearest[:SHOWN]]
        about: dict[str, Any] = {
            "weight": float(weights[component]),
            "size": len(members),
            "typical": rows.cpu()[typical.cpu()].tolist(),
            **dict.fromkeys(("majority", "share", "of_majority")),
        }
        if inspected.is_labelled and len(members):
            counts = inspected.labels[members].bincount()
            majority = int(counts.argmax())
            about["majority"] = inspected.class_names[majority]
            about["share"] = float(counts.max()) / len(members)
            about["of_majority"] = (inspected.labels[typical] == majority).tolist()
        components.append(about)
    return components


class _Cell(NamedTuple):
    """A framed image, the words below it, and what its frame says; or words alone."""

    words: str = ""
    image: int | None = None
    kind: str | None = None


def candidates_figure(
    store: ImageStore, rows: Sequence[Mapping[str, Any]], *, title: str, weighed_by: str
) -> Figure:
    """Draw one row per anchor: the anchor, then candidates of smallest and largest weight.

    The rows hold numbers of images; see :meth:`~bayescl_lab.runs.inspection.Sample.extreme_rows`.
    """
    kinds = {None: None, True: "false negative", False: "true negative"}
    drawn = []
    for row in rows:
        cells = [_Cell(f"no. {row['anchor']}", row["anchor"])]
        for end in ("down", "up"):
            false = row[f"{end}_false"] or [None] * len(row[end])
            candidates = zip(row[f"{end}_weights"], row[end], false, strict=True)
            cells += [
                _Cell(),
                *(_Cell(f"{w:.3f}", image, kinds[it]) for w, image, it in candidates),
            ]
        drawn.append(cells)
    heading = "left: anchor; middle: least weight; right: most weight"
    legend = {"false negative": FALSE_COLOUR, "true negative": TRUE_COLOUR}
    return _pictures(store, drawn, f"{title}\n{heading} ({weighed_by} below)", legend)


def components_figure(
    store: ImageStore, components: Sequence[Mapping[str, Any]], *, title: str
) -> Figure:
    """Draw a row of typical images for each component, beside its weight and size.

    The components are as in ``inspection.json``, the largest weight first.
    """
    kinds = {None: None, True: "of the majority class", False: "of another class"}
    drawn = []
    for component in components[:MOST]:
        words = f"weight {component['weight']:.3f}\n{component['size']} images"
        if component["majority"] is not None:
            words += f"\n{component['share']:.0%} of class {component['majority']}"
        typical = component["typical"]
        of_majority = component["of_majority"] or [None] * len(typical)
        images = zip(typical, of_majority, strict=True)
        drawn.append([_Cell(), _Cell(words), *(_Cell("", it, kinds[of]) for it, of in images)])
    heading = "most typical images of each component of the coarsest mixture"
    if len(components) > MOST:
        heading += f"; the {len(components) - MOST} with the least weight are left out"
    legend = {"of the majority class": TRUE_COLOUR, "of another class": FALSE_COLOUR}
    return _pictures(store, drawn, f"{title}\n{heading}", legend)


def _pictures(
    store: ImageStore, rows: Sequence[Sequence[_Cell]], title: str, legend: Mapping[str, str]
) -> Figure:
    """Rows of framed images, a title above and a legend of the frames below.

    All are drawn on one pair of axes, since a layout of many takes seconds.
    """
    from matplotlib.patches import Patch, Rectangle

    columns, pitch = max(map(len, rows)), 1.2  # a cell is as wide as 1 and as high as the pitch
    width, height = 0.95 * columns, 0.95 * pitch * len(rows) + 1.1  # inches
    figure = blank_figure(width, height, layout=None)
    axes = figure.add_axes((0, 0.6 / height, 1, 1 - 1.25 / height))
    axes.set_axis_off()
    drawing: Any = {"cmap": "gray", "vmin": 0, "vmax": 255, "aspect": "auto"}
    for row, cells in enumerate(rows):
        top = row * pitch
        for left, cell in enumerate(cells):
            if cell.image is None:
                axes.text(left + 0.9, top + 0.45, cell.words, fontsize=8, ha="right", va="center")
                continue
            image = store.take(torch.tensor([cell.image], device=store.device))[0].cpu().numpy()
            pixels = image.transpose(1, 2, 0) if len(image) == 3 else image[0]
            high, wide = (0.9 * side / max(pixels.shape[:2]) for side in pixels.shape[:2])
            extent = (left, left + wide, top + high, top)
            axes.imshow(pixels, extent=extent, interpolation="nearest", **drawing)
            colour = NEUTRAL if cell.kind is None else legend[cell.kind]
            axes.add_patch(Rectangle((left, top), wide, high, fill=False, lw=2, edgecolor=colour))
            place = left + wide / 2, top + high + 0.03
            axes.text(*place, cell.words, fontsize=7.5, ha="center", va="top")
    axes.set(xlim=(-0.2, columns), ylim=(pitch * len(rows), -0.05))
    figure.suptitle(title, fontsize=10, y=1 - 0.1 / height, va="top")
    if any(cell.kind for cells in rows for cell in cells):
        patches = [Patch(edgecolor=legend[kind], fill=False, lw=2, label=kind) for kind in legend]
        figure.legend(handles=patches, loc="lower center", ncols=2, fontsize=9, frameon=False)
    return figure
