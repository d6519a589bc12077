"""Plans and comparisons of encoders, of images or arrays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from typing_extensions import Self

from bayescl_lab._types import Values
from bayescl_lab.compare.comparison import compared
from bayescl_lab.compare.plan import Plan
from bayescl_lab.items.probes import MEASURES
from bayescl_lab.runs.encoder_settings import EncoderSettings
from bayescl_lab.runs.loading import encoder_run, train_encoder
from bayescl_lab.runs.own_code import own_code_of
from bayescl_lab.runs.parallel import Train

Settings = TypeVar("Settings", bound=EncoderSettings)


@dataclass(frozen=True)
class EncoderPlan(Plan[Settings]):
    """Plan of encoders on images or arrays.

    Attributes:
        own_code: Names of settings that may name custom code, "encoder" and "views".
    """

    train: Train = train_encoder
    own_code: Collection[str] = ()

    def prepared(self, out: Path) -> Self:
        """Return the plan; raise ``ValueError`` if items cannot be used or have no labels."""
        del out
        # Each choice of items is read once.
        chosen = {str((one.where, one.classes)): one for one in self.methods.values()}
        first = next(iter(chosen.values()))
        tried = [first.with_values({"evaluate_on": "validation"})] if self.stages else []
        for settings in (*chosen.values(), *tried):
            given = own_code_of(settings, self.own_code)
            run = encoder_run(settings.kind)(settings, **given)
            _ = run.batches  # raises on invalid settings
            if not run.parts.has_labels:
                raise ValueError(f"{run.data}: a comparison needs labels to evaluate encoders")
        return self


def compare_encoders(
    methods: Mapping[str, Values],
    shared: Settings,
    *,
    seeds: int,
    tune: int = 0,
    own_code: Collection[str] = (),
) -> EncoderPlan[Settings]:
    """Return the plan of a comparison on the same images or arrays; see :func:`.compared`.

    ``own_code`` are the names of settings that may name custom code.
    """
    given = compared(methods, shared, seeds=seeds, tune=tune)
    train = partial(train_encoder, own_code=own_code)
    return EncoderPlan(**given, train=train, own_code=own_code, measures=MEASURES)
