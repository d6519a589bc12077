"""``bayescl inspect`` for images: how a run's loss weights its candidates, and how well.

The loss scores batches as in training, with two views of each image, but with the encoder in
``eval()`` mode. Labels are used only to evaluate. Without labels, the candidates with the smallest
and largest weights can still be inspected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_choice
from bayescl.diagnostics import ScoredCandidates, score_candidates
from bayescl.figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR, blank_figure
from bayescl.functional import item_responsibilities
from bayescl.losses import ContrastiveLoss, LatentClassContrastiveLoss
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import UNLABELLED, ImageStore
from bayescl_lab.runs.advice import advise_on_views
from bayescl_lab.runs.images.alpha import embedded_views
from bayescl_lab.runs.images.run import ImageRun
from bayescl_lab.runs.inspection import Inspection, check_sizes, extreme_rows, write_inspection
from bayescl_lab.runs.losses import LOSSES

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("train", "evaluation")
SHOWN = 8
"""Images of each component in the picture."""
MOST = 20
"""Components in the picture, those with the largest weights."""

_Cell = tuple[int, bool | None, str] | str | None
"""An image, whether it is what it should be and a few words; a caption; or a gap."""

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


def candidates_figure(
    store: ImageStore, rows: Sequence[Mapping[str, Any]], *, title: str, weighed_by: str
) -> Figure:
    """Draw one row per anchor: the anchor, then candidates of smallest and largest weight.

    With labels, false negatives are framed in one colour and true ones in another. The rows hold
    numbers of images; see :func:`~bayescl_lab.runs.inspection.extreme_rows`.
    """
    drawn: list[list[_Cell]] = []
    for row in rows:
        cells: list[_Cell] = [(row["anchor"], None, f"no. {row['anchor']}")]
        for end in ("down", "up"):
            false = row[f"{end}_false"]
            true = [None] * len(row[end]) if false is None else [not it for it in false]
            words = [f"{weight:.3f}" for weight in row[f"{end}_weights"]]
            cells += [None, *zip(row[end], true, words, strict=True)]
        drawn.append(cells)
    heading = (
        f"{title}\nleft: anchor; middle: least weight; right: most weight ({weighed_by} below)"
    )
    labelled = rows[0]["down_false"] is not None
    legend = {"false negative": FALSE_COLOUR, "true negative": TRUE_COLOUR} if labelled else {}
    return _pictures(store, drawn, title=heading, legend=legend, pitch=1.35)


def components_figure(
    store: ImageStore, components: Sequence[Mapping[str, Any]], *, title: str
) -> Figure:
    """Draw a row of typical images for each component, beside its weight and size.

    With labels, images of the component's majority class are framed in one colour and the others
    in another. The components are as in ``inspection.json``, the largest weight first.
    """
    drawn: list[list[_Cell]] = []
    for component in components[:MOST]:
        typical = component["typical"]
        kinds = component["of_majority"] or [None] * len(typical)
        caption = f"weight {component['weight']:.3f}\n{component['size']} images"
        if component["majority"] is not None:
            caption += f"\n{component['share']:.0%} of class {component['majority']}"
        drawn.append([caption, *zip(typical, kinds, [""] * len(typical), strict=True)])
    words = f"{title}\nmost typical images of each component of the coarsest mixture"
    if len(components) > MOST:
        words += f"; the {len(components) - MOST} with the least weight are left out"
    labelled = any(component["of_majority"] is not None for component in components)
    legend = {"of the majority class": TRUE_COLOUR, "of another class": FALSE_COLOUR}
    return _pictures(store, drawn, title=words, legend=legend if labelled else {}, pitch=1.1)


def _pictures(
    store: ImageStore,
    rows: Sequence[Sequence[_Cell]],
    *,
    title: str,
    legend: Mapping[str, str],
    pitch: float,
) -> Figure:
    """Rows of framed images, a title above and a legend of the frames below.

    All are drawn on one pair of axes, since a layout of many takes seconds.
    """
    from matplotlib.patches import Patch, Rectangle

    side, step = 0.85, 1.1  # inches of an image; from one to the next, in images
    drawing: Any = {"aspect": "auto", "interpolation": "nearest"}
    widest = max(sum(0.3 if cell is None else step for cell in row) for row in rows) + 1
    width, height = side * widest, side * pitch * len(rows) + 1.1
    figure = blank_figure(width, height, layout=None)
    axes = figure.add_axes((0, 0.6 / height, 1, 1 - 1.25 / height))
    axes.axis("off")
    for top, row in enumerate(rows):
        left, above = 0.5, top * pitch
        for cell in row:
            if cell is None:
                left += 0.3
            elif isinstance(cell, str):
                axes.text(left + 1, above + 0.5, cell, fontsize=8, ha="right", va="center")
                left += step
            else:
                image, is_true, words = cell
                shown = store.take(torch.tensor([image], device=store.device))[0].cpu().numpy()
                pixels = shown.transpose(1, 2, 0) if len(shown) == 3 else shown[0]
                high, wide = (side / max(pixels.shape[:2]) for side in pixels.shape[:2])
                extent = (left, left + wide, above + high, above)
                axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, extent=extent, **drawing)
                known = TRUE_COLOUR if is_true else FALSE_COLOUR
                colour = NEUTRAL if is_true is None else known
                frame = Rectangle((left, above), wide, high, fill=False, lw=2, edgecolor=colour)
                axes.add_patch(frame)
                place = (left + wide / 2, above + high + 0.05)
                axes.text(*place, words, fontsize=7.5, ha="center", va="top")
                left += step
    axes.set(xlim=(0, widest), ylim=(pitch * len(rows), 0))
    figure.suptitle(title, fontsize=10, y=1 - 0.1 / height, va="top")
    patches = [Patch(edgecolor=legend[it], fill=False, lw=2, label=it) for it in legend]
    if patches:
        figure.legend(handles=patches, loc="lower center", ncols=2, fontsize=9, frameon=False)
    return figure
