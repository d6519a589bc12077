"""Recent items, the latent classes fitted to them, and how far to trust these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from bayescl import distributed
from bayescl.axes import Float, Int, Tensor
from bayescl.checks import check_count, check_interval
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

_MOST_COMPONENTS = 512
"""In a mixture. It bounds the cost of a step and of a fit, whatever the number of classes."""

_ITEMS_PER_COMPONENT = 2
"""A mixture is fitted once the memory holds this many items per component."""

_FIT_PRODUCTS = 2**28
"""Items x components x coordinates that a fit may take; beyond it, a random part of the items."""

_RENEWALS = 2
"""A fit is renewed after this many times as many new items as it saw."""

_INERTIA = 0.9
"""Decay of moving averages, of the views' agreement and of counts of right and wrong pairs."""

_OBSERVED_EVERY = 4
"""Calls between two looks at how far views agree."""

_LABELLED = 1024
"""Labelled items that are remembered, beside the memory, where few items have a label."""

_LABELLED_PER_CLASS = 20
"""Of each label, as many of the latest join components."""

_WORTH_OF_TRUST = 10.0
"""Pairs with known labels that weigh as much as what views and mixtures say."""

_Z = 1.64
"""Of the interval around a measured precision: 90 %."""

_NUMBERS = ("calls", "next", "filled", "seen", "since")
_FRACTIONS = ("prior", "right", "wrong")
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
    "unjoined",
)
_TENSORS = ("items", "labelled", "labels", "agreement", *_FIT)
"""Contents of a state. Each tensor may be missing at first. Transitions lie end to end."""


class Precision(NamedTuple):
    """Share of attracting pairs that are of one class, measured on labelled items.

    Attributes:
        value: the estimate; NaN where nothing was measured.
        low: lower end of its 90 % interval.
        high: upper end.
        pairs: number of pairs behind it, after decay.
    """

    value: float
    low: float
    high: float
    pairs: float

    @classmethod
    def of(cls, right: float, wrong: float) -> Precision:
        """Wilson's interval for a share, from counts of right and wrong pairs."""
        count = right + wrong
        if count == 0:
            return cls(math.nan, 0.0, 1.0, 0.0)
        share, square = right / count, _Z**2 / count
        middle = (share + square / 2) / (1 + square)
        half = _Z * math.sqrt(share * (1 - share) / count + square / (4 * count)) / (1 + square)
        return cls(share, max(0.0, middle - half), min(1.0, middle + half), count)


def mixture_sizes(tau_plus: float, items: int) -> tuple[int, ...]:
    """Components of each mixture for classes of a prior, with as many items to fit to.

    Example:
        >>> mixture_sizes(0.1, 1024), mixture_sizes(0.001, 8192)
        ((20, 30, 40, 60), (512, 512, 512, 512))
    """
    most = max(1, min(_MOST_COMPONENTS, items // _ITEMS_PER_COMPONENT))
    return tuple(max(1, min(most, max(2, round(each / tau_plus)))) for each in COMPONENTS_PER_CLASS)


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
        self._labelled: Tensor | None = None  # items with a label, and these, the latest last
        self._labels: Tensor | None = None
        self._agreement: Tensor | None = None
        self._calls = 0
        self._filled = 0
        self._next = 0
        self._seen = 0  # items that the last fit was made to
        self._since = 0  # items that have come since
        self._prior = 1.0  # of the last fit
        self._right = 0.0  # pairs of known labels that attract, rightly and wrongly
        self._wrong = 0.0

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
    def precision(self) -> Precision:
        """Share of attracting pairs that are of one class, measured on labelled items."""
        return Precision.of(self._right, self._wrong)

    @property
    def evidence(self) -> float:
        """Weight of the measured precision in the trust, in [0, 1); 0 without labels."""
        pairs = self._right + self._wrong
        return pairs / (pairs + _WORTH_OF_TRUST)

    @property
    def trust_by_mixture(self) -> Float[Tensor, " mixtures"] | None:
        """How far each mixture is trusted, in [0, 1]; None before the first fit."""
        if self._agreement is None or self.classes is None:
            return None
        sized = trust_of_share(self.classes.share, self._prior)
        worth = trust_of_closeness(self.classes.closeness)
        trust = trust_of_agreement(self._agreement) * sized * worth
        if self.evidence == 0:
            return trust
        # What labels say replaces what views and mixtures say, as it gains weight.
        measured = min(1.0, max(0.0, (self.precision.low - 0.3) / 0.3))
        return torch.lerp(trust, torch.full_like(trust, measured), self.evidence)

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

    @property
    def is_due_to_observe(self) -> bool:
        """Whether this call should look at how far views agree."""
        if self.classes is None:
            return False
        return self._agreement is None or self._calls % _OBSERVED_EVERY == 0

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
    def measure(
        self,
        views: tuple[Float[Tensor, "items dim"], Float[Tensor, "items dim"]],
        labels: Int[Tensor, " items"],
        threshold: float,
    ) -> None:
        """Count attracting pairs of labelled items that are right and that are wrong.

        Labels join components, so a pair of one label would attract because of its own labels. Such
        pairs are judged by the classes without labels, others by the classes with them: what is
        counted as right owes nothing to the labels.

        Args:
            views: embeddings of both views of items.
            labels: their labels, -1 where unknown.
            threshold: posterior above which a pair attracts.
        """
        known = (labels >= 0).nonzero().squeeze(1)
        if self.classes is None or len(known) < 2:
            return
        shares = [
            class_responsibilities(view[known].to(self.classes.center), self.classes)
            for view in views
        ]
        mean = ((shares[0] + shares[1]) / 2).nan_to_num(0.0)
        whole = mean.new_ones(len(self.classes.sizes))

        def attracts(moves: tuple[Tensor, ...]) -> Tensor:
            factors = same_class_factors(further_views(mean, moves), whole, moves, hops=0)
            return (factors @ factors.T > threshold).triu(1)

        same = labels[known, None] == labels[known]
        right = float((attracts(self.classes.unjoined_moves) & same).sum())
        wrong = float((attracts(self.classes.moves) & ~same).sum())
        # A few items make many pairs, which do not say more than the items do.
        scale = min(1.0, len(known) / max(1.0, right + wrong))
        self._right = _INERTIA * self._right + scale * right
        self._wrong = _INERTIA * self._wrong + scale * wrong

    @torch.no_grad()
    def remember(
        self,
        view_1: Float[Tensor, "items dim"],
        view_2: Float[Tensor, "items dim"],
        *,
        tau_plus: float,
        labels: Int[Tensor, " items"] | None = None,
        everywhere: bool = False,
    ) -> None:
        """Store items in place of the oldest ones, and refit every few calls.

        Args:
            view_1: embeddings of one view of each item.
            view_2: embeddings of the other.
            tau_plus: probability that two items are of one class, in (0, 1).
            labels: their classes, -1 where unknown. Default: none is known.
            everywhere: whether all processes remember the same items. All then use the fit of the
                first, since fits may differ between hardware.
        """
        rows = torch.cat([view_1, view_2], dim=1)
        self._keep(rows)
        if labels is not None:
            self._keep_labelled(rows[labels >= 0], labels[labels >= 0])
        self._calls += 1
        self._since += len(view_1)
        # With fewer items a mixture would fit each of them by a component of its own.
        enough = min(_ITEMS_PER_COMPONENT * max(mixture_sizes(tau_plus, self.size)), self.size)
        if self._items is None or self._filled < enough or not self._is_due():
            return
        sizes = mixture_sizes(tau_plus, self._filled)
        # So few components merge so many classes that no share of them could be believed.
        if float(trust_of_share(torch.tensor(1 / max(sizes)), tau_plus)) == 0:
            return
        self._prior = tau_plus
        self._fit(sizes)
        if everywhere:
            fit = self._fitted()
            distributed.copy_from_first(list(fit.values()))
            self._take(fit, sizes)

    def explain(self, tau_plus: float) -> str:
        """Say what was found, how far it is trusted, and why not more.

        Args:
            tau_plus: the prior that the next fit would use.
        """
        if self._calls == 0:
            return "No call in train() mode yet: nothing is remembered, and the loss is InfoNCE."
        trust = self.trust_by_mixture
        if self.classes is None or trust is None or self._agreement is None:
            sizes = mixture_sizes(tau_plus, self.size)
            if float(trust_of_share(torch.tensor(1 / max(sizes)), tau_plus)) == 0:
                return (
                    f"{1 / tau_plus:.0f} classes are more than {max(sizes)} components can tell "
                    "apart, so no classes are looked for and the loss is InfoNCE. With so many "
                    "classes, few candidates of a batch are false negatives."
                )
            enough = min(_ITEMS_PER_COMPONENT * max(sizes), self.size)
            return (
                f"No classes yet: {self._filled} items are remembered, and {enough} are needed "
                "for the first fit. Until then the loss is InfoNCE."
            )
        share, closeness = float(self.classes.share), float(self.classes.closeness)
        alignment = float(self.classes.alignment.mean())
        agreement = float(self._agreement.mean())
        views = agreement / alignment if alignment > 0 else 0.0
        mean = float(trust.mean())
        found = (
            f"Found about {1 / share if 0 < share < math.inf else math.nan:.0f} classes in "
            f"{self._seen} items; trust is {mean:.2f}"
        )
        if self.evidence > 0.5:
            value, low, high, pairs = self.precision
            return (
                f"{found}. On labelled items, {value:.0%} of {pairs:.0f} attracting pairs are of "
                f"one class ({low:.0%} to {high:.0%})."
            )
        if mean > 0.95:
            return f"{found}: views and mixtures agree on them."
        reasons = {
            "two views of an item often lie in different classes (agreement "
            f"{views:.2f}); stronger trust needs an encoder that is further trained, or views that "
            "keep the class": views / 0.7,
            "coarse and fine mixtures disagree about who belongs together (agreement "
            f"{alignment:.2f}), as where the data have no gaps": alignment / 0.7,
            f"they are {share / self._prior:.1f} times as large as expected: several classes seem "
            "merged, or there are fewer than num_classes says": (2.25 - share / self._prior) / 0.5,
            "a positive is hardly closer than other members of its class "
            f"({closeness:.0%} of comparisons; half would be chance), so the pairs bring the class "
            "together by themselves": (closeness - 0.6) / 0.1,
        }
        return f"{found}, not more, because {min(reasons, key=lambda each: reasons[each])}."

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
            self._items = rows.new_zeros(self.size, rows.shape[1], dtype=torch.float32)
        end = self._next + len(rows)
        rows = rows[-self.size :]
        places = torch.arange(end - len(rows), end, device=rows.device) % self.size
        self._items[places] = rows.to(self._items)
        self._next = end % self.size
        self._filled = min(self.size, self._filled + len(rows))

    def _keep_labelled(
        self, rows: Float[Tensor, "labelled two_dim"], labels: Int[Tensor, " labelled"]
    ) -> None:
        """Append labelled items, and drop the oldest of too many."""
        rows, labels = rows.float(), labels.long()
        if self._labelled is not None and self._labels is not None:
            rows = torch.cat([self._labelled, rows])
            labels = torch.cat([self._labels, labels])
        self._labelled, self._labels = rows[-_LABELLED:].clone(), labels[-_LABELLED:].clone()

    def _latest_of_each_label(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """Both views and the labels of a few of the latest items of each label."""
        if self._labelled is None or self._labels is None or len(self._labels) < 2:
            return None
        labels = self._labels.flip(0)  # the latest first
        order = labels.argsort(stable=True)
        ranked = labels[order]
        place = torch.arange(len(ranked), device=ranked.device)
        place = place - torch.searchsorted(ranked, ranked)
        kept = len(labels) - 1 - order[place < _LABELLED_PER_CLASS]
        view_1, view_2 = self._labelled[kept].chunk(2, dim=1)
        return view_1, view_2, self._labels[kept]

    def _fit(self, sizes: tuple[int, ...]) -> None:
        generator = torch.Generator().manual_seed(self._calls)
        before, items = self.classes, self._in_order()
        self._seen, self._since = len(items), 0
        most = max(2 * max(sizes), 2 * _FIT_PRODUCTS // (sum(sizes) * items.shape[1]))
        if len(items) > most:
            some = torch.randperm(len(items), generator=generator)[:most].sort().values
            items = items[some.to(items.device)]
        view_1, view_2 = items.chunk(2, dim=1)
        self.classes = fit_latent_classes(
            view_1,
            view_2,
            sizes,
            generator=generator,
            labelled=self._latest_of_each_label(),
        )
        if before is None or before.sizes != self.classes.sizes:
            self._agreement = None  # of other mixtures

    def _fitted(self) -> dict[str, Tensor]:
        """The tensors of the last fit, by their names in a state."""
        if self.classes is None:
            return {}
        mixtures = self.classes.mixtures
        transitions, unjoined = (
            torch.cat([matrix.flatten() for matrix in matrices])
            for matrices in (
                self.classes.transitions,
                self.classes.unjoined or self.classes.transitions,
            )
        )
        found = (mixtures.directions, mixtures.weights, mixtures.kappa, transitions)
        metric = (self.classes.center, self.classes.transform)
        signs = (self.classes.alignment, self.classes.closeness, self.classes.share)
        return dict(zip(_FIT, (*metric, *found, *signs, unjoined), strict=True))

    def _take(self, fit: Mapping[str, Tensor], sizes: tuple[int, ...]) -> None:
        """Adopt a fit given as tensors."""

        def matrices(name: str) -> tuple[Tensor, ...]:
            parts = torch.split(fit[name], [size * size for size in sizes])
            return tuple(part.view(size, size) for part, size in zip(parts, sizes, strict=True))

        self.classes = LatentClasses(
            fit["center"],
            fit["transform"],
            Mixtures(fit["directions"], fit["weights"], fit["kappa"], sizes),
            matrices("transitions"),
            fit["alignment"],
            fit["closeness"],
            fit["share"],
            matrices("unjoined"),
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
        """Return all that is remembered, fitted and observed: numbers, and copies of tensors."""
        state: dict[str, Any] = {
            name: getattr(self, f"_{name}") for name in (*_NUMBERS, *_FRACTIONS)
        }
        tensors = {name: getattr(self, f"_{name}") for name in ("items", "labelled", "labels")}
        tensors |= {"agreement": self._agreement, **self._fitted()}
        held = {name: tensors.get(name) for name in _TENSORS}
        state |= {name: None if one is None else one.clone() for name, one in held.items()}
        state["sizes"] = [] if self.classes is None else list(self.classes.sizes)
        return state

    def set_extra_state(self, state: Any) -> None:
        """Restore the memory from a ``state_dict``.

        Raises:
            ValueError: if the state is damaged, or is of a memory of another size.
        """
        names = (*_NUMBERS, *_FRACTIONS, "sizes", *_TENSORS)
        if not isinstance(state, Mapping) or any(name not in state for name in names):
            raise ValueError(
                f"the state of ClassMemory is damaged: it must hold {', '.join(names)}"
            )
        numbers = {name: check_count(name, state[name], 0) for name in _NUMBERS}
        fractions = {name: check_interval(name, state[name], 0.0, 1e9) for name in _FRACTIONS}
        listed = state["sizes"] if isinstance(state["sizes"], list | tuple) else [state["sizes"]]
        sizes = tuple(check_count("sizes", size, 1) for size in listed)
        tensors = _checked_tensors(state, sizes, self.size)
        filled, following = numbers["filled"], numbers["next"]
        if filled > self.size or following >= self.size or (filled and "items" not in tensors):
            raise ValueError(
                f"filled and next must suit a memory of {self.size} items, got {filled} and "
                f"{following}"
            )
        if not 0 < fractions["prior"] <= 1:
            raise ValueError(f"prior must lie in (0, 1], got {fractions['prior']!r}")
        if sizes:
            self._take(tensors, sizes)
        else:
            self.classes = None
        for name in ("items", "labelled", "labels", "agreement"):
            setattr(self, f"_{name}", tensors.get(name))
        for name, number in {**numbers, **fractions}.items():
            setattr(self, f"_{name}", number)

    def extra_repr(self) -> str:
        """Show the sizes."""
        every = "" if self.refit_every is None else f", refit_every={self.refit_every}"
        return f"size={self.size}{every}"


def _checked_tensors(
    state: Mapping[str, Any], sizes: tuple[int, ...], memory: int
) -> dict[str, Tensor]:
    """Copies of a state's tensors, refused unless their shapes and types fit one another."""
    tensors: dict[str, Tensor] = {}
    for name in _TENSORS:
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
        "unjoined": (squares,),
    }
    needed = {*(_FIT if sizes else ()), *(("labels",) if "labelled" in tensors else ())}
    if missing := sorted(needed - tensors.keys()):
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
