"""Recent items, the latent classes fitted to them, and how far to believe these."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bayescl import distributed
from bayescl._axes import Float, Tensor
from bayescl._checks import check_count
from bayescl.functional.latent_classes import (
    LatentClasses,
    Mixtures,
    class_responsibilities,
    fit_latent_classes,
    further_views,
    same_class_factors,
    signatures,
    trust_of_agreement,
    trust_of_closeness,
    trust_of_share,
    view_agreement,
)

COMPONENTS_PER_CLASS = (2.0, 3.0, 4.0, 6.0)
"""How many components each mixture has, for each class that is expected. What a class is split
into, the transitions of views join again; components that merge two classes nothing parts."""

_ITEMS_PER_COMPONENT = 2
"""A mixture is fitted once the memory holds so many items for each of its components."""

_RENEWALS = 2
"""A fit is renewed once so many times the items that it saw have come since."""

_INERTIA = 0.9
"""Of the moving average of the views' agreement."""

_NUMBERS = ("calls", "next", "filled", "seen", "since")
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
)
_TENSORS = ("items", "agreement", *_FIT)
"""What a state holds; of the tensors each is there or not yet. Transitions lie end to end."""


class ClassMemory(nn.Module):
    """Two views of each of the most recent items, and latent classes fitted to them.

    Empty at first: it learns the number of coordinates from the first items, and nothing is
    believed before the first fit. The memory, the last fit and the agreement of views travel in
    ``state_dict``, and fits are seeded by the number of calls, so a resumed run goes on exactly.

    All of it is extra state and not buffers, in float32 on the device of the last embeddings:
    what turns a model to half precision leaves it alone, and ``DistributedDataParallel`` does not
    send it around while processes that do not gather hold different ones.

    Args:
        size: items remembered.
        refit_every: calls of :meth:`remember` between two fits. Default: as many as bring twice
            the items that the last fit saw, so that fitting costs the same share of a small
            batch and of a large one.
    """

    def __init__(self, size: int, refit_every: int | None = None) -> None:
        super().__init__()
        self.size = size
        self.refit_every = refit_every
        self.classes: LatentClasses | None = None
        """The last fit; None before the first."""
        self._items: Tensor | None = None
        self._agreement: Tensor | None = None
        self._calls = 0
        self._filled = 0
        self._next = 0
        self._seen = 0  # items that the last fit was made to
        self._since = 0  # items that have come since

    @property
    def calls(self) -> int:
        """How often items were remembered."""
        return self._calls

    @property
    def items(self) -> Float[Tensor, "filled two_dim"] | None:
        """Both views of each item that is remembered, side by side; None while there is none."""
        return None if self._items is None else self._items[: self._filled]

    @property
    def agreement(self) -> Float[Tensor, " mixtures"] | None:
        """Moving average of how far views and mixtures agree; None before the first fit."""
        return self._agreement

    @property
    def trust_by_mixture(self) -> Float[Tensor, " mixtures"] | None:
        """How far each mixture is believed, in [0, 1]; None before the first fit."""
        if self._agreement is None or self.classes is None:
            return None
        prior = min(1.0, COMPONENTS_PER_CLASS[0] / self.classes.sizes[0])  # behind the sizes
        sized = trust_of_share(self.classes.share, prior)
        worth = trust_of_closeness(self.classes.closeness)
        return trust_of_agreement(self._agreement) * sized * worth

    @property
    def trust(self) -> float:
        """The mean over mixtures; 0 before the first fit."""
        trust = self.trust_by_mixture
        return 0.0 if trust is None else float(trust.mean())

    def outlook(self, rows: Float[Tensor, "rows dim"]) -> Float[Tensor, "rows components"] | None:
        """Where further views of rows would lie; None before the first fit.

        Rows that are not finite give NaN.

        Raises:
            ValueError: if rows have another number of coordinates than those remembered.
        """
        self._follow(rows)
        if self.classes is None:
            return None
        shares = class_responsibilities(rows.to(self.classes.center), self.classes)
        return further_views(shares, self.classes.moves)

    def factors(
        self, outlook: Float[Tensor, "rows components"]
    ) -> Float[Tensor, "rows components"] | None:
        """Factors of the posterior that two rows are of one class: it is their product.

        Args:
            outlook: of rows, or the mean over the views of items.

        Returns:
            None where nothing is believed. Rows that are not finite have 0: nothing is known.
        """
        trust = self.trust_by_mixture
        if self.classes is None or trust is None:
            return None
        if trust.device.type == "cpu" and not bool(trust.any()):  # looking costs nothing there
            return None
        return same_class_factors(outlook.nan_to_num(0.0), trust, self.classes.moves, hops=0)

    @torch.no_grad()
    def observe(
        self,
        first: Float[Tensor, "items components"],
        second: Float[Tensor, "items components"],
    ) -> None:
        """Learn how far views and mixtures agree in the last fit.

        Args:
            first: outlook of the first views of items.
            second: of their second views.
        """
        assert self.classes is not None  # else there is no outlook
        both = signatures(torch.cat([first, second]), self.classes.moves, hops=0)
        one, other = both.chunk(2)
        agreement = view_agreement(one, other, self.classes.sizes) * self.classes.alignment
        before = self._agreement
        # After the first fit there is nothing to average with.
        self._agreement = agreement if before is None else torch.lerp(agreement, before, _INERTIA)

    @torch.no_grad()
    def remember(
        self,
        view_1: Float[Tensor, "items dim"],
        view_2: Float[Tensor, "items dim"],
        *,
        tau_plus: float,
        everywhere: bool = False,
    ) -> None:
        """Keep items in place of the oldest ones, and fit anew every few calls.

        Args:
            view_1: embeddings of one view of each item.
            view_2: embeddings of the other.
            tau_plus: share of items that are of one class, in (0, 1).
            everywhere: whether all processes remember the same items. Then all use the fit of
                the first: on different hardware their own might come out differently.
        """
        self._keep(torch.cat([view_1, view_2], dim=1))
        self._calls += 1
        self._since += len(view_1)
        sizes = tuple(max(2, round(each / tau_plus)) for each in COMPONENTS_PER_CLASS)
        # With fewer items a mixture would fit each of them by a component of its own.
        enough = min(_ITEMS_PER_COMPONENT * max(sizes), self.size)
        if self._items is None or self._filled < enough:
            return
        if self._is_due():
            most = max(1, self._filled // _ITEMS_PER_COMPONENT)
            first, second = self._in_order().chunk(2, dim=1)
            sizes = tuple(min(size, most) for size in sizes)
            self._fit(first, second, sizes)
            if everywhere:
                fit = self._fitted()
                distributed.copy_from_first(list(fit.values()))
                self._take(fit, sizes)

    def _in_order(self) -> Tensor:
        """The items remembered, the oldest first."""
        assert self._items is not None
        if self._filled < self.size:
            return self._items[: self._filled]
        return self._items.roll(-self._next, dims=0)

    def _is_due(self) -> bool:
        """Whether a fit is wanted, or the last one is of items long gone."""
        if self.classes is None:
            return True
        if self.refit_every is None:
            return self._since >= _RENEWALS * self._seen
        return self._calls % self.refit_every == 0

    def _keep(self, rows: Float[Tensor, "items two_dim"]) -> None:
        """Write rows in place of the oldest ones; of too many the last."""
        if self._items is None:
            kept = rows.new_zeros(self.size, rows.shape[1], dtype=torch.float32)
            self._items = kept
        end = self._next + len(rows)
        rows = rows[-self.size :]
        places = torch.arange(end - len(rows), end, device=rows.device) % self.size
        self._items[places] = rows.to(self._items)
        self._next = end % self.size
        self._filled = min(self.size, self._filled + len(rows))

    def _fit(self, view_1: Tensor, view_2: Tensor, sizes: tuple[int, ...]) -> None:
        generator = torch.Generator().manual_seed(self._calls)
        before = self.classes
        self._seen, self._since = len(view_1), 0
        self.classes = fit_latent_classes(view_1, view_2, sizes, generator=generator)
        if before is None or before.sizes != self.classes.sizes:
            self._agreement = None  # of other mixtures

    def _fitted(self) -> dict[str, Tensor]:
        """The tensors of the last fit, by the names that states give them."""
        if self.classes is None:
            return {}
        mixtures = self.classes.mixtures
        transitions = torch.cat([matrix.flatten() for matrix in self.classes.transitions])
        found = (mixtures.directions, mixtures.weights, mixtures.kappa, transitions)
        metric = (self.classes.center, self.classes.transform)
        signs = (self.classes.alignment, self.classes.closeness, self.classes.share)
        return dict(zip(_FIT, (*metric, *found, *signs), strict=True))

    def _take(self, fit: dict[str, Tensor], sizes: tuple[int, ...]) -> None:
        """Believe a fit that came as tensors."""
        center, transform, directions, weights, kappa, transitions, *signs = (
            fit[name] for name in _FIT
        )
        parts = torch.split(transitions, [size * size for size in sizes])
        self.classes = LatentClasses(
            center,
            transform,
            Mixtures(directions, weights, kappa, sizes),
            tuple(part.view(size, size) for part, size in zip(parts, sizes, strict=True)),
            *signs,
        )

    def _follow(self, rows: Tensor) -> None:
        """Be where the embeddings are, and refuse those that do not fit what is remembered."""
        if self._items is None:
            return
        dim = self._items.shape[1] // 2
        if rows.shape[-1] != dim:
            raise ValueError(
                f"embeddings must have {dim} coordinates, as those that the loss remembers, "
                f"got {rows.shape[-1]}: use a new loss for another encoder"
            )
        if self._items.device != rows.device:  # what a checkpoint brought may lie elsewhere
            state = self.get_extra_state()
            for name in _TENSORS:
                state[name] = None if state[name] is None else state[name].to(rows.device)
            self.set_extra_state(state)

    def get_extra_state(self) -> dict[str, Any]:
        """Return all that is remembered, fitted and observed: numbers and tensors."""
        state: dict[str, Any] = dict.fromkeys(_TENSORS)
        state |= {name: getattr(self, f"_{name}") for name in _NUMBERS}
        state |= {"items": self._items, "agreement": self._agreement, **self._fitted()}
        state["sizes"] = [] if self.classes is None else list(self.classes.sizes)
        return state

    def set_extra_state(self, state: Any) -> None:
        """Take all of it out of a ``state_dict``.

        Raises:
            ValueError: if it is damaged, or of a memory of another size.
        """
        try:
            numbers = {name: check_count(name, state[name], 0) for name in _NUMBERS}
            sizes = tuple(check_count("sizes", size, 1) for size in state["sizes"])
            found = {name: state[name] for name in _TENSORS if state[name] is not None}
            found = {name: tensor.detach().clone() for name, tensor in found.items()}
            items = found.get("items")
            if items is not None and len(items) != self.size:
                raise ValueError(
                    f"memory_size must be {len(items)}, as in the state to load, got {self.size}"
                )
            if sizes:
                self._take(found, sizes)
            else:
                self.classes = None
        except (KeyError, TypeError, AttributeError, RuntimeError):
            names = ", ".join((*_NUMBERS, "sizes", *_TENSORS))
            raise ValueError(
                f"the state of ClassMemory must hold {names}, and is damaged"
            ) from None
        self._items, self._agreement = items, found.get("agreement")
        for name, number in numbers.items():
            setattr(self, f"_{name}", number)

    def extra_repr(self) -> str:
        """Show the sizes."""
        every = "" if self.refit_every is None else f", refit_every={self.refit_every}"
        return f"size={self.size}{every}"
