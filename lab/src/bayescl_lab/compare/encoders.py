"""Plans of encoders, of images or arrays."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from typing_extensions import Self

from bayescl_lab.compare.plan import Plan, with_values
from bayescl_lab.runs.encoder_run import EncoderRun
from bayescl_lab.runs.encoder_settings import EncoderSettings

Settings = TypeVar("Settings", bound=EncoderSettings)


@dataclass(frozen=True)
class EncoderPlan(Plan[Settings]):
    """Plan of encoders. Subclasses open runs."""

    @abstractmethod
    def open_run(self, settings: Settings) -> EncoderRun[Settings]:
        """Open a run with its data; raise ``ValueError`` if they cannot be used."""

    def prepared(self, out: Path) -> Self:
        """Return the plan; raise ``ValueError`` if items cannot be used or have no labels."""
        del out
        # Each choice of items is read once.
        chosen = {str((one.where, one.classes)): one for one in self.methods.values()}
        first = next(iter(chosen.values()))
        tried = [with_values(first, {"evaluate_on": "validation"})] if self.stages else []
        for settings in (*chosen.values(), *tried):
            run = self.open_run(settings)
            _ = run.batches  # raises on invalid settings
            if not run.parts.has_labels:
                raise ValueError(f"{run.data}: a comparison needs labels to evaluate encoders")
        return self
