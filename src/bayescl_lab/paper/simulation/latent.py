"""Does the posterior of latent classes say how often two items are of one class?

Items are drawn from the model itself: each class is a von Mises-Fisher component, and the two views
of an item are that item with noise. Components are fitted as in the loss, to two views of each
remembered item, and evaluated on other items of the same classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import polars as pl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch.nn import functional as F

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.figures import FALSE_COLOUR, LEVELS, NEUTRAL, TRUE_COLOUR, legend_below, legend_under
from bayescl.functional import (
    Mixtures,
    fit_latent_classes,
    item_responsibilities,
    mean_kappa,
    responsibilities,
    same_class,
    trust_of_agreement,
)
from bayescl_lab.paper.simulation.figures import Look, curve, parts_of, sized_panels
from bayescl_lab.paper.simulation.frames import Record, over_draws
from bayescl_lab.paper.simulation.process import Settings, generator

DIM, KAPPA, NOISE = 32, 30.0, 0.5
"""Coordinates, concentration of the classes, and length of a view's noise beside an item's 1."""
REMEMBERED, JUDGED = 1024, 512
"""Numbers of items for fitting components and for evaluating them."""
BINS = 10

Classes = Literal["equal", "5:1"]
SIZES: tuple[Classes, ...] = ("equal", "5:1")
"""Classes of one size, or of sizes in equal ratios from the largest to a fifth of it."""

COMPONENTS = ("0.5", "1", "1.5", "2", "4", "together")
"""Components per class; "together" are 2 and 4 per class side by side, as the loss fits them."""
KNOWN = "known"
"""The classes' own components instead of fitted ones."""
NOISES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
SWEPT_WITH_NOISE = ("0.5", "1", "together")


class Point(NamedTuple):
    """One setting: the number of classes and of draws, components, sizes of classes and noise."""

    num_classes: int
    draws: int
    swept: str
    components: str
    classes: Classes
    noise: float

    @property
    def place(self) -> Record:
        """The columns that say which setting a row is of."""
        return dict(zip(self._fields[2:], self[2:], strict=True))


def component_points(
    settings: Settings, names: Sequence[str] = (KNOWN, *COMPONENTS)
) -> list[Point]:
    """Points over the number of components.

    ``settings.tau_plus`` is the share of an average class, so there are ``1 / tau_plus`` classes.
    There are half as many repetitions as ``draws``, since one draw holds some hundred thousand
    pairs.
    """
    count, draws = max(2, round(1 / settings.tau_plus)), max(2, settings.draws // 2)
    return [
        Point(count, draws, "components", name, classes, NOISE)
        for classes in SIZES
        for name in names
    ]


def points(settings: Settings) -> list[Point]:
    """Points over the number of components, and over the noise of views."""
    fixed = component_points(settings, COMPONENTS)
    return fixed + [
        fixed[0]._replace(swept="noise", components=components, noise=noise)
        for components in SWEPT_WITH_NOISE
        for noise in NOISES
    ]


def class_sizes(count: int, classes: Classes) -> Float[Tensor, " classes"]:
    """Shares of the classes; they sum to 1.

    Example:
        >>> (6 * class_sizes(2, "5:1")).tolist()
        [5.0, 1.0]
    """
    ratio = 5.0 if classes == "5:1" else 1.0
    sizes = ratio ** torch.linspace(0, -1, count, dtype=torch.float64)
    return sizes / sizes.sum()


def sample_component(
    directions: Float[Tensor, "rows dim"], kappa: float, source: torch.Generator
) -> Float[Tensor, "rows dim"]:
    r"""Draw one unit vector from the von Mises-Fisher component of each direction.

    The cosine :math:`c` with the direction has a density proportional to
    :math:`(1 - c^2)^{(d-3)/2}\,e^{\kappa c}`, inverted on a fine grid; around the direction the
    density is uniform. There must be three coordinates or more.

    Reference:
        Mardia and Jupp, "Directional Statistics", 2000, section 9.3.
    """
    rows, dim = directions.shape
    grid = torch.linspace(-1, 1, 4001, dtype=torch.float64)
    middle = (grid[1:] + grid[:-1]) / 2
    log_density = (dim - 3) / 2 * torch.log1p(-middle.square()) + kappa * middle
    cdf = torch.softmax(log_density, dim=0).cumsum(dim=0)
    luck = torch.rand(rows, generator=source, dtype=torch.float64) * cdf[-1]
    cosine = middle[torch.searchsorted(cdf, luck).clamp_max(len(middle) - 1)][:, None]
    around = torch.randn(rows, dim, generator=source, dtype=torch.float64)
    around = around - (around * directions).sum(dim=1, keepdim=True) * directions
    return cosine * directions + (1 - cosine.square()).sqrt() * F.normalize(around, dim=1)


def _posterior(
    point: Point, seed: int, draw: int
) -> tuple[Float[Tensor, " pairs"], Bool[Tensor, " pairs"], Float[Tensor, " mixtures"]]:
    """Posterior of all pairs of evaluated items, whether they are of one class, and agreement."""
    # Whatever is fitted to them, the items are the same.
    source = generator(seed, "latent", point.classes, point.noise, point.num_classes, draw)
    directions = torch.randn(point.num_classes, DIM, generator=source, dtype=torch.float64)
    directions = F.normalize(directions, dim=1)
    sizes = class_sizes(point.num_classes, point.classes)

    def views_and_labels(rows: int) -> tuple[Float[Tensor, "2 rows dim"], Int[Tensor, " rows"]]:
        labels = torch.multinomial(sizes, rows, replacement=True, generator=source)
        middle = sample_component(directions[labels], KAPPA, source)
        scale = point.noise / DIM**0.5
        noise = scale * torch.randn(2, rows, DIM, generator=source, dtype=torch.float64)
        return middle + noise, labels

    remembered, _ = views_and_labels(REMEMBERED)
    views, labels = views_and_labels(JUDGED)
    if point.components == KNOWN:
        # As concentrated as the noise leaves them.
        unit = F.normalize(views.sum(dim=0), dim=1)
        length = (unit * directions[labels]).sum(dim=1).mean()
        known = Mixtures(directions, sizes, mean_kappa(length, DIM)[None], (len(sizes),))
        shares = responsibilities(unit, known)
        posterior, agreement = shares @ shares.T, torch.ones(1, dtype=torch.float64)
    else:
        ratios = (2.0, 4.0) if point.components == "together" else (float(point.components),)
        fitted = [max(1, round(ratio * point.num_classes)) for ratio in ratios]
        source = generator(seed, "latent fit", *fitted, draw)
        mixtures = fit_latent_classes(remembered[0], remembered[1], fitted, generator=source)
        shares, agreement = item_responsibilities(views[0], views[1], mixtures)
        whole = torch.ones(len(fitted), dtype=shares.dtype)
        posterior = same_class(shares, shares, trust=whole, transitions=mixtures.transitions)
    rows, columns = torch.triu_indices(JUDGED, JUDGED, offset=1)
    return posterior.clamp(0, 1)[rows, columns], labels[rows] == labels[columns], agreement


def found(point: Point, seed: int) -> pl.DataFrame:
    """Measure how well fitted components find classes, by the posterior before trust.

    Precision and recall are those of pairs with a posterior above 1/2; draws without such a pair
    have no precision.
    """
    rows: list[Record] = []
    for draw in range(point.draws):
        posterior, alike, agreement = _posterior(point, seed, draw)
        sure = posterior > 0.5
        predicted, observed, count = _bins(posterior, alike)
        figures = {
            "agreement": agreement.mean(),
            "trust": trust_of_agreement(agreement).mean(),
            "posterior_same": posterior[alike].mean(),
            "posterior_other": posterior[~alike].mean(),
            "ece": ((predicted - observed).abs() * count).sum() / count.sum(),
            "recall": sure[alike].double().mean(),
        }
        row: Record = {name: float(figure) for name, figure in figures.items()}
        row["precision"] = float(alike[sure].double().mean()) if bool(sure.any()) else None
        rows.append({**point.place, **row})
    return over_draws(rows, *row)


def _bins(
    posterior: Float[Tensor, " pairs"], alike: Tensor
) -> tuple[Float[Tensor, " bins"], Float[Tensor, " bins"], Float[Tensor, " bins"]]:
    """Mean posterior, share of pairs of one class, and number of pairs; 0 in an empty bin."""
    place = (posterior * BINS).long().clamp_max(BINS - 1)
    zeros = torch.zeros(BINS, dtype=torch.float64)
    count = zeros.index_add(0, place, torch.ones_like(posterior))
    some = count.clamp_min(1)
    predicted = zeros.index_add(0, place, posterior) / some
    return predicted, zeros.index_add(0, place, alike.double()) / some, count


def calibration(point: Point, seed: int) -> pl.DataFrame:
    """Compare the posterior of pairs with the frequency of one class, in bins of its value.

    Draws without pairs in a bin do not count there; a bin needs two that have some.
    """
    rows: list[Record] = []
    for draw in range(point.draws):
        bins = torch.stack(_bins(*_posterior(point, seed, draw)[:2]), dim=1).tolist()
        for number, (posterior, share, count) in enumerate(bins, start=1):
            if count:
                row = {"bin": number, "pairs": int(count), "posterior": posterior, "share": share}
                rows.append({**point.place, **row})
    table = over_draws(rows, "share", means=["posterior"], sums=["pairs"]).drop("swept")
    return table.drop_nulls("share").sort("bin")


_LOOKS = {
    KNOWN: Look("#000000", marker="x"),
    "0.5": Look("#D55E00", marker="v"),
    "1": Look("#E69F00", marker="s"),
    "1.5": Look("#CC79A7", marker="P"),
    "2": Look("#56B4E9", marker="^"),
    "4": Look("#009E73", marker="D"),
    "together": Look("#0072B2", marker="o"),
}
_NAMES = {KNOWN: "the classes' own components", "together": "2, 3, 4 and 6 together"}
_FIGURES = {
    "precision": ("precision of pairs above 1/2", Look(TRUE_COLOUR, marker="o")),
    "recall": ("their recall", Look(LEVELS[1], marker="s")),
    "agreement": ("agreement of views", Look(FALSE_COLOUR, marker="^")),
}
_UNIT = (-0.03, 1.03)


def draw_found(table: pl.DataFrame) -> Figure:
    """What is found over the number of components and over noise, and agreement as its sign."""
    figure, axes = sized_panels(2, 2, title="Latent classes: what fitted components find")
    over_noise = table.filter(swept="noise")
    for axis, here in zip(
        axes, parts_of(table.filter(swept="components"), "classes"), strict=False
    ):
        _draw_figures(axis, here.with_row_index("place"), "place")
        axis.set_xticks(range(len(here)), here["components"].to_list())
        axis.set(title=_title(here), xlabel="components per class")
    _draw_figures(axes[2], over_noise.filter(components="together"), "noise")
    axes[2].set(title="2, 3, 4 and 6 components together", xlabel="length of a view's noise")
    for here in parts_of(over_noise, "components"):
        name = here["components"][0]
        label = f"{_NAMES.get(name, name)} per class"
        curve(axes[3], here, "agreement", "precision", _LOOKS[name], label)
    axes[3].axvspan(0.5, 0.8, color=NEUTRAL, alpha=0.12, label="trust rises from 0 to 1")
    axes[3].set(title="as noise grows, from right to left", xlim=(0, 1.02), ylim=_UNIT)
    axes[3].set(xlabel="agreement of views", ylabel="precision of pairs above 1/2")
    legend_under(axes[3], columns=1, size=8)
    return figure


def _draw_figures(axis: Axes, table: pl.DataFrame, x: str) -> None:
    """Precision, recall and agreement with bars from the 5 % to the 95 % quantile over draws."""
    for column, (label, look) in _FIGURES.items():
        curve(axis, table, x, column, look, label, spread="bars", ms=4.5, lw=1.4)
    axis.set_ylim(*_UNIT)
    legend_under(axis, size=8)


def found_finding(table: pl.DataFrame) -> str:
    """What do fitted components find?"""
    names = {"together": "2, 3, 4 and 6 per class", "1": "one per class", "0.5": "half as many"}
    here = table.filter(swept="components", classes="equal").drop_nulls("precision")
    found = [
        f"{names[row['components']]}: precision {row['precision']:.0%}, recall "
        f"{row['recall']:.0%}, agreement of views {row['agreement']:.2f}"
        for row in here.rows(named=True)
        if row["components"] in names
    ]
    return f"Pairs with a posterior above 1/2, by components. {'; '.join(found)}."


def draw_calibration(table: pl.DataFrame) -> Figure:
    """Posterior against the share of pairs of one class, by the number of components."""
    figure, axes = sized_panels(1, 2, title="Latent classes: posterior against frequency")
    for axis, here in zip(axes, parts_of(table, "classes"), strict=True):
        axis.plot([0, 1], [0, 1], color=NEUTRAL, ls=":", lw=1.2, label="exact")
        for part in parts_of(here, "components"):
            name = part["components"][0]
            look, label = _LOOKS[name], _NAMES.get(name, name)
            curve(axis, part, "posterior", "share", look, label, spread="errors", lw=1.2)
        axis.set(title=_title(here), xlim=_UNIT, ylim=_UNIT)
        axis.set(xlabel="posterior of one class", ylabel="share of pairs of one class")
    legend_below(figure, axes[0], note="components per class; bars: two standard errors")
    return figure


def _title(table: pl.DataFrame) -> str:
    """The title of a panel of classes of one kind."""
    return f"classes of {'one size' if table['classes'][0] == 'equal' else 'sizes 5:1'}"


def calibration_finding(table: pl.DataFrame) -> str:
    """How far is the posterior of latent classes from the frequency of pairs of one class?"""
    gap = (pl.col("share") - pl.col("posterior")).abs()
    errors = table.group_by("components", maintain_order=True).agg(
        (gap * pl.col("pairs")).sum() / pl.col("pairs").sum()
    )
    gaps = ", ".join(f"{name} {error:.3f}" for name, error in errors.iter_rows())
    return f"Mean distance of posterior and frequency, by components per class: {gaps}."
