"""The message for a missing library, and helpers that several adapters share."""

from __future__ import annotations

from typing import Any

from torch import distributed as dist

from bayescl import losses


def missing(library: str, extra: str, error: ImportError) -> ImportError:
    """Return an error that names the extra for a library that could not be imported."""
    return ImportError(
        f"this module needs {library} ({error}); install it with: pip install 'bayescl[{extra}]'"
    )


def is_distributed() -> bool:
    """Whether there is a process group to gather from."""
    return dist.is_available() and dist.is_initialized()


def loss_named(name: str) -> type[Any]:
    """Return a loss of this package by its class name."""
    found: type[Any] | None = getattr(losses, name, None)
    if found is None:
        raise ImportError(f"this version of bayescl has no {name}")
    return found
