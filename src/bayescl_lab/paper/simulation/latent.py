"""Does the posterior of latent classes say how often two items are of one class?

Items are drawn from the model itself: each class is a von Mises-Fisher component, and the two views
of an item are that item with noise. Components are fitted as in the loss, to two views of each
remembered item, and evaluated on other items of the same classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch.nn import functional as F

from bayescl.axes import Float, Int, Tensor
from bayescl.functional import (
    Mixtures,
    fit_latent_classes,
    item_responsibilities,
    mean_kappa,
    responsibilities,
    same_class,
    trust_of_agreement,
)
from bayescl_lab.paper.simulation.parallel import in_parallel
from bayescl_lab.paper.simulation.seeds import generator
from bayescl_lab.paper.simulation.settings import Settings
from bayescl_lab.paper.simulation.statistics import spread
from bayescl_lab.paper.simulation.sweeps import Tick
from bayescl_lab.paper.simulation.tables import Table, Value, parsed

DIM, KAPPA, NOISE = 32, 30.0, 0.5
"""Coordinates, concentration of the classes, and length of a view's noise beside an item's 1."""
REMEMBERED, JUDGED = 1024, 512
"""Numbers of items for fitting components and for evaluating them."""
BINS = 10

Classes = Literal["equal", "5:1"]
SIZES: tuple[Classes, ...] = ("equal", "5:1")
"""Classes of one size, or of sizes in equal ratios from the largest to a fifth of it."""

TOGETHER = (2.0, 3.0, 4.0, 6.0)
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


@dataclass(frozen=True)
class Point:
    """One setting: number of components, sizes of classes, and noise."""

    swept: str
    components: str
    classes: Classes
    noise: float


@dataclass(frozen=True)
class Items:
    """Two views of items and their classes."""

    view_1: Float[Tensor, "items dim"]
    view_2: Float[Tensor, "items dim"]
    labels: Int[Tensor, " items"]


def latent(settings: Settings, seed: int, tick: Tick = lambda _: None) -> Table:
    """Measure how well fitted components find classes, over their number and the views' noise.

    Args:
        settings: ``tau_plus`` is the share of an average class, so there are ``1 / tau_plus``
            classes. There are half as many repetitions as ``draws``, since one draw holds some
            hundred thousand pairs.
        seed: seed of the run.
        tick: called after each setting.

    Returns:
        One record per setting: agreement of views and trust, the mean posterior of pairs of one
        class and of two, calibration error, and precision and recall of pairs with a posterior
        above 1/2; precision is over draws with such a pair, and empty if fewer than two have one.
        The posterior is taken before trust.

    Example:
        >>> table = latent(Settings(tau_plus=0.25, draws=2), seed=0)
        >>> table.number("recall", swept="components", components=1, classes="equal") > 0.8
        True
    """
    points = [
        Point("components", components, classes, NOISE)
        for classes in SIZES
        for components in COMPONENTS
    ]
    points += [
        Point("noise", components, "equal", noise)
        for components in SWEPT_WITH_NOISE
        for noise in NOISES
    ]
    records = []
    found = in_parallel(lambda point: _measured(point, settings, seed), points)
    for point, record in zip(points, found, strict=True):
        records.append(record)
        tick(f"{point.components} components per class, noise {point.noise:g}")
    return Table.of(records)


def latent_calibration(settings: Settings, seed: int, tick: Tick = lambda _: None) -> Table:
    """Compare the posterior of pairs with the frequency of one class, in bins of its value.

    Args:
        settings: as for :func:`latent`.
        seed: seed of the run.
        tick: called after each setting.

    Returns:
        One record per setting and bin: the mean posterior, the share of pairs of one class, with
        band over draws and standard error, and the number of pairs.
    """
    points = [
        Point("components", components, classes, NOISE)
        for classes in SIZES
        for components in (KNOWN, *COMPONENTS)
    ]
    records: list[dict[str, Value]] = []
    found = in_parallel(lambda point: _binned(point, settings, seed), points)
    for point, some in zip(points, found, strict=True):
        records += some
        tick(f"{point.components} components per class, classes {point.classes}")
    return Table.of(records)


def steps() -> tuple[int, int]:
    """Number of times that the two experiments call back."""
    swept = len(SIZES) * len(COMPONENTS) + len(SWEPT_WITH_NOISE) * len(NOISES)
    return swept, len(SIZES) * (len(COMPONENTS) + 1)


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
    density is uniform.

    Args:
        directions: unit vectors of at least three coordinates.
        kappa: concentration, at least 0.
        source: random generator.

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


def _draws(settings: Settings) -> int:
    """Number of repetitions."""
    return max(2, settings.draws // 2)


def _drawn(
    point: Point, count: int, seed: int, draw: int
) -> tuple[Items, Items, Float[Tensor, "classes dim"]]:
    """Items to remember, items to evaluate, and the directions of their classes."""
    # Whatever is fitted to them, the items are the same.
    source = generator(seed, "latent", point.classes, point.noise, count, draw)
    directions = F.normalize(torch.randn(count, DIM, generator=source, dtype=torch.float64), dim=1)
    shares = class_sizes(count, point.classes)

    def items(rows: int) -> Items:
        labels = torch.multinomial(shares, rows, replacement=True, generator=source)
        middle = sample_component(directions[labels], KAPPA, source)
        scale = point.noise / DIM**0.5
        noise = scale * torch.randn(2, rows, DIM, generator=source, dtype=torch.float64)
        return Items(middle + noise[0], middle + noise[1], labels)

    return items(REMEMBERED), items(JUDGED), directions


def _posterior(
    point: Point, settings: Settings, seed: int, draw: int
) -> tuple[Float[Tensor, " pairs"], Tensor, Float[Tensor, " mixtures"]]:
    """Posterior of all pairs of evaluated items, whether they are of one class, and agreement."""
    count = max(2, round(1 / settings.tau_plus))
    remembered, judged, directions = _drawn(point, count, seed, draw)
    if point.components == KNOWN:
        shares = _known_responsibilities(judged, directions, class_sizes(count, point.classes))
        posterior, agreement = shares @ shares.T, torch.ones(1, dtype=torch.float64)
    else:
        sizes = [max(1, round(each * count)) for each in COMPONENTS[point.components]]
        source = generator(seed, "latent fit", *sizes, draw)
        found = fit_latent_classes(remembered.view_1, remembered.view_2, sizes, generator=source)
        shares, agreement = item_responsibilities(judged.view_1, judged.view_2, found)
        whole = torch.ones(len(sizes), dtype=shares.dtype)
        posterior = same_class(shares, shares, trust=whole, transitions=found.transitions)
    posterior = posterior.clamp(0, 1)
    rows, columns = torch.triu_indices(JUDGED, JUDGED, offset=1)
    alike = judged.labels[rows] == judged.labels[columns]
    return posterior[rows, columns], alike, agreement


def _known_responsibilities(
    judged: Items, directions: Float[Tensor, "classes dim"], shares: Float[Tensor, " classes"]
) -> Float[Tensor, "items classes"]:
    """Responsibilities by the classes' own components, as concentrated as the noise leaves them."""
    rows = F.normalize(judged.view_1 + judged.view_2, dim=1)
    length = (rows * directions[judged.labels]).sum(dim=1).mean()
    mixtures = Mixtures(directions, shares, mean_kappa(length, DIM)[None], (len(shares),))
    return responsibilities(rows, mixtures)


def _measured(point: Point, settings: Settings, seed: int) -> dict[str, Value]:
    """All figures of one setting."""
    columns: dict[str, list[float]] = {}
    precise = []
    for draw in range(_draws(settings)):
        posterior, alike, agreement = _posterior(point, settings, seed, draw)
        sure = posterior > 0.5
        here = {
            "agreement": agreement.mean(),
            "trust": trust_of_agreement(agreement).mean(),
            "posterior_same": posterior[alike].mean(),
            "posterior_other": posterior[~alike].mean(),
            "ece": _calibration_error(posterior, alike),
            "recall": sure[alike].double().mean(),
        }
        for name, value in here.items():
            columns.setdefault(name, []).append(float(value))
        if bool(sure.any()):
            precise.append(float(alike[sure].double().mean()))
    record: dict[str, Value] = {
        "swept": point.swept,
        "components": parsed(point.components),
        "classes": point.classes,
        "noise": point.noise,
    }
    for name, values in columns.items():
        record |= _with_band(name, values)
    return record | _with_band("precision", precise)


def _with_band(name: str, values: Sequence[float]) -> dict[str, Value]:
    """Mean, band and standard error as columns; empty if fewer than two draws have a value."""
    ends = ("", "_low", "_high", "_error")
    if len(values) < 2:
        return {f"{name}{end}": "" for end in ends}
    found = spread(torch.tensor(values, dtype=torch.float64))
    each = (found.mean, found.low, found.high, found.error)
    return {f"{name}{end}": value for end, value in zip(ends, each, strict=True)}


def _calibration_error(posterior: Float[Tensor, " pairs"], alike: Tensor) -> Float[Tensor, ""]:
    """Mean distance of posterior and frequency, in bins of equal width."""
    predicted, observed, count = _bins(posterior, alike)
    return ((predicted - observed).abs() * count).sum() / count.sum()


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


def _binned(point: Point, settings: Settings, seed: int) -> list[dict[str, Value]]:
    """The bins in which two draws or more have pairs; draws without any do not count there."""
    draws = [
        torch.stack(_bins(*_posterior(point, settings, seed, draw)[:2]))
        for draw in range(_draws(settings))
    ]
    predicted, observed, count = torch.stack(draws).unbind(dim=1)
    records: list[dict[str, Value]] = []
    for column in range(BINS):
        here = count[:, column] > 0
        if int(here.sum()) < 2:
            continue
        record: dict[str, Value] = {
            "components": parsed(point.components),
            "classes": point.classes,
            "noise": point.noise,
            "bin": column + 1,
            "pairs": int(count[:, column].sum()),
            "posterior": float(predicted[here, column].mean()),
        }
        records.append(record | _with_band("share", observed[here, column].tolist()))
    return records
