"""Checks of arguments. Error messages name the argument, the expectation and the value.

This module also has the message for a missing package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def check_interval(
    name: str,
    value: float,
    low: float,
    high: float,
    *,
    open_low: bool = False,
    open_high: bool = False,
) -> float:
    """Return ``value`` as a float if it lies in the interval, else raise ``ValueError``."""
    number = check_finite_number(name, value)
    above = number > low if open_low else number >= low
    below = number < high if open_high else number <= high
    if not (above and below):
        left = "(" if open_low else "["
        right = ")" if open_high else "]"
        raise ValueError(f"{name} must lie in {left}{low:g}, {high:g}{right}, got {value!r}")
    return number


def check_positive(name: str, value: float) -> float:
    """Return ``value`` as a float if it is positive and finite, else raise ``ValueError``."""
    number = check_finite_number(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be positive, got {value!r}")
    return number


def check_count(name: str, value: int, minimum: int) -> int:
    """Return ``value`` if it is a whole number of at least ``minimum``."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}")
    if value >= 2**63:  # larger than a 64-bit integer
        raise ValueError(f"{name} must be below 2^63, got {value}")
    return value


def check_finite_number(name: str, value: float) -> float:
    """Return ``value`` as a float if it is a finite number, else raise ``ValueError``."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise TypeError(f"{name} must be a number, got a tensor that requires a gradient")
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}") from None
    except OverflowError:
        raise ValueError(f"{name} must fit into a 64-bit float, got a larger integer") from None
    if not math.isfinite(number):
        raise ValueError(f"{name} must be finite, got {value!r}")
    return number


def check_flag(name: str, value: bool) -> None:
    """Raise ``TypeError`` if ``value`` is not True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise ``ValueError`` if ``value`` is not one of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_shape(name: str, tensor: Tensor, expected: Sequence[int | str | None]) -> None:
    """Raise ``ValueError`` if the shape is not ``expected``. A string or None matches any size."""
    shape = tuple(tensor.shape)
    if shape == tuple(expected):
        return
    fits = len(shape) == len(expected)
    for size, want in zip(shape, expected, strict=False):
        fits = fits and (size == want or not isinstance(want, int))
    if not fits:
        wanted = ", ".join("*" if want is None else str(want) for want in expected)
        raise ValueError(f"{name} must have shape [{wanted}], got {list(shape)}")


def check_tensor(
    name: str,
    tensor: Tensor,
    device: torch.device | None = None,
    *,
    floating: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return ``tensor`` if it is a dense tensor on ``device`` (default: any), else raise.

    With ``floating``, it must contain real floating-point numbers of at least 16 bits. With
    ``sparse``, it may also be a sparse COO tensor.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} must be a tensor, got {type(tensor).__name__}")
    is_coo = sparse and tensor.layout == torch.sparse_coo
    if not is_coo and (tensor.layout != torch.strided or tensor.is_nested):
        layout = "a nested tensor" if tensor.is_nested else str(tensor.layout)
        kind = "a dense or sparse COO tensor" if sparse else "a dense tensor"
        raise ValueError(f"{name} must be {kind}, got {layout}")
    if device is not None and tensor.device != device:
        raise ValueError(f"{name} must be on {device}, like the embeddings, got {tensor.device}")
    if floating and not tensor.is_floating_point():
        raise ValueError(f"{name} must contain floating-point numbers, got {tensor.dtype}")
    if floating and tensor.dtype.itemsize < 2:
        raise ValueError(f"{name} must contain numbers of 16 bits or more, got {tensor.dtype}")
    return tensor


def check_mask(
    name: str,
    mask: Tensor,
    expected: Sequence[int | str | None],
    device: torch.device | None = None,
) -> None:
    """Check that a mask is boolean and has the shape ``expected``."""
    check_tensor(name, mask, device)
    if mask.dtype != torch.bool:
        raise ValueError(f"{name} must be boolean, got {mask.dtype}")
    check_shape(name, mask, expected)


def check_keys(
    name: str,
    values: Tensor,
    shape: Sequence[int],
    device: torch.device | None = None,
    *,
    keys: int | None = None,
) -> None:
    """Check that each row has ``keys`` integers (default: any number; 0: one, without an axis)."""
    check_tensor(name, values, device)
    if values.is_floating_point() or values.is_complex():
        raise ValueError(f"{name} must contain integers, got {values.dtype}")
    wanted = tuple(shape)
    if values.ndim == len(wanted) + 1 and values.shape[-1] > 0 and keys != 0:
        wanted = (*wanted, values.shape[-1] if keys is None else keys)
    elif keys is not None and keys > 1:
        wanted = (*wanted, keys)
    check_shape(name, values, wanted)


def check_indices(
    name: str, indices: Tensor, shape: Sequence[int], count: int, kind: str, device: torch.device
) -> None:
    """Check that integers are indices from 0 to ``count - 1``."""
    check_keys(name, indices, shape, device, keys=0)
    if is_eager_cpu(indices) and len(indices):
        low, high = (int(end) for end in indices.aminmax())
        if low < 0 or high >= count:
            raise ValueError(
                f"{name} must contain indices of {kind} from 0 to {count - 1}, "
                f"got {low if low < 0 else high}"
            )


def check_finite(name: str, tensor: Tensor) -> None:
    """Raise ``ValueError`` if a tensor has NaN or infinite entries. Synchronizes the device."""
    if not bool(torch.isfinite(tensor).all()):
        bad = int((~torch.isfinite(tensor)).sum())
        raise ValueError(f"{name} must be finite, got {bad} NaN or infinite entries")


def is_eager_cpu(tensor: Tensor) -> bool:
    """Return whether Python code can cheaply branch on the tensor's values.

    True on the CPU, unless ``torch.compile`` or a ``torch.func`` transform is tracing. On other
    devices, a branch would synchronize.
    """
    tracing = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
    return tensor.is_cpu and not tracing


def is_traced() -> bool:
    """Return whether ``torch.compile`` or a ``torch.func`` transform is tracing."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def missing(library: str, extra: str, error: ImportError) -> ImportError:
    """Return an error that names the extra for a library that could not be imported."""
    return ImportError(
        f"this needs {library} ({error}); install it with: pip install 'bayescl[{extra}]'"
    )
