"""Recent items, the latent classes fitted to them, and how far to trust these."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bayescl import distributed
from bayescl.axes import Float, Tensor
from bayescl.checks import check_count
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
"""Components of each mixture per expected class. Transitions of views rejoin the parts of a split
class, but nothing separates two classes merged in one component."""

_ITEMS_PER_COMPONENT = 2
"""A mixture is fitted once the memory holds this many items per component."""

_RENEWALS = 2
"""A fit is renewed after this many times as many new items as it saw."""

_INERTIA = 0.9
"""Decay of the moving average of the views' agreement."""

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
"""Contents of a state. Each tensor may be missing at first. Transitions lie end to end."""


class ClassMemory(nn.Module):
    """Two views of each of the most recent items, and latent classes fitted to them.

    It is empty at first, takes the number of coordinates from the first items, and trusts nothing
    before the first fit. The memory, the last fit and the agreement of views are part of
    ``state_dict``, and fits are seeded by the number of calls, so a resumed run continues exactly.
    They are extra state rather than buffers, in float32 on the device of the last embeddings:
    converting a model to half precision leaves them alone, and ``DistributedDataParallel`` does not
    broadcast them, since processes that do not gather hold different ones.

    Args:
        size: number of items remembered.
        refit_every: calls of :meth:`remember` between two fits. Default: as many as bring twice the
            items that the last fit saw, so that the relative cost of fitting does not depend on the
            batch size.
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
        """Number of times that items were remembered."""
        return self._calls

    @property
    def items(self) -> Float[Tensor, "filled two_dim"] | None:
        """Both views of each remembered item, side by side; None if there are none yet."""
        return None if self._items is None else self._items[: self._filled]

    @property
    def agreement(self) -> Float[Tensor, " mixtures"] | None:
        """Moving average of how far views and mixtures agree; None before the first fit."""
        return self._agreement

    @property
    def trust_by_mixture(self) -> Float[Tensor, " mixtures"] | None:
        """How far each mixture is trusted, in [0, 1]; None before the first fit."""
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
        """Factors whose product is the posterior that two rows are of one class.

        Args:
            outlook: :meth:`outlook` of rows, or its mean over the views of items.

        Returns:
            None if nothing is trusted. Rows that are not finite get 0: nothing is known of them.
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
        """Update how far views and mixtures agree in the last fit.

        Args:
            first: outlook of the first views of items.
            second: outlook of their second views.
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
        """Store items in place of the oldest ones, and refit every few calls.

        Args:
            view_1: embeddings of one view of each item.
            view_2: embeddings of the other.
            tau_plus: probability that two items are of one class, in (0, 1).
            everywhere: whether all processes remember the same items. All then use the fit of the
                first, since fits may differ between hardware.
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
        """Whether a fit is due, because there is none or its items are long gone."""
        if self.classes is None:
            return True
        if self.refit_every is None:
            return self._since >= _RENEWALS * self._seen
        return self._calls % self.refit_every == 0

    def _keep(self, rows: Float[Tensor, "items two_dim"]) -> None:
        """Write rows in place of the oldest ones; if there are too many, the last of them."""
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
        """The tensors of the last fit, by their names in a state."""
        if self.classes is None:
            return {}
        mixtures = self.classes.mixtures
        transitions = torch.cat([matrix.flatten() for matrix in self.classes.transitions])
        found = (mixtures.directions, mixtures.weights, mixtures.kappa, transitions)
        metric = (self.classes.center, self.classes.transform)
        signs = (self.classes.alignment, self.classes.closeness, self.classes.share)
        return dict(zip(_FIT, (*metric, *found, *signs), strict=True))

    def _take(self, fit: dict[str, Tensor], sizes: tuple[int, ...]) -> None:
        """Adopt a fit given as tensors."""
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
        """Move to the embeddings' device, and refuse embeddings of another size."""
        if self._items is None:
            return
        dim = self._items.shape[1] // 2
        if rows.shape[-1] != dim:
            raise ValueError(
                f"embeddings must have {dim} coordinates, like those that the loss remembers, got "
                f"{rows.shape[-1]}: use a new loss for another encoder"
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
        """Restore the memory from a ``state_dict``.

        Raises:
            ValueError: if the state is damaged, or is of a memory of another size.
        """
        try:
            numbers = {name: check_count(name, state[name], 0) for name in _NUMBERS}
            sizes = tuple(check_count("sizes", size, 1) for size in state["sizes"])
            found = {name: state[name] for name in _TENSORS if state[name] is not None}
            found = {name: tensor.detach().clone() for name, tensor in found.items()}
            items = found.get("items")
            if items is not None and len(items) != self.size:
                raise ValueError(
                    f"memory_size must be {len(items)} to load this state, got {self.size}"
                )
            if sizes:
                self._take(found, sizes)
            else:
                self.classes = None
        except (KeyError, TypeError, AttributeError, RuntimeError):
            names = ", ".join((*_NUMBERS, "sizes", *_TENSORS))
            raise ValueError(f"the state of ClassMemory is damaged: it must hold {names}") from None
        self._items, self._agreement = items, found.get("agreement")
        for name, number in numbers.items():
            setattr(self, f"_{name}", number)

    def extra_repr(self) -> str:
        """Show the sizes."""
        every = "" if self.refit_every is None else f", refit_every={self.refit_every}"
        return f"size={self.size}{every}"
