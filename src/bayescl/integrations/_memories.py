"""One memory per embedding length, for a loss that is called with several lengths."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from bayescl.losses import LatentClassContrastiveLoss
from bayescl.losses.class_memory import ClassMemory


class MemoryByDimension(nn.Module):
    """Further memories of a loss, for embeddings of other lengths than its own memory holds.

    ``MatryoshkaLoss`` calls one loss with embeddings cut to several lengths. Classes are found
    separately for each: hyper-parameters and temperature are shared; memory, fits and trust are
    not. The loss's own memory keeps the length that it saw first.
    """

    def __init__(self) -> None:
        super().__init__()
        self._others: dict[int, ClassMemory] = {}
        self._states: dict[int, Any] = {}  # of memories that no call has asked for yet

    @contextmanager
    def of(self, loss: LatentClassContrastiveLoss, dim: int) -> Iterator[None]:
        """Within the context, give a loss the memory for embeddings of a length."""
        own = loss.memory
        if own.items is None or own.items.shape[1] == 2 * dim:
            yield
            return
        if dim not in self._others:
            self._others[dim] = ClassMemory(own.size, own.refit_every)
            if dim in self._states:
                self._others[dim].set_extra_state(self._states.pop(dim))
        loss.memory = self._others[dim]
        try:
            yield
        finally:
            loss.memory = own

    def get_extra_state(self) -> dict[str, Any]:
        """Return the state of each memory, by its length."""
        known = {dim: memory.get_extra_state() for dim, memory in self._others.items()}
        return {str(dim): state for dim, state in {**self._states, **known}.items()}

    def set_extra_state(self, state: Any) -> None:
        """Restore all memories from a ``state_dict``."""
        self._others, self._states = {}, {int(dim): each for dim, each in state.items()}
