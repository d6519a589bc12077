"""Seconds per epoch, which the paper prints in its table "Impacts of negative sample size N"."""

from __future__ import annotations

from dataclasses import replace

from bayescl.experiments.images.paper.sizes import TITLES, cell_settings
from bayescl.experiments.images.paper.table import Cell, PaperFigure, PaperTable
from bayescl.runs.losses import LOSSES as ALL_LOSSES

LOSSES = ("info_nce", "bayesian")
EPOCHS = {"smoke": 5, "paper": 5}
"""Few epochs suffice: the median leaves out the first, which warms up."""

_PRINTED = {"cifar10": 82.0, "stl10": 169.0}
"""The paper prints the same for both losses."""


def _cells(size: str) -> list[Cell]:
    """Both losses at N = 510, with the probe that costs least."""
    cells = []
    for data in ("cifar10", "stl10") if size == "paper" else ("digits",):
        for loss in LOSSES:
            settings = replace(
                cell_settings(size, data, loss), epochs=EPOCHS[size], linear_protocol="fast"
            )
            printed = {}
            if data in _PRINTED:
                printed["seconds_per_epoch"] = PaperFigure(_PRINTED[data])
            cells.append(
                Cell(
                    keys={"data set": TITLES[data], "loss": ALL_LOSSES[loss].title},
                    settings=settings,
                    paper=printed,
                )
            )
    return cells


RUNTIME = PaperTable(
    name="runtime",
    title="Seconds per epoch, N = 510",
    label="Exp:N",
    measures=("seconds_per_epoch",),
    cells=_cells,
    seeds={"smoke": 3, "paper": 3},
    remarks=(
        "The paper does not name its hardware: ratios of losses can be compared, seconds cannot.",
        "Of a run the median epoch counts; runs of the losses take turns, one at a time.",
    ),
    is_timed=True,
)
"""``bayescl reproduce runtime``."""
