"""Hyper-parameters that were chosen on a validation part and recorded with this package."""

from __future__ import annotations

import json
from importlib import resources

_FILES = {"digits": "digits_choice.json"}


def recorded_hyperparameters(data: str, loss: str) -> dict[str, float]:
    """The hyper-parameters recorded for a loss on a data set.

    Args:
        data: name of a data set.
        loss: name of a loss.

    Returns:
        Values by name; none where nothing was recorded for that data set.
    """
    if data not in _FILES:
        return {}
    text = resources.files("bayescl.experiments").joinpath(_FILES[data]).read_text("utf-8")
    return dict(json.loads(text)["losses"].get(loss, {}))
