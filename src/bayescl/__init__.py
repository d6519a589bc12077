"""Contrastive learning that is not fooled by false negatives.

Every unlabeled candidate is weighted by the posterior probability that it is a true negative.
Importing this package costs nothing; using its first name imports torch. What trains, compares and
serves, and the command ``bayescl``, is in :mod:`bayescl_lab`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bayescl import distributed, functional
    from bayescl.losses import (
        AttractingOracleContrastiveLoss,
        BayesianContrastiveLoss,
        CandidateQueue,
        ContrastiveLoss,
        DebiasedContrastiveLoss,
        HardContrastiveLoss,
        InfoNCELoss,
        LatentClassContrastiveLoss,
        LearnableTemperature,
        MovingDenominators,
        OracleContrastiveLoss,
        cached_backward,
    )

__version__ = "0.1.0"

__all__ = [
    "AttractingOracleContrastiveLoss",
    "BayesianContrastiveLoss",
    "CandidateQueue",
    "ContrastiveLoss",
    "DebiasedContrastiveLoss",
    "HardContrastiveLoss",
    "InfoNCELoss",
    "LatentClassContrastiveLoss",
    "LearnableTemperature",
    "MovingDenominators",
    "OracleContrastiveLoss",
    "__version__",
    "cached_backward",
    "distributed",
    "functional",
]


def __getattr__(name: str) -> Any:
    """Load a name on first use, so that commands answer without waiting for torch."""
    if name in ("distributed", "engines", "functional", "losses"):
        return import_module(f"{__name__}.{name}")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.losses"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
