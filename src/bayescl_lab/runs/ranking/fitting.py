"""Fit baselines from their settings, without Lightning."""

from __future__ import annotations

from bayescl_lab.ranking.ease import EASE
from bayescl_lab.ranking.ials import IALS
from bayescl_lab.ranking.interactions import Interactions
from bayescl_lab.ranking.popularity import Popularity
from bayescl_lab.ranking.scorers import Scorer
from bayescl_lab.runs.ranking.settings import POPULARITY, AnyBaseline, IALSSettings


def fitted(settings: AnyBaseline, train: Interactions) -> Scorer:
    """Fit the baseline that the settings name.

    Raises:
        ValueError: if it needs more memory than is available.
    """
    if isinstance(settings, IALSSettings):
        return IALS(
            train,
            dim=settings.dim,
            regularization=settings.regularization,
            unobserved_weight=settings.unobserved_weight,
            frequency_exponent=settings.frequency_exponent,
            epochs=settings.epochs,
            seed=settings.seed,
        )
    if settings.encoder == POPULARITY:
        return Popularity(train)
    return EASE(train, settings.regularization)
