"""Does the posterior of latent classes say how often two items are of one class?

Items are drawn from the model itself: each class is a von Mises-Fisher component, and the two views
of an item are that item with noise. Components are fitted as in the loss, to two views of each
remembered item, and evaluated on other items of the same classes.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import polars as pl
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
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
from bayescl_lab.paper.simulation.figures import Look, bars, curve, parts_of, sized_panels
from bayescl_lab.paper.simulation.frames import Experiment, Record, banded
from bayescl_lab.paper.simulation.process import Settings, generator

DIM, KAPPA, NOISE = 32, 30.0, 0.5
"""Coordinates, concentration of the classes, and length of a view's noise beside an item's 1."""
REMEMBERED, JUDGED = 1024, 512
"""Numbers of items for fitting components and for evaluating them."""
BINS = 10

Classes = Literal["equal", "5:1"]
SIZES: tuple[Classes, ...] = ("equal", "5:1")
"""Classes of one size, or of sizes in equal ratios from the largest to a fifth of it."""

TOGETHER = (2.0, 4.0)
"""Components per class of the mixtures that the loss fits side by side."""
COMPONENTS: dict[str, tuple[float, ...]] = {
    "0.5": (0.5,),
    "1": (1.0,),
    "1.5": (1.5,),
    "2": (2.0,),
    "4": (4.0,),
    "together": TOGETHER,
}
"""Components per class, by the name that tables have for them."""
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


class Items(NamedTuple):
    """Two views of items and their classes."""

    view_1: Float[Tensor, "items dim"]
    view_2: Float[Tensor, "items dim"]
    labels: Int[Tensor, " items"]


def _points(settings: Settings, *names: str) -> list[Point]:
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


def latent_points(settings: Settings) -> list[Point]:
    """Points over the number of components, and over the noise of views."""
    points = _points(settings, *COMPONENTS)
    return points + [
        points[0]._replace(swept="noise", components=components, noise=noise)
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


def _drawn(point: Point, seed: int, draw: int) -> tuple[Items, Items, Float[Tensor, "classes dim"]]:
    """Items to remember, items to evaluate, and the directions of their classes."""
    # Whatever is fitted to them, the items are the same.
    source = generator(seed, "latent", point.classes, point.noise, point.num_classes, draw)
    directions = torch.randn(point.num_classes, DIM, generator=source, dtype=torch.float64)
    directions = F.normalize(directions, dim=1)
    shares = class_sizes(point.num_classes, point.classes)

    def items(rows: int) -> Items:
        labels = torch.multinomial(shares, rows, replacement=True, generator=source)
        middle = sample_component(directions[labels], KAPPA, source)
        scale = point.noise / DIM**0.5
        noise = scale * torch.randn(2, rows, DIM, generator=source, dtype=torch.float64)
        return Items(middle + noise[0], middle + noise[1], labels)

    return items(REMEMBERED), items(JUDGED), directions


def _posterior(
    point: Point, seed: int, draw: int
) -> tuple[Float[Tensor, " pairs"], Tensor, Float[Tensor, " mixtures"]]:
    """Posterior of all pairs of evaluated items, whether they are of one class, and agreement."""
    remembered, judged, directions = _drawn(point, seed, draw)
    if point.components == KNOWN:
        sizes = class_sizes(point.num_classes, point.classes)
        shares = _known_responsibilities(judged, directions, sizes)
        posterior, agreement = shares @ shares.T, torch.ones(1, dtype=torch.float64)
    else:
        fitted = [
            max(1, round(ratio * point.num_classes)) for ratio in COMPONENTS[point.components]
        ]
        source = generator(seed, "latent fit", *fitted, draw)
        mixtures = fit_latent_classes(
            remembered.view_1, remembered.view_2, fitted, generator=source
        )
        shares, agreement = item_responsibilities(judged.view_1, judged.view_2, mixtures)
        whole = torch.ones(len(fitted), dtype=shares.dtype)
        posterior = same_class(shares, shares, trust=whole, transitions=mixtures.transitions)
    rows, columns = torch.triu_indices(JUDGED, JUDGED, offset=1)
    alike = judged.labels[rows] == judged.labels[columns]
    return posterior.clamp(0, 1)[rows, columns], alike, agreement


def _known_responsibilities(
    judged: Items, directions: Float[Tensor, "classes dim"], shares: Float[Tensor, " classes"]
) -> Float[Tensor, "items classes"]:
    """Responsibilities by the classes' own components, as concentrated as the noise leaves them."""
    rows = F.normalize(judged.view_1 + judged.view_2, dim=1)
    length = (rows * directions[judged.labels]).sum(dim=1).mean()
    mixtures = Mixtures(directions, shares, mean_kappa(length, DIM)[None], (len(shares),))
    return responsibilities(rows, mixtures)


def latent(point: Point, seed: int) -> list[Record]:
    """Measure how well fitted components find classes.

    Returns:
        One record: agreement of views and trust, the mean posterior of pairs of one class and of
        two, calibration error, and precision and recall of pairs with a posterior above 1/2;
        precision is over draws with such a pair, and empty if fewer than two have one. The
        posterior is taken before trust.
    """
    columns: dict[str, list[float]] = {}
    precise = []
    for draw in range(point.draws):
        posterior, alike, agreement = _posterior(point, seed, draw)
        sure = posterior > 0.5
        predicted, observed, count = _bins(posterior, alike)
        here = {
            "agreement": agreement.mean(),
            "trust": trust_of_agreement(agreement).mean(),
            "posterior_same": posterior[alike].mean(),
            "posterior_other": posterior[~alike].mean(),
            "ece": ((predicted - observed).abs() * count).sum() / count.sum(),
            "recall": sure[alike].double().mean(),
        }
        for name, value in here.items():
            columns.setdefault(name, []).append(float(value))
        if bool(sure.any()):
            precise.append(float(alike[sure].double().mean()))
    record: Record = dict(zip(point._fields[2:], point[2:], strict=True))
    for name, values in {**columns, "precision": precise}.items():
        record |= banded(name, values)
    return [record]


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


def latent_calibration(point: Point, seed: int) -> list[Record]:
    """Compare the posterior of pairs with the frequency of one class, in bins of its value.

    Returns:
        One record per bin in which two draws or more have pairs; draws without any do not count
        there: the mean posterior, the share of pairs of one class, with band over draws and
        standard error, and the number of pairs.
    """
    draws = [torch.stack(_bins(*_posterior(point, seed, draw)[:2])) for draw in range(point.draws)]
    predicted, observed, count = torch.stack(draws).unbind(dim=1)
    records: list[Record] = []
    for column in range(BINS):
        here = count[:, column] > 0
        if int(here.sum()) < 2:
            continue
        record: Record = {
            "components": point.components,
            "classes": point.classes,
            "noise": point.noise,
            "bin": column + 1,
            "pairs": int(count[:, column].sum()),
            "posterior": float(predicted[here, column].mean()),
        }
        records.append(record | banded("share", observed[here, column].tolist()))
    return records


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


def draw_latent(table: pl.DataFrame) -> Figure:
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
        curve(axes[3], here.drop_nulls("precision"), "agreement", "precision", _LOOKS[name], label)
    axes[3].axvspan(0.5, 0.8, color=NEUTRAL, alpha=0.12, label="trust rises from 0 to 1")
    axes[3].set(title="as noise grows, from right to left", xlim=(0, 1.02), ylim=_UNIT)
    axes[3].set(xlabel="agreement of views", ylabel="precision of pairs above 1/2")
    legend_under(axes[3], columns=1, size=8)
    return figure


def _draw_figures(axis: Axes, table: pl.DataFrame, x: str) -> None:
    """Precision, recall and agreement with bars from the 5 % to the 95 % quantile over draws."""
    for column, (label, look) in _FIGURES.items():
        bars(axis, table, x, column, look, label, ms=4.5, lw=1.4)
    axis.set_ylim(*_UNIT)
    legend_under(axis, size=8)


def latent_finding(table: pl.DataFrame) -> str:
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


def draw_latent_calibration(table: pl.DataFrame) -> Figure:
    """Posterior against the share of pairs of one class, by the number of components."""
    figure, axes = sized_panels(1, 2, title="Latent classes: posterior against frequency")
    for axis, here in zip(axes, parts_of(table, "classes"), strict=True):
        axis.plot([0, 1], [0, 1], color=NEUTRAL, ls=":", lw=1.2, label="exact")
        for part in parts_of(here, "components"):
            name = part["components"][0]
            label = _NAMES.get(name, name)
            bars(axis, part, "posterior", "share", _LOOKS[name], label, errors=True, lw=1.2)
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


EXPERIMENTS = (
    Experiment(
        "latent",
        "what latent classes find, over components, sizes of classes and noise of views",
        latent,
        draw_latent,
        latent_finding,
        latent_points,
    ),
    Experiment(
        "latent-calibration",
        "posterior of latent classes against the frequency of pairs of one class",
        latent_calibration,
        draw_latent_calibration,
        calibration_finding,
        lambda settings: _points(settings, KNOWN, *COMPONENTS),
    ),
)
