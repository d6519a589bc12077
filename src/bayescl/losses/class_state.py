"""What a memory of latent classes holds, and its way into a ``state_dict`` and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch

from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count, check_interval
from bayescl.functional import LatentClasses, Mixtures
from bayescl.losses.class_fits import SCALES

_COUNTS = ("calls", "next", "filled", "seen", "since", "scale")
_FRACTIONS = ("prior", "right", "wrong")
_HELD = ("items", "labelled", "labels", "agreement")
_FIT = (
    "center",
    "transform",
    "directions",
    "weights",
    "kappa",
    "transitions",
    "alignment",
    "closeness",
    "share",
    "known",
)
_NAMES = (*_COUNTS, *_FRACTIONS, "sizes", "scores", *_HELD, *_FIT)
"""Contents of a state. Each tensor may be missing at first. Transitions lie end to end."""


@dataclass
class Remembered:
    """What a memory holds. Tensors are float32, and labels int64."""

    items: Float[Tensor, "size two_dim"] | None = None
    """Both views of each item, side by side, in a ring."""
    next: int = 0
    """Where the next item goes."""
    filled: int = 0
    calls: int = 0
    labelled: Float[Tensor, "labelled two_dim"] | None = None
    """Items with a label, the latest last."""
    labels: Int[Tensor, " labelled"] | None = None

    classes: LatentClasses | None = None
    """The last fit."""
    seen: int = 0
    """Items that it was made to."""
    since: int = 0
    """Items that have come since."""
    prior: float = 1.0
    """Of the last fit."""
    scale: int = 0
    """Which of SCALES it had, where no number of classes is given."""
    scores: list[float] = field(default_factory=lambda: [0.0] * len(SCALES))
    """How far views and mixtures agree at each of SCALES."""

    agreement: Float[Tensor, " mixtures"] | None = None
    """Moving average of how far views and mixtures agree."""
    right: float = 0.0
    """Pairs of one known label that attract, after decay."""
    wrong: float = 0.0
    """The same of two different labels."""

    def keep(self, view_1: Tensor, view_2: Tensor, size: int) -> None:
        """Write items in place of the oldest of ``size``; of too many, the last."""
        count, dim = view_1.shape
        if self.items is None:
            self.items = view_1.new_zeros(size, 2 * dim, dtype=torch.float32)
        kept = min(count, size)
        start = (self.next + count - kept) % size
        before = min(kept, size - start)  # that go before the ring's end
        for view, columns in zip((view_1, view_2), self.items.chunk(2, dim=1), strict=True):
            columns[start : start + before] = view[count - kept :][:before]
            if before < kept:
                columns[: kept - before] = view[count - kept :][before:]
        self.next = (self.next + count) % size
        self.filled = min(size, self.filled + count)

    def in_order(self) -> Float[Tensor, "filled two_dim"]:
        """The items, the oldest first."""
        assert self.items is not None
        if self.filled < len(self.items):
            return self.items[: self.filled]
        return self.items.roll(-self.next, dims=0)

    def keep_labelled(self, views: Tensor, labels: Tensor, most: int) -> None:
        """Append labelled items, and drop the oldest of too many."""
        views, labels = views.float(), labels.long()
        if self.labelled is not None and self.labels is not None:
            views = torch.cat([self.labelled, views])
            labels = torch.cat([self.labels, labels])
        self.labelled, self.labels = views[-most:].clone(), labels[-most:].clone()

    def latest_of_each_label(self, most: int) -> tuple[Tensor, Tensor, Tensor] | None:
        """Both views and the labels of a few of the latest items of each label."""
        if self.labelled is None or self.labels is None or len(self.labels) < 2:
            return None
        labels = self.labels.flip(0)  # the latest first
        order = labels.argsort(stable=True)
        ranked = labels[order]
        place = torch.arange(len(ranked), device=ranked.device)
        place = place - torch.searchsorted(ranked, ranked)  # among those of its label
        kept = len(labels) - 1 - order[place < most]
        view_1, view_2 = self.labelled[kept].chunk(2, dim=1)
        return view_1, view_2, self.labels[kept]

    def state(self) -> dict[str, Any]:
        """Return numbers, and copies of tensors."""
        state: dict[str, Any] = {name: getattr(self, name) for name in (*_COUNTS, *_FRACTIONS)}
        tensors = {name: getattr(self, name) for name in _HELD} | tensors_of(self.classes)
        for name in (*_HELD, *_FIT):
            tensor = tensors.get(name)
            state[name] = None if tensor is None else tensor.clone()
        sizes = [] if self.classes is None else list(self.classes.sizes)
        return state | {"sizes": sizes, "scores": list(self.scores)}

    @classmethod
    def of(cls, state: Any, size: int) -> Remembered:
        """Return the contents that a state describes, for a memory of a size.

        Raises:
            ValueError: if the state is damaged, or is of a memory of another size.
        """
        if not isinstance(state, Mapping) or any(name not in state for name in _NAMES):
            raise ValueError(
                f"the state of ClassMemory is damaged: it must hold {', '.join(_NAMES)}"
            )
        counts = {name: check_count(name, state[name], 0) for name in _COUNTS}
        fractions = {name: check_interval(name, state[name], 0.0, 1e9) for name in _FRACTIONS}
        if not 0 < fractions["prior"] <= 1:
            raise ValueError(f"prior must lie in (0, 1], got {fractions['prior']!r}")
        scores = _listed(state["scores"])
        if len(scores) != len(SCALES) or counts["scale"] >= len(SCALES):
            raise ValueError(f"scores and scale must be of {len(SCALES)} numbers of classes")
        scores = [check_interval("scores", score, -1.0, 1.0) for score in scores]
        sizes = tuple(check_count("sizes", each, 1) for each in _listed(state["sizes"]))
        tensors = _checked_tensors(state, sizes, size)
        filled, following = counts["filled"], counts["next"]
        if filled > size or following >= size or (filled and "items" not in tensors):
            raise ValueError(
                f"filled and next must suit a memory of {size} items, got {filled} and {following}"
            )
        held = cls(scores=scores, classes=classes_of(tensors, sizes) if sizes else None)
        for name, value in {**counts, **fractions, **tensors}.items():
            if name in (*_COUNTS, *_FRACTIONS, *_HELD):
                setattr(held, name, value)
        return held

    def to(self, device: torch.device, size: int) -> Remembered:
        """Return a copy on another device."""
        state = self.state().items()
        return Remembered.of(
            {
                name: value.to(device) if isinstance(value, Tensor) else value
                for name, value in state
            },
            size,
        )


def tensors_of(classes: LatentClasses | None) -> dict[str, Tensor]:
    """The tensors of a fit, by their names in a state."""
    if classes is None:
        return {}
    tensors = {
        each.name: getattr(part, each.name)
        for part in (classes, classes.mixtures)
        for each in fields(part)
        if each.name in _FIT
    }
    tensors["transitions"] = torch.cat([matrix.flatten() for matrix in classes.transitions])
    return {name: tensor for name, tensor in tensors.items() if tensor is not None}


def classes_of(tensors: Mapping[str, Tensor], sizes: Sequence[int]) -> LatentClasses:
    """The fit of :func:`tensors_of`."""
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


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _checked_tensors(
    state: Mapping[str, Any], sizes: tuple[int, ...], memory: int
) -> dict[str, Tensor]:
    """Copies of a state's tensors, refused unless their shapes and types fit one another."""
    tensors: dict[str, Tensor] = {}
    for name in (*_HELD, *_FIT):
        value = state[name]
        if value is None:
            continue
        kind = torch.int64 if name == "labels" else torch.float32
        held = value.dtype if isinstance(value, Tensor) else type(value).__name__
        if held != kind:
            raise ValueError(f"{name} must be a tensor of {kind}, got {held}")
        tensors[name] = value.detach().clone()
    items = tensors.get("items")
    if items is not None and items.ndim == 2 and len(items) != memory:
        raise ValueError(f"memory_size must be {len(items)} to load this state, got {memory}")
    if sizes and items is None:
        raise ValueError("items must be a tensor where classes were fitted, got none")
    wide = 0 if items is None or items.ndim != 2 else items.shape[1]
    count, squares, dim = sum(sizes), sum(size * size for size in sizes), wide // 2
    labelled = 0 if tensors.get("labels") is None else len(tensors["labels"].reshape(-1))
    known = tensors.get("known")
    known_columns = 0 if known is None or known.ndim != 2 else known.shape[1]
    if known_columns % max(1, len(sizes)):
        raise ValueError(f"known must have as many columns for each mixture, got {known_columns}")
    shapes: dict[str, tuple[int, ...]] = {
        "items": (memory, wide),
        "labelled": (labelled, wide),
        "labels": (labelled,),
        "agreement": (len(sizes),),
        "center": (dim,),
        "transform": (dim, dim),
        "directions": (count, dim),
        "weights": (count,),
        "kappa": (len(sizes),),
        "transitions": (squares,),
        "alignment": (len(sizes),),
        "closeness": (),
        "share": (),
        "known": (count, known_columns),
    }
    needed = {*(_FIT if sizes else ()), *(("labels",) if "labelled" in tensors else ())}
    if missing := sorted(needed - tensors.keys() - {"known"}):  # only labels make it known
        raise ValueError(f"{missing[0]} must be a tensor, got None")
    for name, tensor in tensors.items():
        if tuple(tensor.shape) != shapes[name] or wide % 2:
            raise ValueError(
                f"{name} must have shape {list(shapes[name])}, got {list(tensor.shape)}"
            )
        # What was remembered may hold a NaN that training met; a fit may not.
        if name in (*_FIT, "agreement") and name != "share" and not bool(tensor.isfinite().all()):
            raise ValueError(f"{name} must be finite, got NaN or infinity")
    return tensors
