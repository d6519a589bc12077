"""Recent items, the latent classes fitted to them, and how far to trust these."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import nn

from bayescl import distributed
from bayescl.axes import Float, Int, Tensor
from bayescl.functional.latent_classes.mixture import unit_rows
from bayescl.functional.latent_classes.posterior import (
    LatentClasses,
    class_agreement,
    class_responsibilities,
    outlook_factors,
    outlooks,
    same_class_factors,
)
from bayescl.functional.latent_classes.trust import (
    trust_of_agreement,
    trust_of_closeness,
    trust_of_share,
)
from bayescl.losses.class_fits import (
    ITEMS_PER_COMPONENT,
    SCALES,
    fits_at_scales,
    fitted_classes,
    is_hopeless,
    memory_for,
    mixture_sizes,
)
from bayescl.losses.class_state import checked_state, classes_of, state_of, tensors_of
from bayescl.losses.queue import write_latest

_RENEWALS = 2  # a fit is renewed after this many times as many new items as it saw
_SMALL_BATCH = 128  # items of a call below which fits are rarer, up to half as often
_INERTIA = 0.9  # decay per call of the views' agreement, and of right and wrong pairs
_OBSERVED_EVERY = 4  # calls between two looks at how far views agree
_LABELLED = 1024  # labelled items that are remembered, beside the memory
_LABELLED_PER_CLASS = 20  # of each label, as many say which class a component is of
_WORTH_OF_TRUST = 10.0  # pairs with known labels that weigh as much as views and mixtures
_Z = 1.64  # of the interval around a measured precision: 90 %


class Precision(NamedTuple):
    """Share of attracting pairs that are of one class, measured on labelled items."""

    value: float  # NaN where nothing was measured
    low: float  # the ends of its 90 % interval
    high: float
    pairs: float  # behind it, after decay

    @classmethod
    def of(cls, right: float, wrong: float) -> Precision:
        """Wilson's interval for the share of right pairs among those measured."""
        count = right + wrong
        if count == 0:
            return cls(math.nan, 0.0, 1.0, 0.0)
        share, square = right / count, _Z**2 / count
        middle = (share + square / 2) / (1 + square)
        half = _Z * math.sqrt(share * (1 - share) / count + square / (4 * count)) / (1 + square)
        return cls(share, max(0.0, middle - half), min(1.0, middle + half), count)


class ClassMemory(nn.Module):
    """Two views of each of the most recent items, and latent classes fitted to them.

    Fits are seeded by the number of calls, so a resumed run continues exactly. What is held is
    extra state rather than buffers, in float32 on the device of the last embeddings: converting a
    model to half precision leaves it alone, and ``DistributedDataParallel`` does not broadcast it,
    since processes that do not gather hold different ones.
    """

    def __init__(self, size: int, refit_every: int | None = None) -> None:
        super().__init__()
        self.size = size
        self.refit_every = refit_every
        self.fits_without_trust = 0  # in a row
        self._trust: Tensor | None = None  # of each mixture; None when it must be computed again
        self._may_trust = False
        # What follows is the state.
        self.calls = 0  # in which items were remembered
        self.came = 0  # items so far
        self.ring: Float[Tensor, "size two_dim"] | None = None  # both views of items, side by side
        self.labelled: Float[Tensor, "labelled two_dim"] | None = None  # the latest last
        self.labels: Int[Tensor, " labelled"] | None = None
        self.classes: LatentClasses | None = None  # the last fit
        self.seen = 0  # items that it was made to
        self.since = 0  # items that have come since
        self.prior = 1.0  # probability that two items are of one class, as the fit assumed
        self.scale = 0  # which of SCALES it had, where no number of classes is given
        self.scores = [0.0] * len(SCALES)  # how far views and mixtures agree at each of SCALES
        self.agreement: Float[Tensor, " mixtures"] | None = None  # of the last fit, moving average
        self.right = 0.0  # pairs of one known label that attract, after decay
        self.wrong = 0.0  # the same of two different labels

    @property
    def items(self) -> Float[Tensor, "filled two_dim"] | None:
        """Both views of each remembered item, side by side, the oldest first; None before any."""
        if self.ring is None or self.came < self.size:
            return None if self.ring is None else self.ring[: self.came]
        return self.ring.roll(-self.came % self.size, dims=0)

    @property
    def dim(self) -> int | None:
        """Coordinates of the embeddings that are remembered; None before any."""
        return None if self.ring is None else self.ring.shape[1] // 2

    # ------------------------------------------------------------------ how far to trust it

    @property
    def precision(self) -> Precision:
        """Share of attracting pairs that are of one class, measured on labelled items."""
        return Precision.of(self.right, self.wrong)

    @property
    def evidence(self) -> float:
        """Weight of the measured precision in the trust, in [0, 1); 0 without labels."""
        return self.precision.pairs / (self.precision.pairs + _WORTH_OF_TRUST)

    @property
    def trust_by_mixture(self) -> Float[Tensor, " mixtures"] | None:
        """How far each mixture is trusted, in [0, 1]; None before the first fit."""
        classes, agreement = self.classes, self.agreement
        if self._trust is None and classes is not None and agreement is not None:
            sized = trust_of_share(classes.share, self.prior)
            trust = trust_of_agreement(agreement) * sized * trust_of_closeness(classes.closeness)
            if self.evidence > 0:
                # What labels say replaces what views and mixtures say, as it gains weight.
                measured = min(1.0, max(0.0, (self.precision.low - 0.3) / 0.3))
                trust = torch.lerp(trust, torch.full_like(trust, measured), self.evidence)
            self._trust = trust
            self._may_trust = not trust.is_cpu or bool(trust.any())
        return self._trust

    @property
    def may_trust(self) -> bool:
        """Whether any mixture may be trusted; always True on a GPU, which it does not wait for."""
        return self.trust_by_mixture is not None and self._may_trust

    @property
    def trust(self) -> float:
        """The mean over mixtures; 0 before the first fit."""
        trust = self.trust_by_mixture
        return 0.0 if trust is None else float(trust.mean())

    # ------------------------------------------------------------------ what it says of rows

    def outlook(
        self, rows: Float[Tensor, "rows dim"], *, unit: bool = False
    ) -> Float[Tensor, "rows components"] | None:
        """Where further views of rows, of length 1 if ``unit``, would lie; None before a fit."""
        self.follow(rows)
        classes = self.classes
        if classes is None:
            return None
        rows = rows.to(classes.center)
        if not unit:
            rows, size = unit_rows(rows)
            rows += (size * 0)[:, None]  # NaN where a row is not finite
        return outlooks(rows, classes)

    def factors(
        self, outlook: Float[Tensor, "rows components"] | None
    ) -> Float[Tensor, "rows components"] | None:
        """Factors of the posterior that two rows are of one class; None if nothing is trusted."""
        trust, classes = self.trust_by_mixture, self.classes
        if outlook is None or classes is None or trust is None or not self.may_trust:
            return None
        # Nothing is known of rows that are not finite.
        return outlook_factors(outlook.nan_to_num(0.0), trust, classes)

    # ------------------------------------------------------------------ what it learns

    @property
    def is_due_to_observe(self) -> bool:
        """Whether this call should look at how far views agree."""
        if self.classes is None:
            return False
        return self.agreement is None or self.calls % _OBSERVED_EVERY == 0

    @torch.no_grad()
    def observe(
        self, first: Float[Tensor, "items components"], second: Float[Tensor, "items components"]
    ) -> None:
        """Update how far views and mixtures agree in the last fit, from outlooks of both views."""
        assert self.classes is not None  # else there is no outlook
        now = class_agreement(torch.cat([first, second]), self.classes)
        if self.agreement is not None:
            now = torch.lerp(now, self.agreement, _INERTIA**_OBSERVED_EVERY)
        self.agreement, self._trust = now, None

    @torch.no_grad()
    def measure(
        self,
        views: tuple[Float[Tensor, "items dim"], Float[Tensor, "items dim"]],
        labels: Int[Tensor, " items"],
        threshold: float,
    ) -> None:
        """Count right and wrong attracting pairs of labelled items, by classes without labels."""
        known, classes = (labels >= 0).nonzero().squeeze(1), self.classes
        if classes is None or len(known) < 2:
            return
        shares = [class_responsibilities(view[known].to(classes.center), classes) for view in views]
        mean = ((shares[0] + shares[1]) / 2).nan_to_num(0.0)
        whole = mean.new_ones(len(classes.sizes))
        factors = same_class_factors(mean, whole, classes.transitions)
        attracted = (factors @ factors.T > threshold).triu(1)
        same = labels[known, None] == labels[known]
        right, wrong = float((attracted & same).sum()), float((attracted & ~same).sum())
        # Few items make many pairs, but only half as many as items are independent.
        scale = min(1.0, len(known) / 2 / max(1.0, right + wrong))
        self.right = _INERTIA * self.right + scale * right
        self.wrong = _INERTIA * self.wrong + scale * wrong
        self._trust = None

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

        If all processes do so, they use the fit of the first: fits may differ between hardware.
        """
        count, dim = view_1.shape
        if self.ring is None:
            self.ring = view_1.new_zeros(self.size, 2 * dim, dtype=torch.float32)
        for view, columns in zip((view_1, view_2), self.ring.chunk(2, dim=1), strict=True):
            write_latest(columns, view, self.came)
        self.came += count
        self.since += count
        self.calls += 1
        if labels is not None:
            self._remember_labelled(torch.cat([view_1, view_2], dim=1), labels)
        if self.classes is not None and self.refit_every is not None:
            due = self.calls % self.refit_every == 0
        else:  # at once the first time, then when the items of the last fit are long gone
            rarer = min(2.0, max(1.0, _SMALL_BATCH / count))
            due = self.since >= _RENEWALS * rarer * self.seen
        if due and self.came >= self.enough(tau_plus):
            self._fit(tau_plus, everywhere=everywhere)

    def _remember_labelled(self, views: Tensor, labels: Tensor) -> None:
        """Append items with a label, and drop the oldest of too many."""
        known = labels >= 0
        views, labels = views[known].float(), labels[known].long()
        if self.labelled is not None and self.labels is not None:
            views = torch.cat([self.labelled, views])
            labels = torch.cat([self.labels, labels])
        self.labelled, self.labels = views[-_LABELLED:].clone(), labels[-_LABELLED:].clone()

    def latest_of_each_label(self, most: int) -> tuple[Tensor, Tensor, Tensor] | None:
        """Both views and the labels of a few of the latest items of each label."""
        if self.labelled is None or self.labels is None or len(self.labels) < 2:
            return None
        of_label = nn.functional.one_hot(self.labels.unique(return_inverse=True)[1])
        behind = of_label.flip(0).cumsum(dim=0).flip(0)  # [labelled, distinct labels], itself too
        kept = (behind * of_label).sum(dim=1) <= most
        view_1, view_2 = self.labelled[kept].chunk(2, dim=1)
        return view_1, view_2, self.labels[kept]

    def enough(self, tau_plus: float | None) -> int:
        """Number of items needed for a fit: with fewer, each would get its own component."""
        prior = 1 / SCALES[1] if tau_plus is None else tau_plus
        return min(ITEMS_PER_COMPONENT * max(mixture_sizes(prior, self.size)), self.size)

    def _fit(self, tau_plus: float | None, *, everywhere: bool) -> None:
        """Fit at a prior, or at several and keep the one in which views and mixtures agree best."""
        self.fits_without_trust = 0 if self.trust > 0 else self.fits_without_trust + 1
        if tau_plus is not None and is_hopeless(tau_plus, self.size):
            return
        items = self.items
        assert items is not None  # some have just come
        how: dict[str, Any] = {
            "seed": self.calls,
            "labelled": self.latest_of_each_label(_LABELLED_PER_CLASS),
        }
        if tau_plus is not None:
            classes = fitted_classes(items, tau_plus, **how)
        else:
            finer = SCALES[min(self.scale + 1, len(SCALES) - 1)]
            items = items[-memory_for(1 / finer) :]
            fits = fits_at_scales(items, None if self.classes is None else self.scale, **how)
            for scale, (_, now) in fits.items():
                before = self.scores[scale]
                self.scores[scale] = now if before == 0 else (now + before) / 2
            best = max(fits, key=lambda scale: self.scores[scale])
            if everywhere:  # scores may differ between hardware
                chosen = torch.tensor([best], device=items.device)
                distributed.copy_from_first([chosen])
                best = int(chosen)
            self.scale, classes = best, fits[best][0]
        if everywhere:
            tensors = tensors_of(classes)
            distributed.copy_from_first(list(tensors.values()))
            classes = classes_of(tensors, classes.sizes)
        if tau_plus is None:
            # Views join the components of a class, so the classes found are what to go by.
            share = float(classes.share)
            tau_plus = share if 0 < share < 1 else 1 / SCALES[self.scale]
        if self.classes is None or self.classes.sizes != classes.sizes:
            self.agreement = None  # of other mixtures
        self.classes, self.prior, self.seen, self.since = classes, tau_plus, len(items), 0
        self._trust = None

    # ------------------------------------------------------------------ devices and files

    def follow(self, rows: Tensor) -> None:
        """Move to the embeddings' device, and refuse embeddings of another size."""
        if self.ring is None:
            return
        if rows.shape[-1] != self.dim:
            raise ValueError(
                f"embeddings must have {self.dim} coordinates, like those that the loss remembers, "
                f"got {rows.shape[-1]}: use a new loss for another encoder"
            )
        if self.ring.device != rows.device:  # what a checkpoint brought may lie elsewhere
            state = self.get_extra_state()
            for name, value in state.items():
                state[name] = value.to(rows.device) if isinstance(value, Tensor) else value
            self.set_extra_state(state)

    def get_extra_state(self) -> dict[str, Any]:
        """Return all that is remembered, fitted and observed: numbers, and copies of tensors."""
        return state_of(vars(self))

    def set_extra_state(self, state: Any) -> None:
        """Restore the memory from a ``state_dict``; see :func:`checked_state`."""
        vars(self).update(checked_state(state, self.size), _trust=None)

    def extra_repr(self) -> str:
        """Show the sizes."""
        every = "" if self.refit_every is None else f", refit_every={self.refit_every}"
        return f"size={self.size}{every}"
