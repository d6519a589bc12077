"""What figures and tables call a data set."""

from __future__ import annotations

from pathlib import Path

_TITLES = {
    "cifar10": "CIFAR-10",
    "cifar10-jpeg": "CIFAR-10 (JPEG)",
    "cifar100": "CIFAR-100",
    "stl10": "STL10",
    "tiny-imagenet": "Tiny-ImageNet",
}


def data_title(data: str) -> str:
    """A reader's name for a data set that settings name.

    A copy of CIFAR-10 in JPEG files is lossy; its figures are never those of CIFAR-10, so it
    goes by a name of its own.

    Args:
        data: name of a data set, or the path of a file or folder.

    Example:
        >>> data_title("data/cifar10-jpeg"), data_title("digits"), data_title("mine/scans.npz")
        ('CIFAR-10 (JPEG)', 'digits', 'scans.npz')
    """
    name = Path(data).name
    return _TITLES.get(name, name)
