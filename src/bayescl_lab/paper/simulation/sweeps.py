"""Errors and mean values of all estimators over ranges of one parameter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import polars as pl
import torch
from matplotlib.figure import Figure

from bayescl_lab._figures import legend_below
from bayescl_lab.paper.simulation.estimators import SUPERVISED, estimates
from bayescl_lab.paper.simulation.figures import (
    BAND_NOTE,
    ESTIMATORS,
    LABELS,
    LOGARITHMIC,
    estimator_curves,
    parts_of,
    sized_panels,
)
from bayescl_lab.paper.simulation.frames import Record, over_draws, rounded, with_error
from bayescl_lab.paper.simulation.process import Proposal, Settings, generator, observe

SWEEPS: dict[str, Sequence[float | int]] = {
    "alpha": (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0),
    "candidates": (4, 8, 16, 32, 64, 128, 256, 512),
    "tau_plus": (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9),
    "gamma": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "temperature": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "anchors": (10, 30, 100, 300, 1000, 3000),
    "concentration": (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0),
}
"""Swept values by parameter; the other parameters keep their settings."""

PANELS = ("alpha", "candidates", "tau_plus", "gamma", "temperature", "anchors")
"""The swept parameters of the paper's figure, panel by panel."""

SHOWN = ("biased", "debiased", "bayesian_upper", "bayesian_mid")
VARIANTS = [name for name in ESTIMATORS if name.startswith("bayesian")]
WIDE = 1e6
"""Ratio of a curve's ends beyond which errors are shown relative to the biased estimator's."""

Point = tuple[str, float | int, Settings]
"""The swept parameter, its value, and the settings."""


def one_draw(
    settings: Settings, source: torch.Generator, *, assumed: float | None = None
) -> dict[str, dict[str, float]]:
    """Run the process once and compare every estimator with the realised supervised mean.

    Estimators assume the process's alpha, or another one. ``left_out`` counts anchors without a
    true negative, which have no supervised mean; ``bias`` is an estimator's mean less the
    supervised one.
    """
    believed = settings if assumed is None else replace(settings, alpha=assumed)
    chunks = [estimates(chunk, believed) for chunk in observe(settings, source)]
    values = {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}
    supervised = values[SUPERVISED]
    known = ~supervised.isnan()
    mse = {name: float((v - supervised)[known].square().mean()) for name, v in values.items()}
    mean = {name: float(v[known].mean()) for name, v in values.items()}
    return {
        name: {
            "left_out": int((~known).sum()),
            "mse": mse[name],
            "mean": mean[name],
            "bias": mean[name] - mean[SUPERVISED],
        }
        for name in values
    }


def points_of(
    *parameters: str, proposals: Sequence[Proposal] = ()
) -> Callable[[Settings], list[Point]]:
    """The points of a sweep over each parameter in turn, with each of the proposals.

    Other parameters keep the settings' values, and so do proposals if none are named.
    """
    return lambda settings: [
        (parameter, value, replace(settings, proposal=proposal))
        for proposal in proposals or (settings.proposal,)
        for parameter in parameters
        for value in SWEEPS[parameter]
    ]


@lru_cache(maxsize=256)
def sweep(point: Point, seed: int) -> pl.DataFrame:
    """All estimators over repeated draws at one point of a sweep.

    Cached, because several figures show parts of the same sweeps. There is one row per estimator,
    with the figures of :func:`one_draw`.

    Raises:
        ValueError: if every anchor of a draw is left out.

    Example:
        >>> table = sweep(("gamma", 0.5, Settings(anchors=10, draws=2)), 0)
        >>> table.filter(estimator="supervised")["mse"].to_list()
        [0.0]
    """
    parameter, value, settings = point
    changes: Any = {parameter: value}
    here = replace(settings, **changes)
    place: Record = {"proposal": here.proposal, "parameter": parameter, "value": float(value)}
    rows: list[Record] = []
    for index in range(settings.draws):
        source = generator(seed, "sweep", here.proposal, parameter, value, index)
        draw = one_draw(here, source)
        rows += [
            {**place, "estimator": name, "draws": settings.draws, **row}
            for name, row in draw.items()
        ]
        if draw[SUPERVISED]["left_out"] == here.anchors:
            raise ValueError(
                f"no anchor has a true negative at {parameter} = {value:g}: raise candidates or "
                "anchors, or lower tau_plus"
            )
    return rounded(over_draws(rows, "mse", "mean", "bias", sums=["left_out"]))


def draw_panels(
    title: str,
    names: Sequence[str],
    columns: Mapping[str, str],
    *,
    across: int = 0,
    logarithmic: Sequence[str] = (),
) -> Callable[[pl.DataFrame], Figure]:
    """A drawing of a sweep: a panel for each column and swept parameter, a curve per estimator.

    Where errors span many orders of magnitude along a curve, curves are divided by the biased
    estimator's mean: side by side they could not be told apart. ``columns`` has a label for each
    drawn column; ``across`` is the number of panels in a row, by default one per parameter.
    """

    def draw(table: pl.DataFrame) -> Figure:
        parts = parts_of(table, "parameter")
        panels = [(column, part) for column in columns for part in parts]
        wide = across or len(parts)
        figure, axes = sized_panels(
            len(panels) // wide, wide, title=title.format(proposal=table["proposal"][0])
        )
        for axis, (column, part) in zip(axes, panels, strict=True):
            parameter, label = part["parameter"][0], columns[column]
            biased = part.filter(estimator="biased").select("value", scale=column)
            scale = biased["scale"].to_numpy()
            if column == "mse" and scale.max() > WIDE * scale.min() > 0:
                ends = pl.col("mse", "mse_low", "mse_high")
                part = part.join(biased, on="value").with_columns(ends / pl.col("scale"))
                label = "MSE / mean MSE of biased"
            estimator_curves(axis, part, names, "value", column)
            axis.set(xlabel=LABELS[parameter], ylabel=label)
            if parameter in LOGARITHMIC:
                axis.set_xscale("log", base=LOGARITHMIC[parameter])
            if parameter in logarithmic:
                axis.set_yscale("log")
            if column == "bias":
                axis.set_ylim(-0.03, 0.08)
        legend_below(figure, axes[0], columns=2 if wide < 3 else 4, note=BAND_NOTE)
        return figure

    return draw


def errors_finding(table: pl.DataFrame) -> str:
    """Which estimator errs least, point by point?"""
    shown = table.filter(pl.col("estimator").is_in(["biased", "debiased", "hard", "bayesian_mid"]))
    best = shown.filter(pl.col("mse") == pl.col("mse").min().over("parameter", "value"))
    points = len(shown.unique(["parameter", "value"]))
    counts = best["estimator"].value_counts(sort=True).rows()
    wins = ", ".join(f"{ESTIMATORS[name].title} {count}" for name, count in counts)
    return f"Smallest mean error at {points} swept points (ties count for each): {wins}."


def means_finding(table: pl.DataFrame) -> str:
    """How far are the estimators' means from the supervised one's?"""
    gaps = []
    for name in SHOWN:
        sorted_rows = table.filter(estimator=name).sort(pl.col("bias").abs()).rows(named=True)
        gaps.append(f"{ESTIMATORS[name].title} {with_error(sorted_rows[-1], 'bias')}")
    return f"Largest difference to the supervised mean: {', '.join(gaps)}."


script_points = points_of(*PANELS, proposals=["script"])

_MSE = {"mse": "MSE to the supervised mean"}
draw_errors = draw_panels(
    "Mean squared error, proposals: {proposal}", SHOWN, _MSE, across=3, logarithmic=PANELS
)
draw_means = draw_panels(
    "Mean values of the estimators",
    (*SHOWN, SUPERVISED),
    {"mean": "mean over anchors", "bias": "mean less supervised mean"},
)
draw_variants = draw_panels(
    "Variants of the Bayesian estimator", VARIANTS, _MSE, logarithmic=["candidates"]
)
draw_hard = draw_panels(
    "Error of the hard estimator",
    ("hard", *SHOWN),
    _MSE,
    logarithmic=["concentration", "temperature"],
)
