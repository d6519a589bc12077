"""Checks of the losses that adapters receive."""

from __future__ import annotations

from typing import Any

from bayescl.losses import ContrastiveLoss


def new_loss(kind: type[ContrastiveLoss], **options: Any) -> Any:
    """Create a loss of a class; raise ``TypeError`` if it is not a class of a loss."""
    if not (isinstance(kind, type) and issubclass(kind, ContrastiveLoss)):
        raise TypeError(f"loss must be a class such as InfoNCELoss, got {shown(kind)}")
    return kind(**options)


def check_type(name: str, value: Any, kind: type, example: str) -> None:
    """Raise ``TypeError`` if a value is not an instance of a class."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {example}, got {shown(value)}")


def shown(value: Any) -> str:
    """Return a short description of a value for a message."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else f"a {type(value).__name__}"
