"""Comparisons of methods on arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayescl_lab._types import Values
from bayescl_lab.compare.comparison import compared
from bayescl_lab.compare.encoders import EncoderPlan
from bayescl_lab.items.probes import MEASURES
from bayescl_lab.runs.arrays.array_run import ArrayRun, train_arrays, train_with_own_code
from bayescl_lab.runs.arrays.array_settings import ArraySettings
from bayescl_lab.runs.own_code import own_encoder, own_object
from bayescl_lab.runs.parallel import Train


@dataclass(frozen=True)
class ArrayPlan(EncoderPlan[ArraySettings]):
    """Plan on arrays."""

    train: Train = train_arrays

    def open_run(self, settings: ArraySettings) -> ArrayRun:
        """Open a run with its arrays."""
        if self.train is not train_with_own_code:
            return ArrayRun(settings)
        view = own_object("views", settings.views)
        return ArrayRun(settings, own_encoder(settings.encoder), view=view)


def compare_arrays(
    methods: Mapping[str, Values],
    shared: ArraySettings,
    *,
    seeds: int,
    tune: int = 0,
    allows_own_code: bool = False,
) -> ArrayPlan:
    """Return the plan of a comparison on the same arrays; see :func:`.compared`.

    ``allows_own_code`` is True if the user named the encoder or the views.
    """
    train = train_with_own_code if allows_own_code else train_arrays
    given = compared(methods, shared, seeds=seeds, tune=tune)
    return ArrayPlan(**given, train=train, measures=MEASURES)
