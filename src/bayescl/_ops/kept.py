"""Small tensors that depend on sizes and settings only, kept to save operations."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import torch

from bayescl._checks import is_traced
from bayescl._types import Tensor

_KEPT: dict[Hashable, tuple[Tensor, ...]] = {}
_MOST = 16
"""Largest number of keys, so that batches of ever new sizes do not fill the memory."""


def kept(key: Hashable, make: Callable[[], tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    """Return what ``make`` returned at the first call with a key. Do not write to the tensors.

    On a GPU, each operation launches a kernel, and a small batch takes as long as its launches.
    Only ordinary tensors are kept: not fake tensors, tensors of inference mode, or tensors in
    the memory of a CUDA graph.
    """
    if is_traced():
        return make()
    known = _KEPT.get(key)
    if known is None:
        known = make()
        first = known[0]
        is_kept = type(first) is Tensor and not first.is_inference()
        if is_kept and not (first.is_cuda and torch.cuda.is_current_stream_capturing()):
            if len(_KEPT) >= _MOST:
                _KEPT.clear()
            _KEPT[key] = known
    return known
