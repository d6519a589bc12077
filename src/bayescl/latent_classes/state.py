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
_HELD = {"buffer": "size two_dim", "agreement": "mixtures"}
_OF_CLASSES = {
    "center": "dim",
    "transform": "dim dim",
    "alignment": "mixtures",
    "closeness": "",
    "share": "",
    "component_labels": "components labels",
}
_OF_MIXTURES = {"directions": "components dim", "weights": "components", "kappa": "mixtures"}
_FIT = {**_OF_CLASSES, **_OF_MIXTURES, "transitions": "squares"}
_KINDS = ("labelled", "audited")
_ITEMS = {
    f"{kind}_{name}": f"{kind} two_dim" if name == "views" else kind
    for kind in _KINDS
    for name in LabelledItems._fields
}
_SHAPES = {**_HELD, **_FIT, **_ITEMS}
"""Axes of each tensor, which is None until there is one. Axes of one name must agree."""

_NAMES = (*_COUNTS, "prior", "sizes", "scores", *_SHAPES)
_MAY_BE_INFINITE = {"buffer", "share", *_ITEMS}  # training may remember NaN, and a fit may fail


def state_of(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of a memory with these attributes: numbers, and copies of tensors."""
    classes = attributes["classes"]
    state = dict.fromkeys(_NAMES) | {name: attributes[name] for name in (*_COUNTS, "prior", *_HELD)}
    for kind in _KINDS:
        if attributes[kind] is not None:
            state |= {f"{kind}_{name}": part for name, part in attributes[kind]._asdict().items()}
    state |= {} if classes is None else tensors_of(classes)
    state = {
        name: value.clone() if isinstance(value, Tensor) else value for name, value in state.items()
    }
    sizes = [] if classes is None else list(classes.sizes)
    return state | {"sizes": sizes, "scores": list(attributes["scores"])}


def tensors_of(classes: LatentClasses) -> dict[str, Tensor]:
    """The tensors of a fit, by their names in a state; transitions are flattened and joined."""
    tensors = {name: getattr(classes, name) for name in _OF_CLASSES}
    tensors |= {name: getattr(classes.mixtures, name) for name in _OF_MIXTURES}
    tensors["transitions"] = torch.cat([matrix.flatten() for matrix in classes.transitions])
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def classes_of(tensors: Mapping[str, Any], sizes: Sequence[int]) -> LatentClasses:
    """The fit that has these tensors, the inverse of :func:`tensors_of`."""
    squares = torch.split(tensors["transitions"], [size * size for size in sizes])
    return LatentClasses(
        mixtures=Mixtures(**{name: tensors[name] for name in _OF_MIXTURES}, sizes=tuple(sizes)),
        transitions=tuple(map(torch.Tensor.view, squares, sizes, sizes)),
        **{name: tensors[name] for name in _OF_CLASSES if name in tensors},
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
    sizes = [check_count("sizes", size, 1) for size in sizes]
    if len(scores) != len(SCALES) or held["scale"] >= len(SCALES):
        raise ValueError(f"scores and scale must be of {len(SCALES)} numbers of classes")
    held["scores"] = [check_interval("scores", score, -1.0, 1.0) for score in scores]
    tensors = _checked_tensors(state, sizes, memory)
    held["classes"] = classes_of(tensors, sizes) if sizes else None
    for kind in _KINDS:
        parts = [tensors[name] for name in _ITEMS if name.startswith(kind) and name in tensors]
        held[kind] = LabelledItems(*parts) if parts else None
    return held | {name: tensors.get(name) for name in _HELD}


def _checked_tensors(state: Mapping[str, Any], sizes: list[int], memory: int) -> dict[str, Tensor]:
    """Copies of a state's tensors, after checks of what is there, of which type and shape."""
    needed = {"buffer"} if state["num_seen"] else set()
    needed |= {"buffer", *_FIT} - {"component_labels"} if sizes else set()
    needed |= {
        name for kind in _KINDS for name in _ITEMS
        if name.startswith(kind) and state[f"{kind}_views"] is not None
    }  # fmt: skip
    squares = sum(size * size for size in sizes)
    axes = {"mixtures": len(sizes), "components": sum(sizes), "squares": squares}
    tensors: dict[str, Tensor] = {}
    for name, shape in _SHAPES.items():
        tensor = state[name]
        if tensor is None and name not in needed:
            continue
        kind = torch.int64 if name in _ITEMS and "views" not in name else torch.float32
        given = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        if given != kind:
            raise ValueError(f"{name} must be a tensor of {kind}, got {given}")
        check_shape(name, tensor, tuple(axes.get(axis, axis) for axis in shape.split()))
        axes |= dict(zip(shape.split(), tensor.shape, strict=True))
        if name == "buffer":
            if len(tensor) != memory:
                raise ValueError(
                    f"memory_size must be {len(tensor)} to load this state, got {memory}"
                )
            axes["dim"] = tensor.shape[1] // 2
            check_shape(name, tensor, (memory, 2 * axes["dim"]))
        if name == "component_labels":  # as many in each mixture
            check_shape(name, tensor, (len(tensor), tensor.shape[1] // len(sizes) * len(sizes)))
        if name not in _MAY_BE_INFINITE and not tensor.isfinite().all():
            raise ValueError(f"{name} must be finite, got NaN or infinity")
        tensors[name] = tensor.detach().clone()
    return tensors
