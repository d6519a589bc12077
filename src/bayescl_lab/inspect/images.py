"""Embeddings of a run on images, and how its loss weights candidates.

The loss scores batches as in training, with two views of each image, but with the encoder in
``eval()`` mode. Labels are used only to evaluate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.diagnostics import (
    Diagnosis,
    ScoredCandidates,
    candidate_weights,
    diagnose,
    in_eval_mode,
    score_candidates,
)
from bayescl.losses import BayesianContrastiveLoss
from bayescl_lab._figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR
from bayescl_lab._files import save_figure
from bayescl_lab._randomness import Purpose, derived_seed
from bayescl_lab.images.simclr import SimCLR
from bayescl_lab.images.store import UNLABELLED, ImageStore
from bayescl_lab.inspect.measures import plain
from bayescl_lab.inspect.page import reliability_figure, weights_figure
from bayescl_lab.runs.images.record import image_ids
from bayescl_lab.runs.images.run import ImageRun
from bayescl_lab.runs.losses import LOSSES
from bayescl_lab.runs.provenance import provenance

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Views = tuple[Float[Tensor, "images dim"], Float[Tensor, "images dim"]]
"""Embeddings of two views of each image."""

Row = dict[str, Any]
"""An anchor with the candidates of least ("down") and most weight ("up"), as plain values."""

_IMAGES_AT_ONCE = 512


class ImageInspection(NamedTuple):
    """Result of :func:`inspect_images`."""

    known: tuple[Tensor | None, ...]
    """Both views as the loss compares them, labels and domains; None if no image has any."""

    options: dict[str, Any]
    """Temperature and batch size."""

    diagnosis: Diagnosis
    report: dict[str, Any]
    """Plain values for a file."""

    files: tuple[Path, ...]
    followed: tuple[str, ...]
    """Name of the loss, and the arguments that its calls take."""


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
) -> ImageInspection:
    """Inspect the last checkpoint of a run on images, finished or not.

    It writes ``inspection-weights.png``, ``inspection-candidates.png`` and, with labels,
    ``inspection-reliability.png`` to the run's folder.

    Args:
        path: The run folder.
        part: "train" for the training images, or "evaluation" for the evaluation images.
        images: Largest number of images to score, in whole batches of the run's size.
        anchors: Number of images to show with their candidates.
        shown: Number of candidates to show for each, at each end.
        seed: Seed for drawing images and their views.
        data: Other images to inspect; default: the run's own.
        encoder: The run's custom network, if it has one.

    Raises:
        ValueError: if the folder does not hold a run on images with a checkpoint, or the images do
            not have the part.
    """
    folder, run, epochs = ImageRun.reopen(
        path, data=data, encoder=encoder, split=part == "evaluation"
    )
    run.model.to(run.device)
    settings, store = run.settings, run.part(part)
    loss: Any = run.model.loss
    loss.gather = False
    rows = drawn_batches(store, settings.batch_size, images, seed)
    scored = [
        scored_batch(run.model, store.subset(batch), seed, step) for step, batch in enumerate(rows)
    ]
    batches, views = zip(*scored, strict=True)
    first, ids, every = batches[0], rows[0].cpu(), torch.cat(rows)
    valid = first.valid.clone()
    valid[:, len(ids) :] = False  # the second views of the same images
    candidates = extreme_rows(first, ids[:anchors], ids, valid, shown)
    for row in candidates:
        numbers = {row["anchor"], *row["down"], *row["up"]}
        row["images"] = {str(number): str(image_ids(store)[number]) for number in numbers}
    diagnosis, labels = diagnose(batches), store.labels[every]
    followed = [type(loss).__name__, *["domains"] * settings.domains]
    followed += ["labels"] * (settings.labels_per_class is not None)
    followed += ["teacher"] * (settings.positive_share < 1)
    after = f"{epochs} epoch{'s' * (epochs != 1)}"
    title = f"{LOSSES[settings.loss.loss].title} on {settings.data}, {after}"
    weighed_by = "its own weights" if first.tells_apart else "Bayesian weights"
    figures = {
        "candidates": candidates_figure(store, candidates, title=title, weighed_by=weighed_by),
        "weights": weights_figure(diagnosis, title=title),
    }
    if diagnosis.posteriors:
        figures["reliability"] = reliability_figure(diagnosis, title=title)
    for name, figure in figures.items():
        save_figure(figure, folder.path / f"inspection-{name}.png")
    return ImageInspection(
        (
            *(torch.cat(parts) for parts in zip(*views, strict=True)),
            labels if bool((labels != UNLABELLED).any()) else None,
            None if store.domains is None else store.domains[every],
        ),
        {"temperature": float(loss.temperature), "batch_size": len(ids)},
        diagnosis,
        {
            "epochs": epochs,
            "of_epochs": settings.epochs,
            "part": part,
            "images": len(every),
            "batches": len(rows),
            "labelled": first.false_negative is not None,
            "settings": settings.as_config(),
            **plain(diagnosis),
            "candidates": {"weighed_by": weighed_by, "anchors": candidates},
            **provenance(),
        },
        tuple(folder.path / f"inspection-{name}.png" for name in figures),
        tuple(followed),
    )


def extreme_rows(
    scored: ScoredCandidates,
    anchors: Int[Tensor, " anchors"],
    names: Int[Tensor, " batch"],
    valid: Bool[Tensor, "rows candidates"],
    shown: int,
) -> list[Row]:
    """The candidates with the smallest and largest weights of the first anchors of a batch.

    InfoNCE and the debiased loss weight all candidates equally; the Bayesian loss at its defaults
    then takes their place. ``down`` and ``up`` hold numbers of images, the smallest and the largest
    weight first, with ``_weights`` and ``_false``, whether each is a false negative; None without
    labels.
    """
    if not scored.tells_apart:
        scored = replace(scored, objective=BayesianContrastiveLoss().objective(1.0))
    weights, truth = candidate_weights(scored), scored.false_negative
    chosen = torch.arange(len(anchors), device=valid.device)
    count = min(shown, int(valid[chosen].sum(dim=1).min()))
    # Among equal weights the higher logit comes first, since it contributes more.
    by_logit = scored.unlabeled[chosen].argsort(dim=1, descending=True, stable=True)
    ends = []
    for keys in (weights, -weights):
        keys = keys[chosen].masked_fill(~valid[chosen], torch.inf).gather(1, by_logit)
        ends.append(by_logit.gather(1, keys.argsort(dim=1, stable=True)[:, :count]))
    rows = []
    for anchor, number in enumerate(anchors.tolist()):
        row: Row = {"anchor": number}
        for end, columns in (("down", ends[0][anchor]), ("up", ends[1][anchor])):
            row[end] = names[columns.cpu()].tolist()
            row[f"{end}_weights"] = weights[anchor, columns].tolist()
            row[f"{end}_false"] = None if truth is None else truth[anchor, columns].tolist()
        rows.append(row)
    return rows


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


def candidates_figure(
    store: ImageStore, rows: Sequence[Row], *, title: str, weighed_by: str
) -> Figure:
    """Draw one row per anchor: the anchor, then candidates of smallest and largest weight.

    The rows are those of :func:`extreme_rows`. All are drawn on one pair of axes, since a layout of
    many takes seconds.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch, Rectangle

    shown = len(rows[0]["down"])
    columns, pitch = 3 + 2 * shown, 1.35  # a cell is as wide as 1 and as high as the pitch
    width, height = 0.95 * columns, 0.95 * pitch * len(rows) + 1.1  # inches
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0.6 / height, 1, 1 - 1.25 / height))
    axes.set_axis_off()
    drawing: Any = {"cmap": "gray", "vmin": 0, "vmax": 255, "aspect": "auto"}

    def draw(image: int, left: float, top: float, colour: str, words: str) -> None:
        """A framed image with words below it."""
        taken = store.take(torch.tensor([image], device=store.device))[0].cpu().numpy()
        pixels = taken.transpose(1, 2, 0) if len(taken) == 3 else taken[0]
        high, wide = (0.9 * side / max(pixels.shape[:2]) for side in pixels.shape[:2])
        extent = (left, left + wide, top + high, top)
        axes.imshow(pixels, extent=extent, interpolation="nearest", **drawing)
        axes.add_patch(Rectangle((left, top), wide, high, fill=False, lw=2, edgecolor=colour))
        place = left + wide / 2, top + high + 0.03
        axes.text(*place, words, fontsize=6.5, ha="center", va="top")

    colours = {None: NEUTRAL, True: FALSE_COLOUR, False: TRUE_COLOUR}
    for number, row in enumerate(rows):
        top = number * pitch
        draw(row["anchor"], 0, top, NEUTRAL, "")
        for start, end in ((2, "down"), (3 + shown, "up")):
            false = row[f"{end}_false"] or [None] * shown
            candidates = zip(row[end], row[f"{end}_weights"], false, strict=True)
            for place, (image, weight, is_false) in enumerate(candidates, start=start):
                draw(image, place, top, colours[is_false], f"{weight:.3f}")
    axes.set(xlim=(-0.2, columns), ylim=(pitch * len(rows), -0.05))
    heading = f"left: anchor; middle: least weight; right: most weight ({weighed_by} below)"
    figure.suptitle(f"{title}\n{heading}", fontsize=10, y=1 - 0.1 / height, va="top")
    if rows[0]["down_false"] is not None:
        kinds = {"false negative": FALSE_COLOUR, "true negative": TRUE_COLOUR}
        patches = [Patch(edgecolor=kinds[kind], fill=False, lw=2, label=kind) for kind in kinds]
        figure.legend(handles=patches, loc="lower center", ncols=2, fontsize=9, frameon=False)
    return figure
