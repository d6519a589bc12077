"""Hyper-parameters of losses as options, from the table of losses, which needs torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, make_dataclass
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic.dataclasses import dataclass

from bayescl_lab.runs.losses import LOSSES, losses_of, takers


def hyperparameters(losses: Iterable[str]) -> Any:
    """A dataclass of the hyper-parameters of some losses, which are None unless they are given.

    The help names the losses that take one, unless all do.
    """
    losses = tuple(losses)
    options = []
    for name, taking in takers(losses).items():
        row = LOSSES[taking[0]]
        only = "" if taking == losses else f" ({', '.join(taking)})"
        shown = Parameter(help=f"{row.help(name)}{only}.")
        number: Any = row.hyperparameters[name]
        options.append((name, Annotated[number | None, shown], field(default=None)))
    place = {"__module__": __name__}
    plain = make_dataclass("Hyperparameters", options, frozen=True, namespace=place)
    return dataclass(plain, frozen=True)


IMAGE_HYPERPARAMETERS = hyperparameters(losses_of("images"))
RANKING_HYPERPARAMETERS = hyperparameters(losses_of("ranking"))
