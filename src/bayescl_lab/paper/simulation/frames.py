"""Data frames of what experiments measure, and the statistics in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import polars as pl
import torch

from bayescl.axes import Float, Tensor

Record = dict[str, str | float | int | None]

SIGNIFICANT_DIGITS = 6
"""Significant digits: enough for any figure, and few enough to hide the order of a sum."""


def rounded(table: pl.DataFrame) -> pl.DataFrame:
    """The table as it is written: floats rounded, and whole numbers of one type.

    Example:
        >>> rounded(pl.DataFrame({"error": [0.123456789, 0.5]}))["error"].to_list()
        [0.123457, 0.5]
    """
    floats = pl.col(pl.Float64).map_elements(
        lambda value: float(f"{value:.{SIGNIFICANT_DIGITS}g}"), return_dtype=pl.Float64
    )
    return table.with_columns(floats, pl.col(pl.Int32, pl.UInt32).cast(pl.Int64))


def over_draws(
    draws: Iterable[Record], *bands: str, sums: Sequence[str] = (), means: Sequence[str] = ()
) -> pl.DataFrame:
    """Statistics of columns over repeated draws: rows that are equal in all other columns.

    Args:
        draws: rows of single draws.
        bands: columns of which to give the mean, a band that holds nine in ten single draws, and
            the standard error of the mean; empty if fewer than two draws have a value.
        sums: columns to add up.
        means: columns to average.

    Example:
        >>> draws = [{"n": 4, "mse": 1.0}, {"n": 4, "mse": 2.0}, {"n": 4, "mse": 3.0}]
        >>> rounded(over_draws(draws, "mse")).row(0, named=True)
        {'n': 4, 'mse': 2.0, 'mse_low': 1.1, 'mse_high': 2.9, 'mse_error': 0.57735}
    """
    table = pl.DataFrame(list(draws), infer_schema_length=None)
    same = [name for name in table.columns if name not in (*bands, *sums, *means)]
    rows = []
    for part in table.partition_by(same, maintain_order=True):
        row = part.select(same).row(0, named=True) | {name: part[name].sum() for name in sums}
        averaged = part.select(*means, *bands).fill_null(torch.nan)
        numbers = torch.tensor(averaged.rows(), dtype=torch.float64)  # [draws, columns]
        for name, values in zip(averaged.columns, numbers.unbind(dim=1), strict=True):
            row |= _banded(name, values) if name in bands else {name: float(values.mean())}
        rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _banded(name: str, values: Float[Tensor, " draws"]) -> Record:
    """Mean, band and standard error. NaN values are missing."""
    if values.isnan().any():
        values = values[~values.isnan()]
    keys = (name, f"{name}_low", f"{name}_high", f"{name}_error")
    if len(values) < 2:
        return dict.fromkeys(keys)
    low, high = torch.quantile(values, values.new_tensor([0.05, 0.95]))
    statistics = values.mean(), low, high, values.std() / len(values) ** 0.5
    return dict(zip(keys, map(float, statistics), strict=True))


def with_error(record: Record, column: str) -> str:
    """A column's mean with its standard error.

    Example:
        >>> with_error({"mse": 0.0012345, "mse_error": 0.0000121}, "mse")
        '0.00123 ± 1.2e-05'
    """
    return f"{record[column]:.3g} ± {record[f'{column}_error']:.1e}"
