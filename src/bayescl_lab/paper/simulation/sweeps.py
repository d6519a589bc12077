"""Errors and mean values of all estimators over ranges of one parameter, and their verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import polars as pl
import torch
from matplotlib.figure import Figure

from bayescl.axes import Float, Tensor
from bayescl.figures import legend_below
from bayescl_lab.paper.simulation.estimators import SUPERVISED, TITLES, VARIANTS, estimates
from bayescl_lab.paper.simulation.figures import (
    BAND_NOTE,
    ESTIMATORS,
    LABELS,
    LOGARITHMIC,
    Look,
    curve,
    estimator_curves,
    parts_of,
    sized_panels,
)
from bayescl_lab.paper.simulation.frames import Experiment, Record, banded, frame, with_error
from bayescl_lab.paper.simulation.process import Proposal, Settings, generator, observe

RIVALS = ("biased", "debiased")
"""Estimators whose error the paper compares with the Bayesian one."""

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

STANDARD_ERRORS = 2.0
"""A difference counts if it exceeds this many standard errors."""

SHOWN = (*RIVALS, "bayesian_upper", "bayesian_mid")
WIDE = 1e6
"""Ratio of a curve's ends beyond which errors are shown relative to the biased estimator's."""

Point = tuple[str, float | int, Settings]
"""The swept parameter, its value, and the settings."""


@dataclass(frozen=True)
class Draw:
    """One draw of the experiment: every estimator over its anchors.

    Attributes:
        error: mean squared error to the supervised mean.
        value: mean over anchors.
        left_out: number of anchors without a true negative, which have no supervised mean.
    """

    error: dict[str, float]
    value: dict[str, float]
    left_out: int


def one_draw(settings: Settings, source: torch.Generator, *, assumed: float | None = None) -> Draw:
    """Run the process once and compare every estimator with the realised supervised mean.

    Estimators assume the process's alpha, or another one. Anchors without a true negative are left
    out and counted. For N = 64 and a prior of 0.1 there are none.

    Reference:
        Liu et al., ICML 2024, section "Numerical Experiment", the definition of MSE.
    """
    kept: dict[str, list[Float[Tensor, " known"]]] = {}
    left_out = 0
    believed = settings if assumed is None else replace(settings, alpha=assumed)
    for chunk in observe(settings, source):
        known = chunk.true_negative.any(dim=1)
        left_out += int((~known).sum())
        for name, value in estimates(chunk, believed).items():
            kept.setdefault(name, []).append(value[known])
    values = {name: torch.cat(parts) for name, parts in kept.items()}
    supervised = values[SUPERVISED]
    return Draw(
        error={name: float(((v - supervised) ** 2).mean()) for name, v in values.items()},
        value={name: float(v.mean()) for name, v in values.items()},
        left_out=left_out,
    )


def points_of(
    *parameters: str, proposals: Sequence[Proposal] = ()
) -> Callable[[Settings], list[Point]]:
    """The points of a sweep over each parameter in turn; the others keep the settings' values.

    The sweep is made with each of ``proposals``; default: the settings' own.
    """
    return lambda settings: [
        (parameter, value, replace(settings, proposal=proposal))
        for proposal in proposals or (settings.proposal,)
        for parameter in parameters
        for value in SWEEPS[parameter]
    ]


@lru_cache(maxsize=256)
def sweep(point: Point, seed: int) -> tuple[Record, ...]:
    """All estimators over repeated draws at one point of a sweep.

    Cached, because several figures show parts of the same sweeps.

    Returns:
        One record per estimator. ``mse``, ``mean`` and ``bias`` (mean over anchors less that of the
        supervised estimator, draw by draw) are averages over draws with a band (``_low`` to
        ``_high``, quantiles 5 % to 95 % over draws) and the average's standard error.
        ``below_biased`` is how far the estimator's MSE lies below that of the biased one on the
        same draws, with the standard error of this paired difference; ``below_debiased`` likewise.
        ``left_out`` counts anchors without a true negative over all draws.

    Raises:
        ValueError: if every anchor of a draw is left out.

    Example:
        >>> records = sweep(("gamma", 0.5, Settings(anchors=10, draws=2)), 0)
        >>> [record["mse"] for record in records if record["estimator"] == "supervised"]
        [0.0]
    """
    parameter, value, settings = point
    changes: Any = {parameter: value}
    here = replace(settings, **changes)
    draws = [
        one_draw(here, generator(seed, "sweep", here.proposal, parameter, value, index))
        for index in range(settings.draws)
    ]
    if any(drawn.left_out == here.anchors for drawn in draws):
        raise ValueError(
            f"no anchor has a true negative at {parameter} = {value:g}: raise candidates or "
            "anchors, or lower tau_plus"
        )
    records = []
    for name in draws[0].error:
        record: Record = {
            "proposal": here.proposal,
            "parameter": parameter,
            "value": float(value),
            "estimator": name,
            "draws": settings.draws,
            "left_out": sum(drawn.left_out for drawn in draws),
            **banded("mse", [drawn.error[name] for drawn in draws]),
            **banded("mean", [drawn.value[name] for drawn in draws]),
            **banded("bias", [drawn.value[name] - drawn.value[SUPERVISED] for drawn in draws]),
        }
        for rival in RIVALS:
            key = f"below_{rival}"
            below = banded(key, [drawn.error[rival] - drawn.error[name] for drawn in draws])
            record |= {column: below[column] for column in (key, f"{key}_error")}
        records.append(record)
    return tuple(records)


def verdicts(point: Point, seed: int) -> list[Record]:
    """Whether the Bayesian error is below its rivals' at one point of a sweep.

    Both estimators see the same draws, so the standard error is that of the paired difference.
    With a threshold of two standard errors, one verdict in twenty would be wrong by chance if two
    estimators were equally good.

    Returns:
        One record per Bayesian variant and rival, with the ratio of the two mean squared errors,
        how many standard errors the Bayesian one lies below, and the verdict: "below", "tied" or
        "above".
    """
    swept = frame(sweep(point, seed))
    mse = dict(swept.select("estimator", "mse").iter_rows())
    records: list[Record] = []
    for record in swept.filter(pl.col("estimator").is_in(VARIANTS)).rows(named=True):
        for rival in RIVALS:
            margin, error = record[f"below_{rival}"], record[f"below_{rival}_error"]
            place = ("proposal", "parameter", "value", "estimator")
            records.append(
                {
                    **{name: record[name] for name in place},
                    "rival": rival,
                    "ratio": _ratio(record["mse"], mse[rival]),
                    "standard_errors_below": margin / error if error else 0.0,
                    "verdict": verdict(margin, error),
                }
            )
    return records


def _ratio(error: float, rival: float) -> float:
    """The ratio of two errors; a rival without error is matched only by one without error."""
    if rival == 0:
        return 1.0 if error == 0 else math.inf
    return error / rival


def verdict(margin: float, error: float) -> str:
    """Whether an estimator whose MSE lies ``margin`` below its rival's is better.

    Example:
        >>> verdict(1.0, 0.1), verdict(0.1, 0.1), verdict(-1.0, 0.1)
        ('below', 'tied', 'above')
    """
    if abs(margin) <= STANDARD_ERRORS * error:
        return "tied"
    return "below" if margin > 0 else "above"


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


def draw_verdicts(table: pl.DataFrame) -> Figure:
    """MSE of the Bayesian estimator over that of each rival, for every swept point."""
    title = "Every swept point: MSE of the Bayesian estimator over a rival's"
    figure, axes = sized_panels(2, 1, title=title)
    parameters = table["parameter"].unique(maintain_order=True).to_list()
    places = table.with_columns(
        place=pl.col("parameter").replace_strict(parameters, range(len(parameters)))
    )
    for axis, part in zip(axes, parts_of(places, "proposal"), strict=True):
        for shift, estimator in ((-0.24, "bayesian_upper"), (0.06, "bayesian_mid")):
            for side, rival, marker in ((0.0, "biased", "s"), (0.16, "debiased", "^")):
                here = part.filter(estimator=estimator, rival=rival).with_columns(
                    pl.col("place") + shift + side
                )
                look = Look(ESTIMATORS[estimator].colour, "none", marker)
                label = f"{TITLES[estimator]} over {rival}"
                curve(axis, here, "place", "ratio", look, label, alpha=0.7)
        axis.axhline(1, color="black", lw=1)
        axis.set(title=f"proposals: {part['proposal'][0]}", yscale="log", ylabel="ratio of MSE")
        axis.set_xticks(range(len(parameters)), [LABELS[name] for name in parameters])
        axis.tick_params(axis="x", labelrotation=12)
    legend_below(figure, axes[0], columns=2, note="below the line the Bayesian estimator is better")
    figure.set_size_inches(8.5, 8)
    return figure


def errors_finding(table: pl.DataFrame) -> str:
    """Which estimator errs least, point by point?"""
    shown = table.filter(pl.col("estimator").is_in(["biased", "debiased", "hard", "bayesian_mid"]))
    best = shown.filter(pl.col("mse") == pl.col("mse").min().over("parameter", "value"))
    points = len(shown.unique(["parameter", "value"]))
    counts = best["estimator"].value_counts(sort=True).rows()
    wins = ", ".join(f"{TITLES[name]} {count}" for name, count in counts)
    return f"Smallest mean error at {points} swept points (ties count for each): {wins}."


def verdicts_finding(table: pl.DataFrame) -> str:
    """Where is the Bayesian error below its rivals', and where is it not?"""
    sentences = []
    for estimator in ("bayesian_mid", "bayesian_upper"):
        here = table.filter(estimator=estimator)
        below, tied, above = (here.filter(verdict=word) for word in ("below", "tied", "above"))
        places = above.select("parameter", "value").unique(maintain_order=True).iter_rows()
        at = ", ".join(f"{parameter} = {value:g}" for parameter, value in places)
        sentences.append(
            f"{TITLES[estimator]}: error below the rival's in {len(below)} of {len(here)} "
            f"comparisons, tied in {len(tied)}, above in {len(above)}{f' (at {at})' * bool(at)}."
        )
    return " ".join(sentences)


def means_finding(table: pl.DataFrame) -> str:
    """How far are the estimators' means from the supervised one's?"""
    gaps = []
    for name in SHOWN:
        sorted_rows = table.filter(estimator=name).sort(pl.col("bias").abs()).rows(named=True)
        gaps.append(f"{TITLES[name]} {with_error(sorted_rows[-1], 'bias')}")
    return f"Largest difference to the supervised mean: {', '.join(gaps)}."


_MSE = {"mse": "MSE to the supervised mean"}
_DRAW_MSE = draw_panels(
    "Mean squared error, proposals: {proposal}", SHOWN, _MSE, across=3, logarithmic=PANELS
)

EXPERIMENTS = (
    Experiment(
        "mse",
        "error of the estimators over six parameters",
        sweep,
        _DRAW_MSE,
        errors_finding,
        points_of(*PANELS),
    ),
    Experiment(
        "mse-script",
        "the same with the proposals of the authors' script",
        sweep,
        _DRAW_MSE,
        errors_finding,
        points_of(*PANELS, proposals=("script",)),
    ),
    Experiment(
        "verdicts",
        "where the Bayesian estimator's error is below its rivals', point by point",
        verdicts,
        draw_verdicts,
        verdicts_finding,
        points_of(*PANELS, proposals=("slide", "script")),
    ),
    Experiment(
        "means",
        "mean values of the estimators",
        sweep,
        draw_panels(
            "Mean values of the estimators",
            (*SHOWN, SUPERVISED),
            {"mean": "mean over anchors", "bias": "mean less supervised mean"},
        ),
        means_finding,
        points_of("gamma", "alpha"),
    ),
    Experiment(
        "ranks",
        "variants of the Bayesian estimator",
        sweep,
        draw_panels("Variants of the Bayesian estimator", VARIANTS, _MSE, logarithmic=PANELS[1:2]),
        errors_finding,
        points_of("candidates", "alpha"),
    ),
    Experiment(
        "hard",
        "how the hard estimator's error explodes",
        sweep,
        draw_panels(
            "Error of the hard estimator",
            ("hard", *SHOWN),
            _MSE,
            logarithmic=["concentration", "temperature"],
        ),
        errors_finding,
        points_of("concentration", "temperature"),
    ),
)
