"""Losses and their hyper-parameters as options, from the table of losses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from pydantic.dataclasses import dataclass

from bayescl_lab.cli._options import FLAT
from bayescl_lab.runs.losses import LOSSES, image_losses, ranking_losses, takers


def hyperparameters(losses: Iterable[str]) -> Any:
    """A dataclass of the hyper-parameters of some losses, which are None unless they are given.

    The help names the losses that take one, unless all do.
    """
    losses = tuple(losses)
    options = []
    for name, taking in takers(losses).items():
        row = LOSSES[taking[0]]
        some = "" if taking == losses else f" ({', '.join(taking)})"
        said = Parameter(help=f"{row.help(name)}{some}.")
        number: Any = row.hyperparameters[name]
        options.append((name, Annotated[number | None, said], field(default=None)))
    place = {"__module__": __name__}
    made = make_dataclass("Hyperparameters", options, frozen=True, namespace=place)
    return dataclass(made, frozen=True)


def given(options: Any) -> dict[str, float]:
    """The hyper-parameters that are given."""
    return {name: value for name, value in vars(options).items() if value is not None}


NO_IMAGE_HYPERPARAMETERS = hyperparameters(image_losses())()
NO_RANKING_HYPERPARAMETERS = hyperparameters(ranking_losses())()

if TYPE_CHECKING:
    ImageLoss = str
    RankingLossName = str
    ImageHyperparameters = object
    RankingHyperparameters = object
else:
    ImageLoss = Literal[image_losses()]
    RankingLossName = Literal[ranking_losses()]
    ImageHyperparameters = Annotated[type(NO_IMAGE_HYPERPARAMETERS), FLAT]
    RankingHyperparameters = Annotated[type(NO_RANKING_HYPERPARAMETERS), FLAT]
