"""Gradients that chunks add to, possibly in several threads."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from bayescl.engines.batch import ContrastiveBatch


@dataclass
class RunningGradients:
    """Gradients that are still being added up, chunk by chunk; None for what is not wanted."""

    anchors: Tensor | None
    positives: Tensor | None
    candidates: Tensor | None
    temperature: Tensor | None

    @classmethod
    def zeros(
        cls,
        batch: ContrastiveBatch,
        temperature: float | Tensor,
        wanted: tuple[bool, ...],
        *,
        own_rows: bool,
    ) -> RunningGradients:
        """Zeros for the gradients that are needed.

        Args:
            batch: whose shapes they have.
            temperature: likewise; a float receives no gradient.
            wanted: of anchors, positives, candidates and temperature.
            own_rows: whether anchors and positives are rows of the candidates, which then receive
                everything.
        """
        sources: list[Tensor | None] = [batch.anchors, batch.positives, batch.candidates]
        if own_rows:
            sources[:2] = [None, None]
        sources.append(temperature if isinstance(temperature, Tensor) else None)
        return cls(
            *(
                torch.zeros_like(source) if want and source is not None else None
                for source, want in zip(sources, wanted, strict=True)
            )
        )

    def for_another_worker(self) -> RunningGradients:
        """New zeros where all chunks add up; shared memory where each chunk has its own part."""
        shared = (self.candidates, self.temperature)
        return RunningGradients(
            self.anchors,
            self.positives,
            *(None if one is None else torch.zeros_like(one) for one in shared),
        )

    def joined(self, others: list[RunningGradients]) -> list[Tensor | None]:
        """Add the gradients of other workers."""
        for other in others:
            for mine, theirs in (
                (self.candidates, other.candidates),
                (self.temperature, other.temperature),
            ):
                if mine is not None and theirs is not None:
                    mine += theirs
        return [self.anchors, self.positives, self.candidates, self.temperature]
