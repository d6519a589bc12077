"""The class prior: the paper's table "Impacts of class prior"."""

from __future__ import annotations

from bayescl.experiments.images.paper.sizes import NUM_CLASSES, TITLES, cell_settings
from bayescl.experiments.images.paper.table import Cell, PaperFigure, PaperTable

SHARES = (0.2, 1.0, 2.0)
"""``tau_plus`` as a multiple of one over the number of classes."""

_PRINTED = {
    0.001: {"linear": PaperFigure(57.10), "linear_top5": PaperFigure(80.54)},
    0.005: {"linear": PaperFigure(57.32), "linear_top5": PaperFigure(80.87)},
    0.01: {"linear": PaperFigure(56.34), "linear_top5": PaperFigure(80.24)},
}
"""Of tinyImageNet, by ``tau_plus``."""


def _cells(size: str) -> list[Cell]:
    """The Bayesian loss for every prior; the other hyper-parameters are the authors'."""
    data = "tiny-imagenet" if size == "paper" else "digits"
    cells = []
    for share in SHARES:
        tau_plus = round(share / NUM_CLASSES[data], 6)
        cells.append(
            Cell(
                keys={"data set": TITLES[data], "tau_plus": f"{tau_plus:g}"},
                settings=cell_settings(size, data, "bayesian", tau_plus=tau_plus),
                paper=_PRINTED[tau_plus] if data == "tiny-imagenet" else {},
            )
        )
    return cells


PRIOR = PaperTable(
    name="prior",
    title="The prior tau_plus that the Bayesian loss assumes, N = 510",
    label="6Table:prior",
    measures=("linear", "linear_top5", "few_label_1"),
    cells=_cells,
)
"""``bayescl reproduce prior``."""
