"""Experiments with the losses of :mod:`bayescl`: training, comparison, serving and figures.

Use it through the command ``bayescl``, or open a run with :func:`load`. Importing this package does
not import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescl_lab.runs.loading import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    """Load the function on first use, so that commands answer without waiting for torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.runs.loading").load
