"""Contrastive learning that is not fooled by false negatives.

Every unlabeled candidate is weighted by the posterior probability that it is a true negative.
Importing this package costs nothing; the first use of a name imports torch. What trains, compares
and serves, and the command ``bayescl``, is in :mod:`bayescl_lab`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescl import distributed as distributed
    from bayescl import functional as functional
    from bayescl.batch import Rows as Rows
    from bayescl.losses import *  # noqa: F403
    from bayescl.samplers import DomainBatchSampler as DomainBatchSampler

__version__ = "0.1.0"
_ELSEWHERE = {"DomainBatchSampler": "samplers", "Rows": "batch"}
_ROOMS = ("batch", "distributed", "engine", "functional", "losses", "samplers")


def __getattr__(name: str) -> Any:
    """Load a room, or a public name of the losses, on first use."""
    if name in _ROOMS:
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
    """The public names, loaded or not."""
    return sorted({*globals(), *__getattr__("__all__")})
