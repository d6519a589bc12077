"""Titles of data sets, losses, baselines and metrics for figures and tables."""

from __future__ import annotations

from pathlib import Path

from bayescl.figures import NEUTRAL
from bayescl_lab.images.probes import probe_title
from bayescl_lab.runs.losses import LOSSES
from bayescl_lab.runs.ranking import baselines

_DATA = {
    "cifar10": "CIFAR-10",
    "cifar10-jpeg": "CIFAR-10 (JPEG)",
    "cifar100": "CIFAR-100",
    "stl10": "STL10",
    "tiny-imagenet": "Tiny-ImageNet",
}
_SHORT = {"precision": "P", "recall": "R", "ndcg": "NDCG"}


def data_title(data: str) -> str:
    """The title of a data set, given by name or path; lossy copies have titles of their own.

    Example:
        >>> data_title("data/cifar10-jpeg"), data_title("digits"), data_title("mine/scans.npz")
        ('CIFAR-10 (JPEG)', 'digits', 'scans.npz')
    """
    name = Path(data).name
    return _DATA.get(name, name)


def loss_title(name: str) -> str:
    """A loss or a baseline."""
    row = LOSSES.get(name)
    return baselines.TITLES.get(name, name) if row is None else row.title


def loss_colour(name: str) -> str:
    """The colour of a loss in figures; a reference line's if it is not in the table."""
    return LOSSES[name].colour if name in LOSSES else NEUTRAL


def measure_title(name: str) -> str:
    """A metric of recommenders, or a probe of images, as a column's heading.

    Example:
        >>> measure_title("ndcg@20"), measure_title("few_label_5"), measure_title("linear_top5")
        ('NDCG@20', '5 labels/class', 'linear, top 5')
    """
    metric, at, k = name.partition("@")
    return f"{_SHORT.get(metric, metric)}@{k}" if at else probe_title(name)
