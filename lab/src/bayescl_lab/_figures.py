"""Common style of all figures. Matplotlib is imported when a figure is drawn."""

from __future__ import annotations

import io
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# From the palette of Okabe and Ito, which color-blind readers can tell apart.
TRUE_COLOR, FALSE_COLOR, NEUTRAL = "#0072B2", "#D55E00", "#5b6472"
LOSS_COLORS = {
    "debiased": "#2a7fb8",
    "hard": "#b8722a",
    "bayesian": "#c0392b",
    "oracle": "#2e8b57",
    "supervised": "#1b5e3a",
    "bpr": "#7d5ba6",
}
"""Colors of losses by name. Other losses have the neutral color."""
LEVELS = ("#E69F00", "#009E73", "#0072B2", "#CC79A7")
"""Colors of up to four values of a parameter."""

_STYLE: Any = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "bayescl",
}


def _style() -> AbstractContextManager[None]:
    """Use the common style inside the block."""
    from matplotlib import rc_context

    return rc_context(_STYLE)


def panels(
    rows: int, columns: int, *, width: float, height: float, title: str = ""
) -> tuple[Figure, list[Axes]]:
    """Create a figure with a grid of axes; return the figure and its axes by row."""
    with _style():
        from matplotlib.figure import Figure as Unmanaged  # it is not attached to a window

        figure = Unmanaged(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        if title:
            figure.suptitle(title, fontsize=12)
    return figure, [axis for row in axes for axis in row]


def png(figure: Figure, *, dpi: int = 110) -> bytes:
    """Convert a figure to a PNG file. Equal figures give equal bytes."""
    stream = io.BytesIO()
    with _style():
        figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None})
    return stream.getvalue()
