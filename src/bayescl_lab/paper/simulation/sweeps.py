"""Mean squared errors and mean values of all estimators over ranges of one parameter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import torch

from bayescl.axes import Float, Tensor
from bayescl_lab.paper.simulation.estimators import SUPERVISED, estimates
from bayescl_lab.paper.simulation.parallel import in_parallel
from bayescl_lab.paper.simulation.process import observe
from bayescl_lab.paper.simulation.seeds import generator
from bayescl_lab.paper.simulation.settings import Settings
from bayescl_lab.paper.simulation.statistics import spread
from bayescl_lab.paper.simulation.tables import Table, Value

Tick = Callable[[str], None]
"""Called with a few words after each step of an experiment."""

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


@dataclass(frozen=True)
class Draw:
    """One draw of the experiment: every estimator over its anchors."""

    error: dict[str, float]
    """Mean squared error to the supervised mean."""

    value: dict[str, float]
    """Mean over anchors."""

    left_out: int
    """Number of anchors without a true negative, which have no supervised mean."""


def one_draw(settings: Settings, source: torch.Generator) -> Draw:
    """Run the process once and compare every estimator with the realised supervised mean.

    Anchors without a true negative are left out and counted. For N = 64 and a prior of 0.1 there
    are none.

    Args:
        settings: parameters of the process and the estimators.
        source: source of randomness.

    Example:
        >>> drawn = one_draw(Settings(anchors=50), generator(0))
        >>> drawn.error["bayesian_mid"] < drawn.error["biased"], drawn.left_out
        (True, 0)

    Reference:
        Liu et al., ICML 2024, section "Numerical Experiment", the definition of MSE.
    """
    kept: dict[str, list[Float[Tensor, " some"]]] = {}
    left_out = 0
    for chunk in observe(settings, source):
        found = estimates(chunk, settings)
        known = chunk.true_negative.any(dim=1)
        left_out += int((~known).sum())
        for name, value in found.items():
            kept.setdefault(name, []).append(value[known])
    values = {name: torch.cat(parts) for name, parts in kept.items()}
    supervised = values[SUPERVISED]
    return Draw(
        error={name: float(((v - supervised) ** 2).mean()) for name, v in values.items()},
        value={name: float(v.mean()) for name, v in values.items()},
        left_out=left_out,
    )


def sweep(
    parameters: Iterable[str], settings: Settings, seed: int, tick: Tick = lambda _: None
) -> Table:
    """Repeat the experiment over the values of each parameter in turn.

    Args:
        parameters: names in :data:`SWEEPS`.
        settings: values of the other parameters, and the number of draws.
        seed: seed of the run. Draws depend only on it, the proposals and the value.
        tick: called after each value.

    Returns:
        One record per parameter, value and estimator. ``mse``, ``mean`` and ``bias`` (mean
        over anchors less that of the supervised estimator, draw by draw) are averages over draws
        with a band (``_low`` to ``_high``, quantiles 5 % to 95 % over draws) and the
        average's standard error. ``below_biased`` is how far the estimator's MSE lies below that of
        the biased one on the same draws, with the standard error of this paired difference;
        ``below_debiased`` likewise. ``left_out`` counts anchors without a true negative over all
        draws.

    Raises:
        ValueError: if every anchor of a draw is left out.

    Example:
        >>> table = sweep(["gamma"], Settings(anchors=10, draws=2), seed=0)
        >>> table.number("mse", value=0.5, estimator="supervised")
        0.0
    """
    points = [(parameter, value) for parameter in parameters for value in SWEEPS[parameter]]
    records: list[dict[str, Value]] = []
    found = in_parallel(lambda point: _records(*point, settings, seed), points)
    for (parameter, value), some in zip(points, found, strict=True):
        records += some
        tick(f"{parameter} = {value:g}")
    return Table.of(records)


@lru_cache(maxsize=256)
def _records(
    parameter: str, value: float | int, settings: Settings, seed: int
) -> tuple[dict[str, Value], ...]:
    """The records of one value: all estimators over repeated draws.

    Cached, because several figures show parts of the same sweeps.
    """
    point = replace(settings, **{parameter: value})  # type: ignore[arg-type]  # a field by its name
    draws = [
        one_draw(point, generator(seed, "sweep", point.proposal, parameter, value, index))
        for index in range(settings.draws)
    ]
    left_out = sum(drawn.left_out for drawn in draws)
    if any(drawn.left_out == point.anchors for drawn in draws):
        raise ValueError(
            f"no anchor has a true negative at {parameter} = {value:g}: raise candidates or "
            "anchors, or lower tau_plus"
        )
    errors = {
        name: torch.tensor([drawn.error[name] for drawn in draws], dtype=torch.float64)
        for name in draws[0].error
    }
    records = []
    for name, error in errors.items():
        record: dict[str, Value] = {
            "proposal": point.proposal,
            "parameter": parameter,
            "value": float(value),
            "estimator": name,
            "draws": settings.draws,
            "left_out": left_out,
        }
        means = torch.tensor([drawn.value[name] for drawn in draws], dtype=torch.float64)
        supervised = torch.tensor([drawn.value[SUPERVISED] for drawn in draws], dtype=torch.float64)
        columns = (("mse", error), ("mean", means), ("bias", means - supervised))
        for column, numbers in columns:
            found = spread(numbers)
            record[column] = found.mean
            record[f"{column}_low"] = found.low
            record[f"{column}_high"] = found.high
            record[f"{column}_error"] = found.error
        for rival in RIVALS:
            margin = spread(errors[rival] - error)
            record[f"below_{rival}"] = margin.mean
            record[f"below_{rival}_error"] = margin.error
        records.append(record)
    return tuple(records)
