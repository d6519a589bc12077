"""Recent items, the latent classes fitted to them, and how far to believe these."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bayescl._axes import Float, Tensor
from bayescl._checks import check_count, check_shape
from bayescl.functional.latent_classes import (
    LatentClasses,
    Mixtures,
    class_responsibilities,
    fit_latent_classes,
    item_responsibilities,
    same_class_factors,
    trust_of_agreement,
)
from bayescl.losses.queue import CandidateQueue

COMPONENTS_PER_CLASS = (2.0, 3.0, 4.0, 6.0)
"""How many components each mixture has, for each class that is expected. What a class is split
into, the transitions of views join again; components that merge two classes nothing parts."""

_ITEMS_PER_COMPONENT = 2
"""A mixture is fitted once the memory holds so many items for each of its components."""

_INERTIA = 0.9
"""Of the moving average of the views' agreement."""

_FIT = ("center", "transform", "directions", "weights", "kappa", "moves", "agreement")
"""Tensors of a fit."""


class ClassMemory(nn.Module):
    """Two views of each of the most recent items, and latent classes fitted to them.

    Empty at first: it learns the number of coordinates from the first items, and nothing is
    believed before the first fit. The memory, the last fit and the agreement of views travel in
    ``state_dict``, and fits are seeded by the number of calls, so a resumed run goes on exactly.

    Args:
        size: items remembered.
        refit_every: calls of :meth:`remember` between two fits.
    """

    center: Tensor | None
    transform: Tensor | None
    directions: Tensor | None
    weights: Tensor | None
    kappa: Tensor | None
    moves: Tensor | None
    """Transitions of all mixtures, laid end to end."""

    agreement: Tensor | None

    def __init__(self, size: int, refit_every: int) -> None:
        super().__init__()
        self.size = size
        self.refit_every = refit_every
        self.queue: CandidateQueue | None = None
        self._calls = 0
        self._sizes: tuple[int, ...] = ()
        for name in _FIT:
            self.register_buffer(name, None)

    @property
    def classes(self) -> LatentClasses | None:
        """The last fit; None before the first."""
        if self.center is None or self.transform is None or self.directions is None:
            return None
        assert self.weights is not None  # all tensors of a fit come together
        assert self.kappa is not None
        assert self.moves is not None
        mixtures = Mixtures(self.directions, self.weights, self.kappa, self._sizes)
        parts = torch.split(self.moves, [size * size for size in self._sizes])
        transitions = tuple(
            part.view(size, size) for part, size in zip(parts, self._sizes, strict=True)
        )
        return LatentClasses(self.center, self.transform, mixtures, transitions)

    @property
    def trust_by_mixture(self) -> Float[Tensor, " mixtures"] | None:
        """How far each mixture is believed, in [0, 1]; None before the first fit."""
        if self.classes is None or self.agreement is None:
            return None
        return trust_of_agreement(self.agreement)

    @property
    def trust(self) -> float:
        """The mean over mixtures; 0 before the first fit."""
        trust = self.trust_by_mixture
        return 0.0 if trust is None else float(trust.mean())

    def factors(
        self, rows: Float[Tensor, "rows dim"], partners: Float[Tensor, "rows dim"] | None = None
    ) -> Float[Tensor, "rows components"] | None:
        """Factors of the posterior that two rows are of one class: it is their product.

        Args:
            rows: embeddings.
            partners: the other view of each row, where there is one.

        Returns:
            None where nothing is believed. Rows that are not finite have 0: nothing is known.
        """
        self._follow(rows)
        classes, trust = self.classes, self.trust_by_mixture
        if classes is None or trust is None:
            return None
        if trust.device.type == "cpu" and not bool(trust.any()):  # looking costs nothing there
            return None
        if partners is None:
            shares = class_responsibilities(rows.to(classes.center), classes)
        else:
            shares, _ = item_responsibilities(
                rows.to(classes.center), partners.to(classes.center), classes
            )
        found = same_class_factors(shares.nan_to_num(0.0), trust, classes.transitions)
        return found.to(torch.promote_types(rows.dtype, torch.float32))

    @torch.no_grad()
    def observe(
        self, view_1: Float[Tensor, "items dim"], view_2: Float[Tensor, "items dim"]
    ) -> None:
        """Learn from two views of items how far views agree in the last fit."""
        self._follow(view_1)
        classes = self.classes
        if classes is None:
            return
        check_shape("view_1", view_1, ("items", len(classes.center)))
        _, agreement = item_responsibilities(
            view_1.to(classes.center), view_2.to(classes.center), classes
        )
        before = self.agreement
        # After the first fit there is nothing to average with.
        self.agreement = agreement if before is None else torch.lerp(agreement, before, _INERTIA)

    @torch.no_grad()
    def remember(
        self,
        view_1: Float[Tensor, "items dim"],
        view_2: Float[Tensor, "items dim"],
        *,
        tau_plus: float,
    ) -> None:
        """Keep items in place of the oldest ones, and fit anew every few calls.

        Args:
            view_1: embeddings of one view of each item.
            view_2: embeddings of the other.
            tau_plus: share of items that are of one class, in (0, 1).
        """
        if self.queue is None:
            self.queue = CandidateQueue(self.size, 2 * view_1.shape[1]).to(view_1.device)
        self.queue.enqueue(torch.cat([view_1, view_2], dim=1))
        sizes = tuple(max(2, round(each / tau_plus)) for each in COMPONENTS_PER_CLASS)
        kept = self.queue.candidates
        self._calls += 1
        # With fewer items a mixture would fit each of them by a component of its own.
        if kept is None or len(kept) < min(_ITEMS_PER_COMPONENT * max(sizes), self.size):
            return
        sizes = tuple(min(size, len(kept)) for size in sizes)
        if self.classes is None or self._calls % self.refit_every == 0:
            dim = view_1.shape[1]
            self._fit(kept[:, :dim], kept[:, dim:], sizes)

    def _follow(self, rows: Tensor) -> None:
        """Be where the embeddings are: what a checkpoint brought may lie elsewhere."""
        if self.center is not None and self.center.device != rows.device:
            self.to(rows.device)

    def _fit(self, view_1: Tensor, view_2: Tensor, sizes: tuple[int, ...]) -> None:
        generator = torch.Generator().manual_seed(self._calls)
        classes = fit_latent_classes(view_1, view_2, sizes, generator=generator)
        if sizes != self._sizes:
            self.agreement = None  # of other mixtures
        self._sizes = sizes
        self.center, self.transform = classes.center, classes.transform
        mixtures = classes.mixtures
        self.directions, self.weights = mixtures.directions, mixtures.weights
        self.kappa = mixtures.kappa
        self.moves = torch.cat([matrix.flatten() for matrix in classes.transitions])

    def get_extra_state(self) -> dict[str, Any]:
        """Return the number of calls and the sizes of the mixtures."""
        return {"calls": self._calls, "sizes": list(self._sizes)}

    def set_extra_state(self, state: Any) -> None:
        """Take both out of a ``state_dict``.

        Raises:
            ValueError: if it is damaged.
        """
        try:
            self._calls = check_count("calls", state["calls"], 0)
            self._sizes = tuple(check_count("sizes", size, 1) for size in state["sizes"])
        except (KeyError, TypeError):
            raise ValueError(
                "the state of ClassMemory must hold calls and sizes, and is damaged"
            ) from None

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *rest: Any, **more: Any
    ) -> None:
        # Tensors that come into being while training have the shapes of what is loaded.
        for name in _FIT:
            found = state_dict.get(prefix + name)
            setattr(self, name, None if found is None else torch.empty_like(found))
        kept = state_dict.get(f"{prefix}queue.embeddings")
        self.queue = None if kept is None else CandidateQueue(self.size, kept.shape[1])
        super()._load_from_state_dict(state_dict, prefix, *rest, **more)

    def extra_repr(self) -> str:
        """Show the sizes."""
        return f"size={self.size}, refit_every={self.refit_every}"
