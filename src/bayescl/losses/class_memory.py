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
    outlook_factors,
    outlooks,
    same_class_factors,
    signatures,
    trust_of_agreement,
    trust_of_closeness,
    trust_of_share,
    view_agreement,
)

COMPONENTS_PER_CLASS = (2.0, 4.0)
"""Components of each mixture per expected class. Transitions of views rejoin the parts of a split
class, but nothing separates two classes merged in one component."""

_MOST_COMPONENTS = 384
"""In a mixture. It bounds the cost of a step and of a fit, whatever the number of classes."""

_ITEMS_PER_COMPONENT = 2
"""A mixture is fitted once the memory holds this many items per component."""

_LARGEST_MEMORY = 8192
"""More items are worth little, since the encoder changes while they come."""

_FIT_PRODUCTS = 2**27
"""Items x components x coordinates that a fit may take; beyond it, a random part of the items."""

_RENEWALS = 2
"""A fit is renewed after this many times as many new items as it saw."""

_INERTIA = 0.9
"""Decay per call of moving averages, of the views' agreement and of right and wrong pairs."""

_OBSERVED_EVERY = 4
"""Calls between two looks at how far views agree."""

SCALES = (5, 10, 20, 40, 80, 160)
"""Numbers of classes that are tried where none is given."""

_HELD_OUT = 0.25
"""Share of the latest items that no fit sees where numbers of classes are compared."""

_LABELLED = 1024
"""Labelled items that are remembered, beside the memory, where few items have a label."""

_LABELLED_PER_CLASS = 20
"""Of each label, as many of the latest say which class a component is of."""

_WORTH_OF_TRUST = 10.0
"""Pairs with known labels that weigh as much as what views and mixtures say."""

_Z = 1.64
"""Of the interval around a measured precision: 90 %."""

_NUMBERS = ("calls", "next", "filled", "seen", "since", "scale")
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
    "known",
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


def memory_for(tau_plus: float) -> int:
    """Return how many items a memory must hold to fit components at a class prior.

    A power of two with at least sixteen items of each class.

    Example:
        >>> memory_for(0.1), memory_for(1 / 77), memory_for(1e-6)
        (1024, 2048, 8192)
    """
    size = 1024
    while size < _LARGEST_MEMORY and size * tau_plus < 16:
        size *= 2
    return size


def mixture_sizes(tau_plus: float, items: int) -> tuple[int, ...]:
    """Components of each mixture for classes of a prior, with as many items to fit to.

    Example:
        >>> mixture_sizes(0.1, 1024), mixture_sizes(0.001, 8192)
        ((20, 40), (384, 384))
    """
    most = max(1, min(_MOST_COMPONENTS, items // _ITEMS_PER_COMPONENT))
    wanted = (min(each / tau_plus, _MOST_COMPONENTS) for each in COMPONENTS_PER_CLASS)  # may be inf
    return tuple(max(1, min(most, max(2, round(each)))) for each in wanted)


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
        self._scale = 0  # which of SCALES it had, where none is given
        self._scores = [0.0] * len(SCALES)  # how far views and mixtures agree at each
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
    def prior(self) -> float:
        """Probability that two items are of one class, as the last fit took it; 1 before it."""
        return self._prior

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
        return outlooks(shares, self.classes)

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
        return outlook_factors(outlook.nan_to_num(0.0), trust, self.classes)

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
        both = torch.cat([first, second])[:, : sum(self.classes.sizes)]  # without what labels say
        both = signatures(both, self.classes.moves, hops=0)
        one, other = both.chunk(2)
        agreement = view_agreement(one, other, self.classes.sizes) * self.classes.alignment
        before = self._agreement
        # After the first fit there is nothing to average with.
        self._agreement = (
            agreement
            if before is None
            else torch.lerp(agreement, before, _INERTIA**_OBSERVED_EVERY)
        )

    @torch.no_grad()
    def measure(
        self,
        views: tuple[Float[Tensor, "items dim"], Float[Tensor, "items dim"]],
        labels: Int[Tensor, " items"],
        threshold: float,
    ) -> None:
        """Count attracting pairs of labelled items that are right and that are wrong.

        Components know their labels, so a pair of one label would attract because of its own. So
        pairs are judged by the classes as they are without labels.

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

        moves = self.classes.moves
        factors = same_class_factors(further_views(mean, moves), whole, moves, hops=0)
        attracted = (factors @ factors.T > threshold).triu(1)
        same = labels[known, None] == labels[known]
        right = float((attracted & same).sum())
        wrong = float((attracted & ~same).sum())
        # A few items make many pairs, which say no more than as many as share no item.
        scale = min(1.0, len(known) / 2 / max(1.0, right + wrong))
        self._right = _INERTIA * self._right + scale * right
        self._wrong = _INERTIA * self._wrong + scale * wrong

    @torch.no_grad()
    def remember(
        self,
        view_1: Float[Tensor, "items dim"],
        view_2: Float[Tensor, "items dim"],
        *,
        tau_plus: float | None,
        labels: Int[Tensor, " items"] | None = None,
        everywhere: bool = False,
    ) -> None:
        """Store items in place of the oldest ones, and refit every few calls.

        Args:
            view_1: embeddings of one view of each item.
            view_2: embeddings of the other.
            tau_plus: probability that two items are of one class, in (0, 1); None to estimate it.
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
        if self._filled < self.enough(tau_plus) or not self._is_due():
            return
        if tau_plus is None:
            self._fit_best(everywhere=everywhere)
        elif not self.is_hopeless(tau_plus):
            self._adopt(self._fitted_to(self._in_order(), tau_plus), tau_plus, self._filled)
        if everywhere and self.classes is not None:
            fit = self._fitted()
            distributed.copy_from_first(list(fit.values()))
            self._take(fit, self.classes.sizes)

    def enough(self, tau_plus: float | None) -> int:
        """Number of items needed for a fit: with fewer, each would get a component of its own."""
        prior = 1 / SCALES[1] if tau_plus is None else tau_plus
        return min(_ITEMS_PER_COMPONENT * max(mixture_sizes(prior, self.size)), self.size)

    def is_hopeless(self, tau_plus: float) -> bool:
        """Whether so few components would merge so many classes that none could be believed."""
        most = max(mixture_sizes(tau_plus, self.size))
        return float(trust_of_share(torch.tensor(1 / most), tau_plus)) == 0

    def explain(self, tau_plus: float | None) -> str:
        """Say what was found, how far it is trusted, and why not more.

        Args:
            tau_plus: the prior that the next fit would use; None if it is estimated.
        """
        if self._calls == 0:
            return "No call in train() mode yet: nothing is remembered, and the loss is InfoNCE."
        trust = self.trust_by_mixture
        if self.classes is None or trust is None or self._agreement is None:
            if tau_plus is not None and self.is_hopeless(tau_plus):
                return (
                    f"{1 / tau_plus:.10g} classes are more than {_MOST_COMPONENTS} components or "
                    f"{self.size} remembered items can tell apart, so no classes are looked for "
                    "and the loss is InfoNCE. With so many classes, few candidates of a batch are "
                    "false negatives."
                )
            return (
                f"No classes yet: {self._filled} items are remembered, and "
                f"{self.enough(tau_plus)} are needed for the first fit. Until then the loss is "
                "InfoNCE."
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

    def _fitted_to(self, items: Float[Tensor, "items two_dim"], tau_plus: float) -> LatentClasses:
        """Latent classes of items, of a random part of them where there are very many."""
        generator = torch.Generator().manual_seed(self._calls)
        sizes = mixture_sizes(tau_plus, len(items))
        most = max(2 * max(sizes), 2 * _FIT_PRODUCTS // (sum(sizes) * items.shape[1]))
        if len(items) > most:
            some = torch.randperm(len(items), generator=generator)[:most].sort().values
            items = items[some.to(items.device)]
        view_1, view_2 = items.chunk(2, dim=1)
        labelled = self._latest_of_each_label()
        return fit_latent_classes(view_1, view_2, sizes, generator=generator, labelled=labelled)

    def _adopt(self, classes: LatentClasses, tau_plus: float, items: int) -> None:
        """Take a fit in place of the last."""
        if self.classes is None or self.classes.sizes != classes.sizes:
            self._agreement = None  # of other mixtures
        self.classes, self._prior = classes, tau_plus
        self._seen, self._since = items, 0

    def _fit_best(self, *, everywhere: bool) -> None:
        """Fit at the last number of classes and one next to it, and keep what agrees better.

        A number of classes is right where views of items that no fit has seen lie in one class,
        and coarse and fine mixtures tell the same items apart. The first time all are tried.
        """
        finer = SCALES[min(self._scale + 1, len(SCALES) - 1)]
        items = self._in_order()[-memory_for(1 / finer) :]
        seen = items[: len(items) - int(_HELD_OUT * len(items))]
        views = items[len(seen) :].chunk(2, dim=1)
        largest = max(1, sum(4 * _ITEMS_PER_COMPONENT * scale <= len(seen) for scale in SCALES))
        step = 1 if self._calls % 2 else -1
        tried = {self._scale, self._scale + step} if self.classes is not None else range(largest)
        fits = {}
        for scale in sorted(tried):
            if not 0 <= scale < largest:
                continue
            fits[scale] = classes = self._fitted_to(seen, 1 / SCALES[scale])
            one, other = (
                further_views(class_responsibilities(view, classes).nan_to_num(0.0), classes.moves)
                for view in views
            )
            one, other = signatures(torch.cat([one, other]), classes.moves, hops=0).chunk(2)
            agreement = view_agreement(one, other, classes.sizes) * classes.alignment
            before, now = self._scores[scale], float(agreement.mean())
            self._scores[scale] = now if before == 0 else (now + before) / 2
        best = max(fits, key=lambda scale: self._scores[scale])
        if everywhere:  # scores may differ between hardware
            chosen = torch.tensor([best], device=items.device)
            distributed.copy_from_first([chosen])
            best = int(chosen)
        self._scale = best
        # Views join the components of a class, so the classes found are what there is to go by.
        share = float(fits[best].share)
        prior = share if 0 < share < 1 else 1 / SCALES[best]
        self._adopt(fits[best], prior, len(items))

    def _fitted(self) -> dict[str, Tensor]:
        """The tensors of the last fit, by their names in a state."""
        if self.classes is None:
            return {}
        mixtures = self.classes.mixtures
        transitions = torch.cat([matrix.flatten() for matrix in self.classes.transitions])
        known = self.classes.known
        known = mixtures.weights.new_zeros(len(mixtures.weights), 0) if known is None else known
        found = (mixtures.directions, mixtures.weights, mixtures.kappa, transitions)
        metric = (self.classes.center, self.classes.transform)
        signs = (self.classes.alignment, self.classes.closeness, self.classes.share)
        return dict(zip(_FIT, (*metric, *found, *signs, known), strict=True))

    def _take(self, fit: Mapping[str, Tensor], sizes: tuple[int, ...]) -> None:
        """Adopt a fit given as tensors."""
        parts = torch.split(fit["transitions"], [size * size for size in sizes])
        self.classes = LatentClasses(
            fit["center"],
            fit["transform"],
            Mixtures(fit["directions"], fit["weights"], fit["kappa"], sizes),
            tuple(part.view(size, size) for part, size in zip(parts, sizes, strict=True)),
            fit["alignment"],
            fit["closeness"],
            fit["share"],
            fit["known"] if fit["known"].shape[1] else None,
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
        state["scores"] = list(self._scores)
        return state

    def set_extra_state(self, state: Any) -> None:
        """Restore the memory from a ``state_dict``.

        Raises:
            ValueError: if the state is damaged, or is of a memory of another size.
        """
        names = (*_NUMBERS, *_FRACTIONS, "sizes", "scores", *_TENSORS)
        if not isinstance(state, Mapping) or any(name not in state for name in names):
            raise ValueError(
                f"the state of ClassMemory is damaged: it must hold {', '.join(names)}"
            )
        numbers = {name: check_count(name, state[name], 0) for name in _NUMBERS}
        fractions = {name: check_interval(name, state[name], 0.0, 1e9) for name in _FRACTIONS}
        scores = state["scores"] if isinstance(state["scores"], list | tuple) else []
        if len(scores) != len(SCALES) or numbers["scale"] >= len(SCALES):
            raise ValueError(f"scores and scale must be of {len(SCALES)} numbers of classes")
        scores = [check_interval("scores", score, -1.0, 1.0) for score in scores]
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
        for name, number in {**numbers, **fractions, "scores": scores}.items():
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
