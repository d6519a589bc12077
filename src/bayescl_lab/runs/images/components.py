"""Latent classes that a loss has found, shown by their most typical images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.figures import FALSE_COLOUR, NEUTRAL, TRUE_COLOUR, blank_figure
from bayescl.functional import LatentClasses, item_responsibilities
from bayescl_lab.images.store import ImageStore
from bayescl_lab.runs.images.candidates_figure import show_image

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 8
"""Images of each component in the picture."""
MOST = 40
"""Components in the picture, those with the largest weights."""
_IN_A_COLUMN = 15


@dataclass(frozen=True)
class Component:
    """A component of the coarsest mixture, and its most probable images.

    Attributes:
        weight: its mixing weight in the fit.
        size: number of inspected images that belong to it.
        typical: numbers of these images in the part, most typical first.
        majority: the most frequent class among them; None without labels or images.
        share: share of images of that class, in [0, 1].
        of_majority: whether each of ``typical`` is of that class.
    """

    weight: float
    size: int
    typical: list[int]
    majority: str | None = None
    share: float | None = None
    of_majority: list[bool] | None = None

    def figures(self) -> dict[str, Any]:
        """Plain values for a file."""
        return asdict(self)

    @property
    def words(self) -> str:
        """Caption beside its images."""
        lines = [f"weight {self.weight:.3f}", f"{self.size} images"]
        if self.majority is not None:
            lines.append(f"{self.share:.0%} of class {self.majority}")
        return "\n".join(lines)


@torch.no_grad()
def coarsest_components(
    classes: LatentClasses,
    view_1: Float[Tensor, "images dim"],
    view_2: Float[Tensor, "images dim"],
    *,
    images: Int[Tensor, " images"],
    labels: Int[Tensor, " images"] | None,
    class_names: Sequence[str],
) -> list[Component]:
    """Describe the components of the coarsest mixture by the images that belong to them.

    An image belongs to the component with its largest responsibility. The closer it is to the
    component's direction, the more typical it is.

    Args:
        classes: the latent classes fitted by the loss.
        view_1: embeddings of one view of each image.
        view_2: embeddings of the other view.
        images: their numbers in the part.
        labels: their classes, if all are known.
        class_names: a name for each class.

    Returns:
        The components, the largest weight first.
    """
    view_1, view_2 = view_1.to(classes.center), view_2.to(classes.center)
    shares, _ = item_responsibilities(view_1, view_2, classes)
    coarsest = min(range(len(classes.sizes)), key=lambda place: classes.sizes[place])
    start = sum(classes.sizes[:coarsest])
    columns = slice(start, start + classes.sizes[coarsest])
    member_of = shares[:, columns].argmax(dim=1)
    rows = F.normalize(F.normalize(view_1, dim=1) + F.normalize(view_2, dim=1), dim=1)
    seen = F.normalize((rows - classes.center) @ classes.transform, dim=1)
    similarity = seen @ classes.mixtures.directions[columns].T
    weights = classes.mixtures.weights[columns]
    found = []
    for component in weights.argsort(descending=True, stable=True).tolist():
        members = (member_of == component).nonzero().squeeze(1)
        nearest = members[similarity[members, component].argsort(descending=True, stable=True)]
        weight, size, shown = float(weights[component]), len(members), nearest[:SHOWN]
        typical = images[shown.cpu()].tolist()
        if labels is None or size == 0:
            found.append(Component(weight, size, typical))
            continue
        counts = labels[members].bincount(minlength=len(class_names))
        majority = int(counts.argmax())
        found.append(
            Component(
                weight,
                size,
                typical,
                majority=class_names[majority],
                share=float(counts[majority]) / size,
                of_majority=(labels[shown] == majority).tolist(),
            )
        )
    return found


def components_figure(store: ImageStore, components: Sequence[Component], *, title: str) -> Figure:
    """Draw a row of typical images for each component, beside its weight and size.

    With labels, images of the component's majority class are framed in one colour and the others
    in another.

    Args:
        store: the images that the components count.
        components: the largest weight first.
        title: title of the figure.
    """
    from matplotlib.patches import Patch

    shown = list(components[:MOST])
    columns = 1 if len(shown) <= _IN_A_COLUMN else 2
    rows = -(-len(shown) // columns)
    # Captions and images, with a narrow empty column between two groups.
    widths = [1.9, *[1.0] * SHOWN] + [0.3, 1.9, *[1.0] * SHOWN] * (columns - 1)
    width, height = 0.72 * sum(widths) + 0.4, 0.78 * rows + 1.1
    # Placed by hand: a layout engine takes seconds for so many images.
    figure = blank_figure(width, height, layout=None)
    grid = figure.add_gridspec(
        rows,
        len(widths),
        width_ratios=widths,
        left=0.2 / width,
        right=1 - 0.2 / width,
        top=1 - 0.6 / height,
        bottom=0.5 / height,
        wspace=0.08,
        hspace=0.12,
    )
    for place, component in enumerate(shown):
        row, start = place % rows, (place // rows) * (SHOWN + 2)
        axis = figure.add_subplot(grid[row, start])
        axis.axis("off")
        axis.text(1.0, 0.5, component.words, fontsize=8, ha="right", va="center")
        kinds: Sequence[bool | None] = component.of_majority or [None] * len(component.typical)
        for column, (image, kind) in enumerate(zip(component.typical, kinds, strict=True)):
            axis = figure.add_subplot(grid[row, start + 1 + column])
            colour = NEUTRAL if kind is None else TRUE_COLOUR if kind else FALSE_COLOUR
            show_image(axis, store, image, colour)
    left_out = len(components) - len(shown)
    words = f"{title}\nmost typical images of each component of the coarsest mixture"
    if left_out:
        words += f"; the {left_out} with the least weight are left out"
    figure.suptitle(words, fontsize=10, y=1 - 0.1 / height, va="top")
    if any(component.of_majority is not None for component in shown):
        figure.legend(
            handles=[
                Patch(edgecolor=TRUE_COLOUR, fill=False, lw=2, label="of the majority class"),
                Patch(edgecolor=FALSE_COLOUR, fill=False, lw=2, label="of another class"),
            ],
            loc="lower center",
            ncols=2,
            fontsize=9,
            frameon=False,
        )
    return figure
