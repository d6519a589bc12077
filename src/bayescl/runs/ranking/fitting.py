"""Baselines from their settings, fitted in one go and without Lightning."""

from __future__ import annotations

from bayescl.recsys.ease import EASE
from bayescl.recsys.interactions import Interactions
from bayescl.recsys.popularity import Popularity
from bayescl.recsys.scorers import Scorer
from bayescl.runs.ranking.settings import POPULARITY, BaselineSettings


def fitted(settings: BaselineSettings, train: Interactions) -> Scorer:
    """The recommender itself.

    Raises:
        ValueError: if it would need more memory than there is.
    """
    if settings.encoder == POPULARITY:
        return Popularity(train)
    return EASE(train, settings.regularization)
