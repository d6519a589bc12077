r"""The numerical experiments: measurements and figures.

All tables have the same columns, so one function draws every figure: a panel for each ``panel``, in
it a line for each ``curve``, and ``y`` over ``x``. If ``y`` is a mean over draws, ``y_low`` and
``y_high`` enclose nine in ten draws, and ``y_error`` is the standard error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
import torch
from matplotlib.figure import Figure
from torch import Tensor

from bayescl import functional as F
from bayescl_lab._figures import FALSE_COLOR, LEVELS, NEUTRAL, TRUE_COLOR, panels
from bayescl_lab._files import save_figure, write_atomically
from reproduction.process import (
    Settings,
    estimates,
    independent_pair_auc,
    mean_and_error,
    observe,
    over_draws,
)

SWEEPS: dict[str, Sequence[float | int]] = {
    "alpha": (0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 1.0),
    "candidates": (4, 8, 16, 32, 64, 128, 256, 512),
    "tau_plus": (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9),
    "gamma": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "temperature": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
    "anchors": (10, 30, 100, 300, 1000, 3000),
    "concentration": (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0),
}
"""Swept values by parameter. The other parameters keep their settings."""

SWEPT = ("alpha", "candidates", "tau_plus", "gamma", "temperature", "anchors")
"""Parameters of the paper's figure."""

ALPHAS = (0.5, 0.7, 0.9, 1.0)
MSE = "MSE to the supervised mean"
"""Label of errors."""

SHOWN = ("biased", "debiased", "bayesian_upper", "bayesian_mid")


class Look(NamedTuple):
    """Color, line style, marker and name of a curve."""

    color: str
    line: str
    marker: str
    title: str


# The palette of Okabe and Ito, which color-blind readers can tell apart.
LOOKS = {
    "biased": Look("#D55E00", "--", "s", "biased (InfoNCE)"),
    "debiased": Look("#56B4E9", "-.", "^", "debiased"),
    "hard": Look("#CC79A7", ":", "v", "hard negatives"),
    "bayesian_upper": Look("#009E73", "-", "D", "Bayesian, upper ranks"),
    "bayesian_mid": Look("#0072B2", "-", "o", "Bayesian, mid-ranks"),
    "proposal": Look(NEUTRAL, ":", "", r"proposal $\phi$"),
    "true_negatives": Look(TRUE_COLOR, "-", "", r"true negatives $\phi_{TN}$"),
    "false_negatives": Look(FALSE_COLOR, "--", "", r"false negatives $\phi_{FN}$"),
    "given_alpha": Look(TRUE_COLOR, "-", "o", r"given the true $\alpha$"),
    "given_auc": Look(FALSE_COLOR, "--", "s", r"given the AUC for $\alpha$"),
    "bound": Look(FALSE_COLOR, "-", "", "bound as printed"),
    "corrected_bound": Look(NEUTRAL, "--", "", "bound with the proof corrected"),
    "alpha_model": Look(TRUE_COLOR, "-", "o", "alpha with labels: AUC inverted (.model)"),
    "alpha_authors": Look(FALSE_COLOR, "--", "s", "alpha with labels: the AUC (.authors)"),
    "free_alpha": Look("#009E73", "-.", "^", "alpha without labels"),
    "auc": Look("#CC79A7", "-", "D", "AUC with labels"),
    "free_auc": Look("#E69F00", "-", "v", "AUC without labels"),
    "largest": Look(NEUTRAL, "--", "", "largest AUC of the model, 5/6"),
}
LABELS = {
    "alpha": r"encoder's quality $\alpha$",
    "candidates": "candidates per anchor $N$",
    "tau_plus": r"prior of false negatives $\tau^+$",
    "gamma": r"slide of the proposal $\gamma$",
    "temperature": "temperature $t$",
    "anchors": "anchors $M$",
    "concentration": "concentration of the hard estimator",
    "level": r"CDF of unlabeled candidates $\Phi_{UN}$",
    "score": "score $x$",
    "epoch": "epoch",
}
LOGARITHMIC = {"candidates": 2, "anchors": 10}


class Row(NamedTuple):
    """A row of a table."""

    panel: str
    curve: str
    x: float
    y: float
    y_low: float | None = None
    y_high: float | None = None
    y_error: float | None = None


SCHEMA = {"panel": pl.String, "curve": pl.String} | dict.fromkeys(Row._fields[2:], pl.Float64)


@dataclass(frozen=True)
class Experiment:
    """One numerical experiment.

    Args:
        name: Name on the command line and of the files.
        summary: Title of the figure.
        measure: Function that returns the rows at some settings, given the seed and the parameter
            that is swept.
        swept: Parameters to sweep in turn.
        y: Label of the y axes. Errors have logarithmic axes.
        x: A key of :data:`LABELS`. Default: the name of each panel.
    """

    name: str
    summary: str
    measure: Callable[[Settings, int, str], list[Row]]
    swept: Sequence[str] = ()
    y: str = MSE
    x: str = ""

    def run(self, settings: Settings, seed: int) -> pl.DataFrame:
        """Measure every point, and join the tables."""
        rows = list[Row]()
        for parameter, point in points_of(settings, self.swept) or [("", settings)]:
            rows += self.measure(point, seed, parameter)
        table = pl.DataFrame(rows, SCHEMA, orient="row")
        # Six digits are enough for figures, and hide effects of summation order.
        return table.with_columns(pl.col(pl.Float64).round_sig_figs(6))

    def write(self, table: pl.DataFrame, folder: Path) -> None:
        """Write the table as CSV and its figure as PNG."""
        write_atomically(folder / f"{self.name}.csv", table.write_csv())
        save_figure(self.draw(table), folder / f"{self.name}.png")

    def draw(self, table: pl.DataFrame) -> Figure:
        """Plot the experiment's table."""
        title = self.summary[0].upper() + self.summary[1:]
        band = "5 % to 95 % quantiles of the draws"
        return draw(table, title, self.y, band, x=self.x, is_error=self.y == MSE)


def draw(
    table: pl.DataFrame, title: str, y: str, band: str, *, x: str = "", is_error: bool = False
) -> Figure:
    """Plot a table: a panel for each ``panel``, and in it a line for each ``curve``.

    ``x`` is a key of :data:`LABELS`. By default, it is the name of each panel. ``y`` and ``band``
    describe the lines and the bands around them. Errors have logarithmic axes.
    """
    parts = table.partition_by("panel", maintain_order=True)
    columns = 3 if len(parts) > 4 else min(2, len(parts))
    rows = -(-len(parts) // columns)
    size = {"width": max(4.0 * columns, 5.5), "height": 3.2 * rows + 1.1}
    figure, axes = panels(rows, columns, title=title, **size)
    for axis, part in zip(axes, parts, strict=True):
        panel = part["panel"][0]
        for number, line in enumerate(part.partition_by("curve", maintain_order=True)):
            name = line["curve"][0]
            other = Look(LEVELS[number % 4], ("-", "--", "-.", ":")[number % 4], "", name)
            look = LOOKS.get(name, other)
            style: Any = {"ls": look.line, "marker": look.marker, "ms": 4, "label": look.title}
            axis.plot(line["x"], line["y"], color=look.color, lw=1.6, **style)
            if line["y_low"].null_count() == 0:
                ends = line["y_low"], line["y_high"]
                axis.fill_between(line["x"], *ends, color=look.color, alpha=0.18, lw=0)
        axis.set(xlabel=LABELS[x or panel], ylabel=y)
        if panel not in LABELS:
            axis.set_title(panel)
        if panel in LOGARITHMIC:
            axis.set_xscale("log", base=LOGARITHMIC[panel])
        if is_error:
            axis.set_yscale("log")
    has_bands = table["y_low"].null_count() < len(table)
    lines = {line.get_label(): line for axis in axes for line in axis.get_lines()}
    layout: Any = {"loc": "outside lower center", "ncols": 2 if columns < 3 else 4}
    layout |= {"title": f"line: mean; band: {band}" if has_bands else None}
    figure.legend(handles=[*lines.values()], title_fontsize=9, frameon=False, **layout)
    return figure


def curve(panel: str, name: str, x: Tensor, y: Tensor) -> list[Row]:
    """Return the rows of a curve in closed form."""
    return [Row(panel, name, *point) for point in zip(x.tolist(), y.tolist(), strict=True)]


def summarized(panel: str, name: str, x: float, draws: Sequence[float]) -> Row:
    """Return the mean of some draws, a band that holds nine in ten, and the standard error.

    Example:
        >>> summarized("alpha", "biased", 0.9, [1.0, 2.0, 3.0])[3:6]
        (2.0, 1.1, 2.9)
    """
    values = torch.tensor(draws, dtype=torch.float64)
    low, high = torch.quantile(values, values.new_tensor([0.05, 0.95])).tolist()
    mean, error = mean_and_error(values)
    return Row(panel, name, x, float(mean), low, high, float(error))


def densities(*_: object) -> list[Row]:
    """Compute densities of the scores of both classes for a standard normal proposal, by alpha."""
    score = torch.linspace(-4, 4, 201, dtype=torch.float64)
    density = torch.exp(-(score**2) / 2) / (2 * torch.pi) ** 0.5
    cdf, rows = torch.special.ndtr(score), list[Row]()
    for alpha in ALPHAS:
        panel = rf"$\alpha$ = {alpha:g}"
        true, false = (
            mixture(alpha).density(density, cdf)
            for mixture in (F.PairMixture.true_negatives, F.PairMixture.false_negatives)
        )
        rows += curve(panel, "proposal", score, density)
        rows += curve(panel, "true_negatives", score, true)
        rows += curve(panel, "false_negatives", score, false)
    return rows


def weights(settings: Settings, *_: object) -> list[Row]:
    """Tabulate importance weights over the candidates' CDF, for several beta or alpha."""
    level, rows = torch.linspace(0, 1, 201, dtype=torch.float64), list[Row]()
    for fixed, varied, at in (("alpha", "beta", 0.9), ("beta", "alpha", 0.5)):
        for value in ALPHAS:
            values = {"tau_plus": settings.tau_plus, fixed: at, varied: value}
            proposal = F.proposal_cdf(level, alpha=values["alpha"], tau_plus=settings.tau_plus)
            weight = F.importance_weights(proposal, **values)
            rows += curve(rf"$\{fixed}$ = {at:g}", rf"$\{varied}$ = {value:g}", level, weight)
    return rows


def auc_as_alpha(settings: Settings, seed: int, parameter: str) -> list[Row]:
    """Measure the cost of using the AUC as alpha.

    The MSE of the Bayesian estimator (mid-ranks) is measured with the true alpha and with the AUC,
    on the same draws.
    """
    alpha, rows = settings.alpha, list[Row]()
    for name, assumed in (("given_alpha", alpha), ("given_auc", independent_pair_auc(alpha))):
        draw = partial(one_draw, settings, assumed=assumed)
        draws = over_draws(draw, settings, seed, "assumed", alpha)
        errors = [one["bayesian_mid"]["mse"] for one in draws]
        rows.append(summarized(parameter, name, alpha, errors))
    return rows


def one_draw(
    settings: Settings, source: torch.Generator, assumed: float | None = None
) -> dict[str, dict[str, float]]:
    """Run the process once and compare every estimator with the realized supervised mean.

    Estimators assume the process's alpha, or another one. Anchors without a true negative are left
    out. ``bias`` is the mean of an estimator minus the supervised mean.
    """
    believed = settings if assumed is None else replace(settings, alpha=assumed)
    chunks = [estimates(chunk, believed) for chunk in observe(settings, source)]
    values = {name: torch.cat([chunk[name] for chunk in chunks]) for name in chunks[0]}
    supervised = values.pop("supervised")
    known = ~supervised.isnan()
    mean = float(supervised[known].mean())
    return {
        name: {
            "mse": float((value - supervised)[known].square().mean()),
            "bias": float(value[known].mean()) - mean,
        }
        for name, value in values.items()
    }


def points_of(settings: Settings, parameters: Sequence[str]) -> list[tuple[str, Settings]]:
    """Return the points of a sweep over each parameter in turn."""
    changes: Any = [{name: value} for name in parameters for value in SWEEPS[name]]
    return [(*change.keys(), replace(settings, **change)) for change in changes]


def sweep(
    settings: Settings,
    seed: int,
    parameter: str,
    *,
    figure: str = "mse",
    names: Sequence[str] = SHOWN,
) -> list[Row]:
    """Measure estimators over repeated draws at one point of a sweep over a parameter.

    Raises:
        ValueError: if no anchor of a draw has a true negative.
    """
    value = getattr(settings, parameter)
    path = ("sweep", settings.proposal, parameter, value)
    draws = over_draws(partial(one_draw, settings), settings, seed, *path)
    if any(math.isnan(draw["biased"]["mse"]) for draw in draws):
        raise ValueError(
            f"no anchor has a true negative at {parameter} = {value:g}: raise candidates or "
            "anchors, or lower tau_plus"
        )
    return [
        summarized(parameter, name, float(value), [draw[name][figure] for draw in draws])
        for name in names
    ]


_EVERY = (
    Experiment("densities", "densities of normal scores", densities, y="density", x="score"),
    Experiment("weights", "importance weights", weights, y="importance weight $w$", x="level"),
    Experiment("auc-as-alpha", "Bayesian estimator with the AUC as alpha", auc_as_alpha, ["alpha"]),
    Experiment("mse", "error of the estimators over six parameters", sweep, SWEPT),
    Experiment(
        "means",
        "mean of the estimators less the supervised mean",
        partial(sweep, figure="bias"),
        ["alpha", "candidates"],
        "mean less supervised mean",
    ),
    Experiment(
        "hard",
        "error of the hard estimator",
        partial(sweep, names=("hard", *SHOWN)),
        ["concentration"],
    ),
)
EXPERIMENTS = {experiment.name: experiment for experiment in _EVERY}
