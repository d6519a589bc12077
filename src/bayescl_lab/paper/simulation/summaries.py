"""The tables that the command prints of each sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from bayescl_lab.paper.simulation.estimators import TITLES
from bayescl_lab.paper.simulation.statistics import fitted_rate
from bayescl_lab.paper.simulation.tables import Table, Value


class Summary(NamedTuple):
    """A titled table of text."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Summarise = Callable[[Table], list[Summary]]


def with_error(mean: float, error: float) -> str:
    """A mean with its standard error.

    Example:
        >>> with_error(0.0012345, 0.0000121)
        '0.00123 ± 1.2e-05'
    """
    return f"{mean:.3g} ± {error:.1e}"


def of_sweeps(column: str, estimators: Sequence[str]) -> Summarise:
    """One table per swept parameter: a column of each estimator, with its standard error."""

    def summarise(table: Table) -> list[Summary]:
        found = []
        for parameter in table.distinct("parameter"):
            here = table.where(parameter=parameter)
            rows = []
            for value in here.distinct("value"):
                part = {str(r["estimator"]): r for r in here.where(value=value).records}
                cells = (
                    with_error(float(part[name][column]), float(part[name][f"{column}_error"]))
                    for name in estimators
                )
                rows.append((f"{value:g}", *cells))
            proposal = table.distinct("proposal")[0]
            title = f"{column} over {parameter}, proposals: {proposal} (mean ± standard error)"
            header = (str(parameter), *(TITLES[name] for name in estimators))
            found.append(Summary(title, header, tuple(rows)))
        return found

    return summarise


def of_columns(title: str, *columns: str) -> Summarise:
    """Some columns of all records; a column with a standard error is printed with it."""

    def cell(record: dict[str, Value], column: str) -> str:
        value = record[column]
        if f"{column}_error" in record:
            return with_error(float(value), float(record[f"{column}_error"]))
        return value if isinstance(value, str) else f"{value:.4g}"

    def summarise(table: Table) -> list[Summary]:
        rows = tuple(tuple(cell(dict(r), column) for column in columns) for r in table.records)
        return [Summary(title, columns, rows)]

    return summarise


def of_verdicts(table: Table) -> list[Summary]:
    """Number of swept points with each verdict, and those that are not "below"."""
    rows = []
    for proposal in table.distinct("proposal"):
        for estimator in table.distinct("estimator"):
            for rival in table.distinct("rival"):
                here = table.where(proposal=proposal, estimator=estimator, rival=rival)
                rest = (r for r in here.records if r["verdict"] != "below")
                names = ", ".join(f"{r['parameter']} = {r['value']:g} {r['verdict']}" for r in rest)
                below = len(here.where(verdict="below").records)
                rows.append(
                    (
                        str(proposal),
                        TITLES[str(estimator)],
                        str(rival),
                        f"{below} of {len(here.records)}",
                        names,
                    )
                )
    header = ("proposals", "estimator", "rival", "MSE below it", "elsewhere")
    return [Summary("Swept points where the Bayesian estimator is better", header, tuple(rows))]


def of_reliability(table: Table) -> list[Summary]:
    """The largest gap between posterior and frequency in each setting."""
    rows = []
    keys = ("candidates", "alpha", "tau_plus", "ranks")
    settings = dict.fromkeys(tuple(record[key] for key in keys) for record in table.records)
    for setting in settings:
        here = table.where(**dict(zip(keys, setting, strict=True)))
        worst = max(here.records, key=lambda record: abs(float(record["excess"])))
        error = float(worst["share_error"])
        rows.append((*(str(v) for v in setting), with_error(float(worst["excess"]), error)))
    header = ("N", "alpha", "tau_plus", "ranks", "largest share less posterior")
    return [Summary("Lemma 1: share of true negatives less posterior", header, tuple(rows))]


def of_error_bound(table: Table) -> list[Summary]:
    """Fitted rates over candidates, and the error over the stated bound."""
    rows = []
    for estimator in table.distinct("estimator"):
        for alpha in table.distinct("alpha"):
            here = table.where(estimator=estimator, alpha=alpha)
            by_count, by_prior = here.where(axis="candidates"), here.where(axis="tau_plus")
            over = [
                f"{r['tau_plus']:g}"
                for r in by_prior.records
                if float(r["error"]) > float(r["bound"])
            ]
            ratio = max(float(r["error"]) / float(r["bound"]) for r in by_count.records)
            rows.append(
                (
                    TITLES[str(estimator)],
                    f"{alpha:g}",
                    f"{measured_rate(by_count):.3f}",
                    f"{ratio:.3f}",
                    ", ".join(over) or "none",
                )
            )
    header = ("estimator", "alpha", "rate in N", "largest error / bound", "tau_plus above bound")
    return [Summary("Lemma 3: error of the loss, and its bound", header, tuple(rows))]


def of_latent(table: Table) -> list[Summary]:
    """Results of components in each setting; precision is empty if there are no pairs."""
    columns = ("agreement", "trust", "precision", "recall", "posterior_same", "posterior_other")
    found = []
    for swept in table.distinct("swept"):
        rows = []
        for record in table.where(swept=swept).records:
            cells = (
                with_error(float(record[column]), float(record[f"{column}_error"]))
                if record[column] != ""
                else ""
                for column in columns
            )
            where = (f"{record['components']}", str(record["classes"]), f"{record['noise']:g}")
            rows.append((*where, *cells))
        header = ("components per class", "classes", "noise", *columns)
        found.append(Summary(f"Latent classes over {swept}", header, tuple(rows)))
    return found


def measured_rate(table: Table) -> float:
    """Exponent of N in the decrease of an error."""
    sizes, errors = (torch.tensor(table.numbers(name)) for name in ("candidates", "error"))
    return fitted_rate(sizes, errors)[0]
