"""Errors and mean values of all estimators over ranges of one parameter, and their verdicts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

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
    Look,
    curve,
    estimator_curves,
    label_swept,
    sized_panels,
)
from bayescl_lab.paper.simulation.frames import (
    Record,
    Tick,
    banded,
    frame,
    measured,
)
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

SWEPT_PROPOSALS: tuple[Proposal, ...] = ("slide", "script")
SHOWN = (*RIVALS, "bayesian_upper", "bayesian_mid")
WIDE = 1e6
"""Ratio of a curve's ends beyond which errors are shown relative to the biased estimator's."""


@dataclass(frozen=True)
class Draw:
    """One draw of the experiment: every estimator over its anchors."""

    error: dict[str, float]
    """Mean squared error to the supervised mean."""

    value: dict[str, float]
    """Mean over anchors."""

    left_out: int
    """Number of anchors without a true negative, which have no supervised mean."""


def one_draw(settings: Settings, source: torch.Generator, *, assumed: float | None = None) -> Draw:
    """Run the process once and compare every estimator with the realised supervised mean.

    Estimators assume the process's alpha, or another one. Anchors without a true negative are left
    out and counted. For N = 64 and a prior of 0.1 there are none.

    Reference:
        Liu et al., ICML 2024, section "Numerical Experiment", the definition of MSE.
    """
    kept: dict[str, list[Float[Tensor, " some"]]] = {}
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


def sweep(
    parameters: Iterable[str],
    settings: Settings,
    seed: int,
    tick: Tick = lambda _: None,
    *,
    proposals: Sequence[Proposal] = (),
) -> pl.DataFrame:
    """Repeat the experiment over the values of each parameter in turn.

    ``parameters`` are names in :data:`SWEEPS`; the others keep the values of the settings. The
    sweep is made with each of ``proposals``; default: the settings' own.

    Returns:
        One record per proposal, parameter, value and estimator. ``mse``, ``mean`` and ``bias``
        (mean over anchors less that of the supervised estimator, draw by draw) are averages over
        draws with a band (``_low`` to ``_high``, quantiles 5 % to 95 % over draws) and the
        average's standard error. ``below_biased`` is how far the estimator's MSE lies below that of
        the biased one on the same draws, with the standard error of this paired difference;
        ``below_debiased`` likewise. ``left_out`` counts anchors without a true negative over all
        draws.

    Raises:
        ValueError: if every anchor of a draw is left out.

    Example:
        >>> table = sweep(["gamma"], Settings(anchors=10, draws=2), seed=0)
        >>> table.filter(value=0.5, estimator="supervised")["mse"].item()
        0.0
    """
    points = [
        (parameter, value, replace(settings, proposal=proposal))
        for proposal in proposals or (settings.proposal,)
        for parameter in parameters
        for value in SWEEPS[parameter]
    ]
    return measured(points, lambda point: _records(*point, seed), tick)


@lru_cache(maxsize=256)
def _records(
    parameter: str, value: float | int, settings: Settings, seed: int
) -> tuple[Record, ...]:
    """The records of one value: all estimators over repeated draws.

    Cached, because several figures show parts of the same sweeps.
    """
    point = replace(settings, **{parameter: value})  # type: ignore[arg-type]  # a field by its name
    draws = [
        one_draw(point, generator(seed, "sweep", point.proposal, parameter, value, index))
        for index in range(settings.draws)
    ]
    if any(drawn.left_out == point.anchors for drawn in draws):
        raise ValueError(
            f"no anchor has a true negative at {parameter} = {value:g}: raise candidates or "
            "anchors, or lower tau_plus"
        )
    records = []
    for name in draws[0].error:
        errors = [drawn.error[name] for drawn in draws]
        biases = [drawn.value[name] - drawn.value[SUPERVISED] for drawn in draws]
        record: Record = {
            "proposal": point.proposal,
            "parameter": parameter,
            "value": float(value),
            "estimator": name,
            "draws": settings.draws,
            "left_out": sum(drawn.left_out for drawn in draws),
            **banded("mse", errors),
            **banded("mean", [drawn.value[name] for drawn in draws]),
            **banded("bias", biases),
        }
        for rival in RIVALS:
            key = f"below_{rival}"
            below = banded(key, [drawn.error[rival] - drawn.error[name] for drawn in draws])
            record |= {column: below[column] for column in (key, f"{key}_error")}
        records.append(record)
    return tuple(records)


def verdicts(
    settings: Settings,
    seed: int,
    tick: Tick = lambda _: None,
    *,
    parameters: Sequence[str] = PANELS,
) -> pl.DataFrame:
    """Say for every point of the sweeps whether the Bayesian error is below its rivals'.

    Both estimators see the same draws, so the standard error is that of the paired difference.
    With a threshold of two standard errors, one verdict in twenty would be wrong by chance if two
    estimators were equally good. The proposals are ``slide`` and ``script``.

    Returns:
        One record per proposal, parameter, value, Bayesian variant and rival, with the ratio of
        the two mean squared errors, how many standard errors the Bayesian one lies below, and
        the verdict: "below", "tied" or "above".
    """
    swept = sweep(parameters, settings, seed, tick, proposals=SWEPT_PROPOSALS)
    records: list[Record] = []
    for point in swept.partition_by("proposal", "parameter", "value", maintain_order=True):
        mse = dict(point.select("estimator", "mse").iter_rows())
        for record in point.filter(pl.col("estimator").is_in(VARIANTS)).rows(named=True):
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
    return frame(records)


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
        parts = table.partition_by("parameter", maintain_order=True)
        panels = [(column, part) for column in columns for part in parts]
        wide = across or len(parts)
        proposal = table["proposal"][0]
        rows = len(panels) // wide
        figure, axes = sized_panels(rows, wide, title=title.format(proposal=proposal))
        for axis, (column, part) in zip(axes, panels, strict=True):
            parameter, label = part["parameter"][0], columns[column]
            biased = part.filter(estimator="biased").select("value", scale=column)
            scale = biased["scale"].to_numpy()
            if column == "mse" and scale.max() > WIDE * scale.min() > 0:
                ends = pl.col("mse", "mse_low", "mse_high")
                part = part.join(biased, on="value").with_columns(ends / pl.col("scale"))
                label = "MSE / mean MSE of biased"
            estimator_curves(axis, part, names, y=column)
            label_swept(axis, parameter, label)
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
    parts = places.partition_by("proposal", maintain_order=True)
    for axis, part in zip(axes, parts, strict=True):
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
