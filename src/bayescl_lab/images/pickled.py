"""Pickled dictionaries of arrays, read without running what a stranger may have pickled.

A pickle names the functions that build its objects. Here the four names that an array of NumPy
needs lead to plain records of their arguments, and any other name is an error: neither NumPy's own
functions nor anybody else's are called. The array is then made from its bytes and shape.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class _Record:
    """The arguments with which a pickle would build and then fill an object."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments, self.state = arguments, ()

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def array(self) -> NDArray[np.uint8]:
        """The array of bytes that this describes; any other array is a ``ValueError``."""
        match self.state:
            case (1, tuple(shape), _Record(arguments=("u1", *_)), order, str() | bytes() as raw):
                content = raw.encode("latin-1") if isinstance(raw, str) else raw
                flat = np.frombuffer(content, np.uint8)
                return flat.reshape(shape, order="F" if order else "C")
        raise ValueError("an array is not of bytes")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> type[_Record]:
        """Records for what makes an array, and nothing else."""
        if f"{module}.{name}" in ("numpy.ndarray", "numpy.dtype") or (
            module.endswith("core.multiarray") and name == "_reconstruct"
        ):
            return _Record
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def read_pickled(file: Path) -> dict[str, Any]:
    """The dictionary in a file; its arrays must be of bytes.

    Raises:
        ValueError: if the file is damaged, or holds anything but plain values and such arrays.
    """
    try:
        with file.open("rb") as opened:
            values = _Unpickler(opened, encoding="latin-1").load()
        return {
            str(key): value.array() if isinstance(value, _Record) else value
            for key, value in values.items()
        }
    except OSError:
        raise
    except Exception as error:  # a damaged pickle may raise anything
        raise ValueError(f"{file.name} is damaged, or is no data of arrays: {error}") from None
