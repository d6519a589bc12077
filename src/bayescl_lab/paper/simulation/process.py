"""The generative process: labels, scores of their class, and the map to observations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from bayescl.axes import Bool, Float, Tensor
from bayescl_lab.paper.simulation.proposals import Proposals, draw_proposals
from bayescl_lab.paper.simulation.samplers import sample_by_inversion, sample_by_rejection
from bayescl_lab.paper.simulation.settings import Settings

CHUNK_ELEMENTS = 2**16
"""Scores drawn at a time; a chunk and its results take some ten megabytes."""

HIGHEST_LOGIT = 350.0
"""Largest logit at which squared observations, and so squared errors, fit into float64."""


@dataclass(frozen=True)
class Observations:
    """The visible and hidden variables of some anchors.

    Scores are stored as logits, divided by the temperature, as the objectives take them; an
    observation in the paper is the exponential of a logit.
    """

    unlabeled: Float[Tensor, "anchors candidates"]
    """Logits of the unlabeled candidates."""

    true_negative: Bool[Tensor, "anchors candidates"]
    """The hidden labels: True for a true negative."""

    positives: Float[Tensor, "anchors positives"]
    """Logits of positives, drawn from the density of false negatives."""

    proposals: Proposals
    """The anchors' proposal distributions."""


def observe(settings: Settings, generator: torch.Generator) -> Iterator[Observations]:
    """Run the generative process for ``settings.anchors`` anchors, in chunks.

    Args:
        settings: parameters of the process.
        generator: source of all randomness. Chunks depend only on the number of candidates, so the
            same generator state and settings give the same numbers.

    Yields:
        Chunks of anchors, small enough to keep memory within tens of megabytes.

    Raises:
        ValueError: if the temperature is so low that squared observations overflow.

    Example:
        >>> chunk = next(observe(Settings(anchors=3), torch.Generator().manual_seed(0)))
        >>> chunk.unlabeled.shape, chunk.positives.shape
        (torch.Size([3, 64]), torch.Size([3, 10]))

    Reference:
        Liu et al., ICML 2024, Algorithm "Numerical experiments".
    """
    size = max(1, CHUNK_ELEMENTS // settings.candidates)
    for start in range(0, settings.anchors, size):
        yield _observe_some(settings, min(size, settings.anchors - start), generator)


def _observe_some(settings: Settings, anchors: int, generator: torch.Generator) -> Observations:
    """One chunk of anchors."""
    proposals = draw_proposals(settings, anchors, generator)
    chance = torch.rand((anchors, settings.candidates), generator=generator, dtype=torch.float64)
    true_negative = chance > settings.tau_plus
    wanted = torch.zeros((anchors, settings.positives), dtype=torch.bool)
    # Positives and false negatives have the same density, so they are drawn in one go.
    labels = torch.cat([true_negative, wanted], dim=1)
    if settings.sampler == "inversion":
        scores = sample_by_inversion(labels, proposals, alpha=settings.alpha, generator=generator)
    else:
        scores = sample_by_rejection(
            labels, proposals, alpha=settings.alpha, generator=generator
        ).scores
    logits = scores / settings.temperature
    highest = float(logits.max())
    if highest > HIGHEST_LOGIT:
        raise ValueError(
            f"temperature must be higher with {settings.proposal} proposals, got "
            f"{settings.temperature}: squared observations overflow, logits reach {highest:.3g}"
        )
    return Observations(
        unlabeled=logits[:, : settings.candidates].contiguous(),
        true_negative=true_negative,
        positives=logits[:, settings.candidates :].contiguous(),
        proposals=proposals,
    )
