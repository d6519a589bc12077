"""Images with the smallest and largest weights, beside their anchor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl.figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR, blank_figure
from bayescl_lab.images.store import ImageStore

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class CandidateRow:
    """An anchor and its candidates at both ends, as numbers of images in the part.

    Attributes:
        anchor: the anchor's image.
        down: candidates with the smallest weights, smallest first.
        up: candidates with the largest weights, largest first.
        down_weights: their weights.
        up_weights: their weights.
        down_false: whether each is a false negative; None without labels.
        up_false: the same.
    """

    anchor: int
    down: list[int]
    up: list[int]
    down_weights: list[float]
    up_weights: list[float]
    down_false: list[bool] | None
    up_false: list[bool] | None

    def figures(self) -> dict[str, Any]:
        """Plain values for a file."""
        return asdict(self)


def candidates_figure(
    store: ImageStore, rows: Sequence[CandidateRow], *, title: str, weighed_by: str
) -> Figure:
    """Draw one row per anchor: the anchor, then candidates of smallest and largest weight.

    With labels, false negatives are framed in one colour and true ones in another.

    Args:
        store: the images that the rows count.
        rows: anchors with their candidates, the same number for each.
        title: title of the figure.
        weighed_by: description of the weights, for the title.
    """
    from matplotlib.patches import Patch

    shown = len(rows[0].down)
    # A narrow empty column separates the three groups.
    widths = [1.0, 0.25, *[1.0] * shown, 0.25, *[1.0] * shown]
    width, height = 0.9 * sum(widths) + 0.4, 1.15 * len(rows) + 1.1
    # Placed by hand: a layout engine takes seconds for so many images.
    figure = blank_figure(width, height, layout=None)
    grid = figure.add_gridspec(
        len(rows),
        len(widths),
        width_ratios=widths,
        left=0.2 / width,
        right=1 - 0.2 / width,
        top=1 - 0.65 / height,
        bottom=0.6 / height,
        wspace=0.08,
        hspace=0.3,
    )
    for place, row in enumerate(rows):
        axis = figure.add_subplot(grid[place, 0])
        show_image(axis, store, row.anchor, NEUTRAL, f"no. {row.anchor}")
        ends = (
            (2, row.down, row.down_weights, row.down_false),
            (3 + shown, row.up, row.up_weights, row.up_false),
        )
        for start, images, weights, false in ends:
            kinds: Sequence[bool | None] = [None] * shown if false is None else false
            for column, (image, weight, kind) in enumerate(
                zip(images, weights, kinds, strict=True)
            ):
                axis = figure.add_subplot(grid[place, start + column])
                colour = NEUTRAL if kind is None else FALSE_COLOUR if kind else TRUE_COLOUR
                show_image(axis, store, image, colour, f"{weight:.3f}")
    words = f"{title}\nleft: anchor; middle: least weight; right: most weight ({weighed_by} below)"
    figure.suptitle(words, fontsize=10, y=1 - 0.1 / height, va="top")
    if rows[0].down_false is not None:
        figure.legend(
            handles=[
                Patch(edgecolor=FALSE_COLOUR, fill=False, lw=2, label="false negative"),
                Patch(edgecolor=TRUE_COLOUR, fill=False, lw=2, label="true negative"),
            ],
            loc="lower center",
            ncols=2,
            fontsize=9,
            frameon=False,
        )
    return figure


def show_image(axis: Axes, store: ImageStore, image: int, colour: str, words: str = "") -> None:
    """Draw one framed image with a few words under it."""
    axis.imshow(_pixels(store, image), cmap="gray", vmin=0, vmax=255, interpolation="nearest")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.set_xlabel(words, fontsize=7.5, labelpad=2)
    for spine in axis.spines.values():
        spine.set_edgecolor(colour)
        spine.set_linewidth(2)


def _pixels(store: ImageStore, image: int) -> NDArray[np.uint8]:
    """An image in Matplotlib's layout: rows and columns, with three channels or none."""
    pixels = store.take(torch.tensor([image], device=store.device))[0].cpu().numpy()
    shown: NDArray[np.uint8] = pixels.transpose(1, 2, 0) if len(pixels) == 3 else pixels[0]
    return shown
