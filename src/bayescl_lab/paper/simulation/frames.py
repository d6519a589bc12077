"""One experiment, the data frame of its records, and the statistics in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
import torch
from matplotlib.figure import Figure

from bayescl.axes import Tensor
from bayescl_lab._cores import usable_cores
from bayescl_lab.paper.simulation.process import Settings

Record = dict[str, str | float | int | None]
Tick = Callable[[float], None]
"""Called with the share of an experiment that is done."""

SIGNIFICANT_DIGITS = 6
"""Significant digits: enough for any figure, and few enough to hide the order of a sum."""
BAND = (0.05, 0.95)
"""Quantiles over draws that bound a curve's band."""


@dataclass(frozen=True)
class Experiment:
    """One numerical experiment.

    Args:
        name: name on the command line and of the files.
        summary: a short description.
        measure: the records of one point, with the seed as its second argument.
        draw: draws the figure from the table.
        finding: what the table says in a sentence or two; nothing for curves.
        points: what is measured, one after the other; default: the settings themselves.
    """

    name: str
    summary: str
    measure: Callable[[Any, int], Iterable[Record]]
    draw: Callable[[pl.DataFrame], Figure]
    finding: Callable[[pl.DataFrame], str] = lambda _: ""
    points: Callable[[Settings], Sequence[Any]] = lambda settings: [settings]

    def run(self, settings: Settings, seed: int, tick: Tick = lambda _: None) -> pl.DataFrame:
        """Measure every point, on one thread per core, and gather the records in order.

        Tensor operations on tens of thousands of numbers gain nothing from several threads and lose
        much on busy cores. So each operation runs on one thread, and points run in parallel;
        ``tick`` is called after each point.
        """
        points, records = self.points(settings), list[Record]()
        # The initializer's setting is that of the worker's own thread.
        pool = ThreadPoolExecutor(usable_cores(), initializer=torch.set_num_threads, initargs=(1,))
        with pool:
            measured = pool.map(lambda point: self.measure(point, seed), points)
            for number, rows in enumerate(measured, start=1):
                records += rows
                tick(number / len(points))
        return frame(records)


def frame(records: Iterable[Record]) -> pl.DataFrame:
    """Records with the same keys as a data frame, with floats rounded.

    Example:
        >>> frame([{"n": 1, "error": 0.123456789}, {"n": 2, "error": 0.5}])["error"].to_list()
        [0.123457, 0.5]
    """

    def rounded(value: str | float | int | None) -> str | float | int | None:
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if isinstance(value, float) else value

    rows = [{key: rounded(value) for key, value in record.items()} for record in records]
    return pl.DataFrame(rows, infer_schema_length=None)


def columns_of(constants: Record, columns: dict[str, Tensor]) -> list[Record]:
    """Records from columns of equal length, with the constants in each."""
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [{**constants, **dict(zip(columns, row, strict=True))} for row in rows]


def banded(name: str, draws: Sequence[float] | Tensor) -> Record:
    """A number over repeated draws as columns: mean, band, and standard error of the mean.

    The band holds nine in ten single draws. The columns are empty if fewer than two draws have a
    value.

    Example:
        >>> banded("mse", [1.0, 2.0, 3.0])
        {'mse': 2.0, 'mse_low': 1.1, 'mse_high': 2.9, 'mse_error': 0.5773502691896258}
    """
    keys = (name, f"{name}_low", f"{name}_high", f"{name}_error")
    if len(draws) < 2:
        return dict.fromkeys(keys)
    values = torch.as_tensor(draws, dtype=torch.float64)
    low, high = torch.quantile(values, torch.tensor(BAND, dtype=torch.float64)).tolist()
    error = float(values.std() / len(values) ** 0.5)
    return dict(zip(keys, (float(values.mean()), low, high, error), strict=True))


def fitted_rate(sizes: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Exponent and factor of the power law through positive values, by least squares of logs.

    Example:
        >>> [round(number, 4) for number in fitted_rate([1, 4, 16], [3.0, 1.5, 0.75])]
        [-0.5, 3.0]
    """
    rate, log_factor = np.polyfit(np.log(sizes), np.log(values), 1)
    return float(rate), float(np.exp(log_factor))


def with_error(record: Record, column: str) -> str:
    """A column's mean with its standard error.

    Example:
        >>> with_error({"mse": 0.0012345, "mse_error": 0.0000121}, "mse")
        '0.00123 ± 1.2e-05'
    """
    return f"{record[column]:.3g} ± {record[f'{column}_error']:.1e}"
