"""Hyper-parameters that were chosen on a validation part and recorded with this package."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path

_CHOICES = resources.files("bayescl_lab.compare.images")
_NAMES = {"digits": "digits_choice.json"}
_FOLDERS = {"cifar10-jpeg": "cifar10-jpeg_choice.json"}


def recorded_hyperparameters(data: str, loss: str) -> dict[str, float]:
    """The hyper-parameters recorded for a loss on a data set.

    Args:
        data: name of a data set, or the path of a folder of images, which is known by the
            folder's name.
        loss: name of a loss.

    Returns:
        Values by name; none where nothing was recorded for that data set.
    """
    file = _NAMES.get(data) or _FOLDERS.get(Path(data).name)
    if file is None or not _CHOICES.joinpath(file).is_file():
        return {}
    text = _CHOICES.joinpath(file).read_text("utf-8")
    return dict(json.loads(text)["losses"].get(loss, {}))
