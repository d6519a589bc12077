"""Pictures of an inspection: candidates beside their anchor, and images of latent classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from bayescl.figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR, blank_figure
from bayescl_lab.images.store import ImageStore

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 8
"""Images of each component in the picture."""
MOST = 20
"""Components in the picture, those with the largest weights."""

_Cell = tuple[int, bool | None, str] | str | None
"""An image, whether it is what it should be and a few words; a caption; or a gap."""


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
    words = f"{title}\nleft: anchor; middle: least weight; right: most weight ({weighed_by} below)"
    labelled = rows[0]["down_false"] is not None
    legend = {"false negative": FALSE_COLOUR, "true negative": TRUE_COLOUR} if labelled else {}
    return _pictures(store, drawn, title=words, legend=legend, pitch=1.35)


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
