"""Hyper-parameters of losses as options. Importing this module imports torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, make_dataclass
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic.dataclasses import dataclass

from bayescl_lab.runs.losses import LOSSES, losses_of, takers


def hyperparameters(losses: Iterable[str]) -> Any:
    """Return a dataclass of the hyper-parameters of some losses, ``None`` by default.

    The help names the losses with the hyper-parameter, if not all have it.
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
