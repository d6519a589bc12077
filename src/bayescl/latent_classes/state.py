"""The state of a memory of latent classes: what goes into a ``state_dict``, and checks of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from bayescl.axes import Tensor
from bayescl.checks import check_count, check_interval, check_shape
from bayescl.functional import LatentClasses, Mixtures
from bayescl.losses.class_fits import SCALES

_COUNTS = ("calls", "came", "seen", "since", "scale")
_FRACTIONS = ("prior", "right", "wrong")
_HELD = ("ring", "labelled", "labels", "agreement")
_OF_MIXTURES = ("directions", "weights", "kappa")
_FIT = (*("center", "transform", "alignment", "closeness", "share", "known"), *_OF_MIXTURES)
_NAMES = (*_COUNTS, *_FRACTIONS, "sizes", "scores", *_HELD, *_FIT, "transitions")
"""Contents of a state. Each tensor is None until there is one."""


def state_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a memory with these attributes: numbers, and copies of tensors."""
    classes = attributes["classes"]
    state = {name: attributes[name] for name in (*_COUNTS, *_FRACTIONS, *_HELD)}
    state |= dict.fromkeys((*_FIT, "transitions")) | tensors_of(classes)
    state = {
        name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()
    }
    sizes = [] if classes is None else list(classes.sizes)
    return state | {"sizes": sizes, "scores": list(attributes["scores"])}


def tensors_of(classes: LatentClasses | None) -> dict[str, Tensor]:
    """The tensors of a fit, by their names in a state; transitions are flattened and joined."""
    if classes is None:
        return {}
    tensors = {
        name: getattr(classes.mixtures if name in _OF_MIXTURES else classes, name) for name in _FIT
    }
    tensors["transitions"] = torch.cat([matrix.flatten() for matrix in classes.transitions])
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def classes_of(tensors: Mapping[str, Tensor], sizes: Sequence[int]) -> LatentClasses:
    """The fit that has these tensors, the inverse of :func:`tensors_of`."""
    squares = torch.split(tensors["transitions"], [size * size for size in sizes])
    return LatentClasses(
        tensors["center"],
        tensors["transform"],
        Mixtures(tensors["directions"], tensors["weights"], tensors["kappa"], tuple(sizes)),
        tuple(square.view(size, size) for square, size in zip(squares, sizes, strict=True)),
        tensors["alignment"],
        tensors["closeness"],
        tensors["share"],
        tensors.get("known"),
    )


def checked_state(state: Any, memory: int) -> dict[str, Any]:
    """Return the attributes of a memory of that size from its state, or raise ``ValueError``."""
    if not isinstance(state, Mapping) or any(name not in state for name in _NAMES):
        raise ValueError(f"the state of ClassMemory is damaged: it must hold {', '.join(_NAMES)}")
    numbers: dict[str, Any] = {name: check_count(name, state[name], 0) for name in _COUNTS}
    numbers |= {name: check_interval(name, state[name], 0.0, 1e9) for name in _FRACTIONS}
    check_interval("prior", state["prior"], 0.0, 1.0, open_low=True)
    sizes, scores = (
        list(value) if isinstance(value, list | tuple) else [value]
        for value in (state["sizes"], state["scores"])
    )
    if len(scores) != len(SCALES) or numbers["scale"] >= len(SCALES):
        raise ValueError(f"scores and scale must be of {len(SCALES)} numbers of classes")
    numbers["scores"] = [check_interval("scores", score, -1.0, 1.0) for score in scores]
    needed = {"ring"} if state["came"] else set()
    needed |= {"ring", *_FIT, "transitions"} - {"known"} if sizes else set()
    needed |= {"labelled", "labels"} if state["labelled"] is not None else set()
    tensors = {}
    for name, shape in _shapes(state, [check_count("sizes", size, 1) for size in sizes]).items():
        tensor, kind = state[name], torch.int64 if name == "labels" else torch.float32
        if tensor is None and name not in needed:
            continue
        given = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        if given != kind:
            raise ValueError(f"{name} must be a tensor of {kind}, got {given}")
        check_shape(name, tensor, shape)
        if name == "ring" and len(tensor) != memory:
            raise ValueError(f"memory_size must be {len(tensor)} to load this state, got {memory}")
        # Training may remember NaN, and the share of a failed fit is infinite; nothing else is.
        if name not in ("ring", "labelled", "labels", "share") and not tensor.isfinite().all():
            raise ValueError(f"{name} must be finite, got NaN or infinity")
        tensors[name] = tensor.detach().clone()
    classes = classes_of(tensors, sizes) if sizes else None
    return {**numbers, **{name: tensors.get(name) for name in _HELD}, "classes": classes}


def _shapes(state: Mapping[str, Any], sizes: list[int]) -> dict[str, tuple[int | str, ...]]:
    """The shapes that a state's tensors must have to agree with one another and with ``sizes``."""

    def length(name: str, axis: int) -> int:
        tensor = state[name]
        return tensor.shape[axis] if isinstance(tensor, Tensor) and tensor.ndim > axis else 0

    mixtures, components, dim = len(sizes), sum(sizes), length("ring", 1) // 2
    named = length("known", 1) // max(1, mixtures) * mixtures  # as many labels in each mixture
    return {
        "ring": ("memory", 2 * dim),
        "labels": ("labelled",),
        "labelled": (length("labels", 0), 2 * dim),
        "agreement": (mixtures,),
        "center": (dim,),
        "transform": (dim, dim),
        "directions": (components, dim),
        "weights": (components,),
        "kappa": (mixtures,),
        "transitions": (sum(size * size for size in sizes),),
        "alignment": (mixtures,),
        "closeness": (),
        "share": (),
        "known": (components, named),
    }
