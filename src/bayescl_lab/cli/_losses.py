"""Losses and their hyper-parameters as options, from the table of losses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated

from bayescl_lab._fields import among
from bayescl_lab.cli._options import OneEach
from bayescl_lab.runs.losses import LossOption, image_losses, loss_options, ranking_losses


def _options(losses: Callable[[], tuple[str, ...]]) -> list[LossOption]:
    """The hyper-parameters of some losses; the help names the losses unless all take them."""
    return [
        option
        if option.losses == losses()
        else replace(option, help=f"{option.help} ({', '.join(option.losses)})")
        for option in loss_options(losses())
    ]


ImageLoss = Annotated[str, among(image_losses)]
ImageHyperparameters = Annotated[Mapping[str, float], OneEach(lambda: _options(image_losses))]
RankingLossName = Annotated[str, among(ranking_losses)]
RankingHyperparameters = Annotated[Mapping[str, float], OneEach(lambda: _options(ranking_losses))]
