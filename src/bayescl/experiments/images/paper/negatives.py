"""The number of negatives: the paper's table "Impacts of negative sample size N"."""

from __future__ import annotations

from dataclasses import replace

from bayescl.experiments.images.paper.sizes import TITLES, cell_settings
from bayescl.experiments.images.paper.table import Cell, PaperTable, figures_of
from bayescl.runs.losses import LOSSES as ALL_LOSSES

LOSSES = ("info_nce", "bayesian")
BATCH_SIZES = (16, 32, 64, 128, 256)
"""A batch of B images gives every anchor N = 2 B - 2 negatives."""

_PRINTED = figures_of(
    """
    cifar10 info_nce  30 80.21
    cifar10 info_nce  62 84.82
    cifar10 info_nce 126 87.58
    cifar10 info_nce 254 89.87
    cifar10 info_nce 510 91.12
    cifar10 bayesian  30 83.61
    cifar10 bayesian  62 88.56
    cifar10 bayesian 126 90.83
    cifar10 bayesian 254 92.07
    cifar10 bayesian 510 92.58
    stl10   info_nce  30 61.20
    stl10   info_nce  62 71.69
    stl10   info_nce 126 74.36
    stl10   info_nce 254 77.33
    stl10   info_nce 510 80.20
    stl10   bayesian  30 67.45
    stl10   bayesian  62 73.36
    stl10   bayesian 126 80.23
    stl10   bayesian 254 84.68
    stl10   bayesian 510 87.65
    """
)
_PRINTED["stl10", "bayesian", "510"] = replace(
    _PRINTED["stl10", "bayesian", "510"],
    note="the paper's main table and its table of beta give 87.7 and 86.51 for the same setting",
)


def _cells(size: str) -> list[Cell]:
    """InfoNCE and the Bayesian loss for every N."""
    cells = []
    for data in ("cifar10", "stl10") if size == "paper" else ("digits",):
        for loss in LOSSES:
            for batch_size in BATCH_SIZES:
                negatives = str(2 * batch_size - 2)
                key = (data, loss, negatives)
                cells.append(
                    Cell(
                        keys={
                            "data set": TITLES[data],
                            "loss": ALL_LOSSES[loss].title,
                            "N": negatives,
                        },
                        settings=cell_settings(size, data, loss, batch_size=batch_size),
                        paper={"linear": _PRINTED[key]} if key in _PRINTED else {},
                    )
                )
    return cells


NEGATIVES = PaperTable(
    name="negatives",
    title="The number N of negatives, by way of the batch size",
    label="Exp:N",
    measures=("linear", "few_label_1"),
    cells=_cells,
    remarks=(
        "With the batch also the number of steps changes, and the noise of each: not all of a "
        "difference is due to N.",
    ),
)
"""``bayescl reproduce negatives``."""
