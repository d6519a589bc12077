"""The state of a memory of latent classes: what goes into a ``state_dict``, and checks of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from bayescl.axes import Tensor
from bayescl.checks import check_count, check_interval, check_shape
from bayescl.latent_classes.fit import SCALES
from bayescl.latent_classes.labelled import LabelledItems
from bayescl.latent_classes.mixture import Mixtures
from bayescl.latent_classes.posterior import LatentClasses

_COUNTS = ("calls", "num_seen", "num_fitted", "num_since_fit", "scale")
_KINDS = ("labelled", "audited")
_OF_KINDS = tuple(f"{kind}_{part}" for kind in _KINDS for part in LabelledItems._fields)
_OF_CLASSES = ("center", "transform", "alignment", "closeness", "share", "component_labels")
_OF_MIXTURES = ("directions", "weights", "kappa")
_FIT = (*_OF_CLASSES, *_OF_MIXTURES, "transitions")
_HELD = ("buffer", "agreement")
_NAMES = (*_COUNTS, "prior", "sizes", "scores", *_HELD, *_OF_KINDS, *_FIT)
"""Contents of a state. Each tensor is None until there is one."""


def state_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a memory with these attributes: numbers, and copies of tensors."""
    classes = attributes["classes"]
    state = dict.fromkeys(_NAMES) | {name: attributes[name] for name in (*_COUNTS, "prior", *_HELD)}
    for kind in _KINDS:
        if attributes[kind] is not None:
            state |= {f"{kind}_{name}": part for name, part in attributes[kind]._asdict().items()}
    state |= tensors_of(classes)
    state = {
        name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()
    }
    sizes = [] if classes is None else list(classes.sizes)
    return state | {"sizes": sizes, "scores": list(attributes["scores"])}


def tensors_of(classes: LatentClasses | None) -> dict[str, Tensor]:
    """The tensors of a fit, by their names in a state; transitions are flattened and joined."""
    if classes is None:
        return {}
    tensors = {name: getattr(classes, name) for name in _OF_CLASSES}
    tensors |= {name: getattr(classes.mixtures, name) for name in _OF_MIXTURES}
    tensors["transitions"] = torch.cat([matrix.flatten() for matrix in classes.transitions])
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def classes_of(tensors: Mapping[str, Tensor], sizes: Sequence[int]) -> LatentClasses:
    """The fit that has these tensors, the inverse of :func:`tensors_of`."""
    squares = torch.split(tensors["transitions"], [size * size for size in sizes])
    return LatentClasses(
        mixtures=Mixtures(*(tensors[name] for name in _OF_MIXTURES), tuple(sizes)),
        transitions=tuple(
            square.view(size, size) for square, size in zip(squares, sizes, strict=True)
        ),
        **{name: tensors.get(name) for name in _OF_CLASSES},  # type: ignore[arg-type]
    )


def checked_state(state: Any, memory: int) -> dict[str, Any]:
    """Return the attributes of a memory of that size from its state, or raise ``ValueError``."""
    if not isinstance(state, Mapping) or any(name not in state for name in _NAMES):
        raise ValueError(f"the state of ClassMemory is damaged: it must hold {', '.join(_NAMES)}")
    held: dict[str, Any] = {name: check_count(name, state[name], 0) for name in _COUNTS}
    held["prior"] = check_interval("prior", state["prior"], 0.0, 1.0, open_low=True)
    sizes, scores = (
        list(value) if isinstance(value, list | tuple) else [value]
        for value in (state["sizes"], state["scores"])
    )
    if len(scores) != len(SCALES) or held["scale"] >= len(SCALES):
        raise ValueError(f"scores and scale must be of {len(SCALES)} numbers of classes")
    held["scores"] = [check_interval("scores", score, -1.0, 1.0) for score in scores]
    needed = {"buffer"} if state["num_seen"] else set()
    needed |= {"buffer", *_FIT} - {"component_labels"} if sizes else set()
    for kind in _KINDS:
        needed |= _fields_of(kind) if state[f"{kind}_views"] is not None else set()
    tensors = {}
    for name, shape in _shapes(state, [check_count("sizes", size, 1) for size in sizes]).items():
        tensor = state[name]
        if tensor is None and name not in needed:
            continue
        kind = torch.int64 if name.endswith(("_labels", "_calls")) else torch.float32
        kind = torch.float32 if name == "component_labels" else kind
        given = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        if given != kind:
            raise ValueError(f"{name} must be a tensor of {kind}, got {given}")
        check_shape(name, tensor, shape)
        if name == "buffer" and len(tensor) != memory:
            raise ValueError(f"memory_size must be {len(tensor)} to load this state, got {memory}")
        # Training may remember NaN, and the share of a failed fit is infinite; nothing else is.
        if name not in ("buffer", *_OF_KINDS, "share") and not tensor.isfinite().all():
            raise ValueError(f"{name} must be finite, got NaN or infinity")
        tensors[name] = tensor.detach().clone()
    held["classes"] = classes_of(tensors, sizes) if sizes else None
    for kind in _KINDS:
        parts = [tensors.get(f"{kind}_{name}") for name in LabelledItems._fields]
        held[kind] = None if parts[0] is None else LabelledItems(*parts)  # type: ignore[arg-type]
    return held | {name: tensors.get(name) for name in _HELD}


def _fields_of(kind: str) -> set[str]:
    return {f"{kind}_{name}" for name in LabelledItems._fields}


def _shapes(state: Mapping[str, Any], sizes: list[int]) -> dict[str, tuple[int | str, ...]]:
    """The shapes that a state's tensors must have to agree with one another and with ``sizes``."""

    def length(name: str, axis: int) -> int:
        tensor = state[name]
        return tensor.shape[axis] if isinstance(tensor, Tensor) and tensor.ndim > axis else 0

    mixtures, components, dim = len(sizes), sum(sizes), length("buffer", 1) // 2
    columns = length("component_labels", 1) // max(1, mixtures) * mixtures  # as many in each
    shapes: dict[str, tuple[int | str, ...]] = {
        "buffer": ("memory", 2 * dim),
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
        "component_labels": (components, columns),
    }
    for kind in _KINDS:
        count = length(f"{kind}_labels", 0)
        shapes |= {f"{kind}_views": (count, 2 * dim), f"{kind}_labels": ("items",)}
        shapes |= {f"{kind}_calls": (count,)}
    return shapes
