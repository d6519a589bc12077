"""Fit baselines from their settings, without Lightning."""

from __future__ import annotations

from bayescl.recsys.ease import EASE
from bayescl.recsys.interactions import Interactions
from bayescl.recsys.popularity import Popularity
from bayescl.recsys.scorers import Scorer
from bayescl.runs.ranking.settings import POPULARITY, BaselineSettings


def fitted(settings: BaselineSettings, train: Interactions) -> Scorer:
    """Fit the baseline that the settings name.

    Raises:
        ValueError: if it needs more memory than is available.
    """
    if settings.encoder == POPULARITY:
        return Popularity(train)
    return EASE(train, settings.regularization)
