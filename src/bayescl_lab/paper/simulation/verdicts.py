"""Where the Bayesian estimator's error is below its rivals', and where it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from bayescl_lab.paper.simulation.settings import Proposal, Settings
from bayescl_lab.paper.simulation.sweeps import RIVALS, Tick, sweep
from bayescl_lab.paper.simulation.tables import Table, Value

STANDARD_ERRORS = 2.0
"""A difference counts if it exceeds this many standard errors."""

JUDGED = (
    "bayesian_upper",
    "bayesian_upper_normalized",
    "bayesian_mid",
    "bayesian_mid_normalized",
)
SWEPT_PROPOSALS: tuple[Proposal, ...] = ("slide", "script")


def verdicts(
    parameters: Sequence[str], settings: Settings, seed: int, tick: Tick = lambda _: None
) -> Table:
    """Judge every point of the sweeps.

    Both estimators see the same draws, so the standard error is that of the paired difference.
    With a threshold of two standard errors, one verdict in twenty would be wrong by chance if two
    estimators were equally good.

    Args:
        parameters: names of swept parameters.
        settings: values of the other parameters; the proposals are ``slide`` and ``script``.
        seed: seed of the run.
        tick: called after each swept value.

    Returns:
        One record per proposal, parameter, value, Bayesian variant and rival, with the ratio of
        the two mean squared errors, how many standard errors the Bayesian one lies below, and
        the verdict: "below", "tied" or "above".

    Example:
        >>> table = verdicts(["gamma"], Settings(anchors=200, draws=3), seed=0)
        >>> table.distinct("verdict")
        ['below']
    """
    records: list[dict[str, Value]] = []
    for proposal in SWEPT_PROPOSALS:
        swept = sweep(parameters, replace(settings, proposal=proposal), seed, tick)
        mse = {(r["parameter"], r["value"], r["estimator"]): float(r["mse"]) for r in swept.records}
        for record in swept.records:
            if record["estimator"] not in JUDGED:
                continue
            for rival in RIVALS:
                margin = float(record[f"below_{rival}"])
                error = float(record[f"below_{rival}_error"])
                point = {name: record[name] for name in ("parameter", "value", "estimator")}
                records.append(
                    {
                        "proposal": proposal,
                        **point,
                        "rival": rival,
                        "ratio": _ratio(
                            float(record["mse"]), mse[record["parameter"], record["value"], rival]
                        ),
                        "standard_errors_below": margin / error if error else 0.0,
                        "verdict": verdict(margin, error),
                    }
                )
    return Table.of(records)


def _ratio(error: float, rival: float) -> float:
    """The ratio of two errors; a rival without error is matched only by one without error."""
    if rival == 0:
        return 1.0 if error == 0 else math.inf
    return error / rival


def verdict(margin: float, error: float) -> str:
    """Whether an estimator whose MSE lies ``margin`` below its rival's is better.

    Args:
        margin: how far it lies below; negative if it lies above.
        error: the margin's standard error.

    Example:
        >>> verdict(1.0, 0.1), verdict(0.1, 0.1), verdict(-1.0, 0.1)
        ('below', 'tied', 'above')
    """
    if abs(margin) <= STANDARD_ERRORS * error:
        return "tied"
    return "below" if margin > 0 else "above"
