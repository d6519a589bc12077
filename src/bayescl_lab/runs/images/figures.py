"""Pictures of an inspection: candidates beside their anchor, and images of latent classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl.figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR, blank_figure
from bayescl_lab.images.store import ImageStore

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpec

SHOWN = 8
"""Images of each component in the picture."""
MOST = 40
"""Components in the picture, those with the largest weights."""
_IN_A_COLUMN = 15


def candidates_figure(
    store: ImageStore, rows: Sequence[Mapping[str, Any]], *, title: str, weighed_by: str
) -> Figure:
    """Draw one row per anchor: the anchor, then candidates of smallest and largest weight.

    With labels, false negatives are framed in one colour and true ones in another.

    Args:
        store: the images that the rows count.
        rows: the number of each ``anchor`` with its candidates, as many for each; see
            :func:`~bayescl_lab.runs.inspection.extreme_rows`.
        title: title of the figure.
        weighed_by: description of the weights, for the title.
    """
    shown = len(rows[0]["down"])
    # A narrow empty column separates the three groups.
    widths = [1.0, 0.25, *[1.0] * shown, 0.25, *[1.0] * shown]
    words = f"{title}\nleft: anchor; middle: least weight; right: most weight ({weighed_by} below)"
    labelled = rows[0]["down_false"] is not None
    legend = {"false negative": FALSE_COLOUR, "true negative": TRUE_COLOUR} if labelled else {}
    figure, grid = _image_grid(
        len(rows), widths, unit=(0.9, 1.15), wspace=0.08, hspace=0.3, title=words, legend=legend
    )
    for place, row in enumerate(rows):
        anchor = row["anchor"]
        _show_image(figure.add_subplot(grid[place, 0]), store, anchor, None, f"no. {anchor}")
        for start, end in ((2, "down"), (3 + shown, "up")):
            false = row[f"{end}_false"] or [None] * shown
            columns = zip(row[end], row[f"{end}_weights"], false, strict=True)
            for column, (image, weight, is_false) in enumerate(columns, start):
                axis = figure.add_subplot(grid[place, column])
                is_true = None if is_false is None else not is_false
                _show_image(axis, store, image, is_true, f"{weight:.3f}")
    return figure


def components_figure(
    store: ImageStore, components: Sequence[Mapping[str, Any]], *, title: str
) -> Figure:
    """Draw a row of typical images for each component, beside its weight and size.

    With labels, images of the component's majority class are framed in one colour and the others
    in another.

    Args:
        store: the images that the components count.
        components: the largest weight first, as in ``inspection.json``.
        title: title of the figure.
    """
    shown = list(components[:MOST])
    columns = 1 if len(shown) <= _IN_A_COLUMN else 2
    rows = -(-len(shown) // columns)
    # Captions and images, with a narrow empty column between two groups.
    widths = [1.9, *[1.0] * SHOWN] + [0.3, 1.9, *[1.0] * SHOWN] * (columns - 1)
    words = f"{title}\nmost typical images of each component of the coarsest mixture"
    if len(components) > len(shown):
        words += f"; the {len(components) - len(shown)} with the least weight are left out"
    labelled = any(component["of_majority"] is not None for component in shown)
    legend = {"of the majority class": TRUE_COLOUR, "of another class": FALSE_COLOUR}
    figure, grid = _image_grid(
        rows,
        widths,
        unit=(0.72, 0.78),
        wspace=0.08,
        hspace=0.12,
        title=words,
        legend=legend if labelled else {},
    )
    for place, component in enumerate(shown):
        row, start = place % rows, (place // rows) * (SHOWN + 2)
        caption = [f"weight {component['weight']:.3f}", f"{component['size']} images"]
        if component["majority"] is not None:
            caption.append(f"{component['share']:.0%} of class {component['majority']}")
        axis = figure.add_subplot(grid[row, start])
        axis.axis("off")
        axis.text(1.0, 0.5, "\n".join(caption), fontsize=8, ha="right", va="center")
        typical = component["typical"]
        kinds = component["of_majority"] or [None] * len(typical)
        for column, (image, kind) in enumerate(zip(typical, kinds, strict=True), start + 1):
            _show_image(figure.add_subplot(grid[row, column]), store, image, kind)
    return figure


def _image_grid(
    rows: int,
    widths: Sequence[float],
    *,
    unit: tuple[float, float],
    wspace: float,
    hspace: float,
    title: str,
    legend: Mapping[str, str],
) -> tuple[Figure, GridSpec]:
    """An empty figure with a grid for images, a title above and a legend of frames below.

    It is laid out by hand, since a layout engine takes seconds for so many images.
    """
    from matplotlib.patches import Patch

    width, height = unit[0] * sum(widths) + 0.4, unit[1] * rows + 1.1
    figure = blank_figure(width, height, layout=None)
    grid = figure.add_gridspec(
        rows,
        len(widths),
        width_ratios=widths,
        left=0.2 / width,
        right=1 - 0.2 / width,
        top=1 - 0.65 / height,
        bottom=0.6 / height,
        wspace=wspace,
        hspace=hspace,
    )
    figure.suptitle(title, fontsize=10, y=1 - 0.1 / height, va="top")
    if legend:
        figure.legend(
            handles=[
                Patch(edgecolor=colour, fill=False, lw=2, label=label)
                for label, colour in legend.items()
            ],
            loc="lower center",
            ncols=2,
            fontsize=9,
            frameon=False,
        )
    return figure, grid


def _show_image(
    axis: Axes, store: ImageStore, image: int, is_true: bool | None, words: str = ""
) -> None:
    """Draw one image, framed by what is known of it, with a few words under it."""
    axis.imshow(_pixels(store, image), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_xlabel(words, fontsize=7.5, labelpad=2)
    for spine in axis.spines.values():
        spine.set_edgecolor(
            NEUTRAL if is_true is None else TRUE_COLOUR if is_true else FALSE_COLOUR
        )
        spine.set_linewidth(2)


def _pixels(store: ImageStore, image: int) -> NDArray[np.uint8]:
    """An image in Matplotlib's layout: rows and columns, with three channels or none."""
    pixels = store.take(torch.tensor([image], device=store.device))[0].cpu().numpy()
    shown: NDArray[np.uint8] = pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels[0]
    return shown
