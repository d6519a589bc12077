"""Contrastive losses for PyTorch that push probable false negatives away less.

They estimate the probability from a teacher's similarities or from similarity ranks. Torch is
imported on the first use of a name. Training, comparison, serving and the command ``bayescl`` are
in :mod:`bayescl_lab`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescl import distributed as distributed
    from bayescl import functional as functional
    from bayescl.losses import *  # noqa: F403
    from bayescl.rows import Rows as Rows
    from bayescl.samplers import DomainBatchSampler as DomainBatchSampler

__version__ = "0.1.0"
_ELSEWHERE = {"DomainBatchSampler": "samplers", "Rows": "rows"}
_MODULES = ("batch", "distributed", "functional", "losses", "rows", "samplers")


def __getattr__(name: str) -> Any:
    """Import a submodule or a public name on first use."""
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _ELSEWHERE:
        return getattr(import_module(f"{__name__}.{_ELSEWHERE[name]}"), name)
    if name == "__all__" or not name.startswith("_"):
        losses = import_module(f"{__name__}.losses")
        if name == "__all__":
            return [
                *losses.__all__,
                *_ELSEWHERE,
                "__version__",
                "distributed",
                "functional",
            ]
        if name in losses.__all__:
            return getattr(losses, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__getattr__("__all__")})
