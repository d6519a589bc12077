"""Recent items, the latent classes fitted to them, and how far to trust these."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from bayescl import distributed
from bayescl.axes import Float, Int, Tensor
from bayescl.functional.latent_classes.posterior import (
    LatentClasses,
    class_responsibilities,
    outlook_factors,
    outlooks,
    same_class_factors,
    unit_outlook,
)
from bayescl.losses.class_fits import (
    SCALES,
    agreement_in,
    enough_items,
    fits_at_scales,
    fitted_classes,
    is_hopeless,
    memory_for,
)
from bayescl.losses.class_state import Remembered, classes_of, tensors_of
from bayescl.losses.class_trust import Precision, evidence, explanation, trust_by_mixture

_RENEWALS = 2
"""A fit is renewed after this many times as many new items as it saw."""

_SMALL_BATCH = 128
"""Items of a call below which fits are rarer, up to half as often, to cost no more of a step."""

_INERTIA = 0.9
"""Decay per call of moving averages, of the views' agreement and of right and wrong pairs."""

_OBSERVED_EVERY = 4
"""Calls between two looks at how far views agree."""

_LABELLED = 1024
"""Labelled items that are remembered, beside the memory, where few items have a label."""

_LABELLED_PER_CLASS = 20
"""Of each label, as many of the latest say which class a component is of."""


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
            batch size; with less than 128 items a call, up to four times.
    """

    def __init__(self, size: int, refit_every: int | None = None) -> None:
        super().__init__()
        self.size = size
        self.refit_every = refit_every
        self.fits_without_trust = 0
        """Fits since something was trusted, or since the memory was made."""
        self._held = Remembered()
        self._trust: Tensor | None = None  # of each mixture, until something changes
        self._may_trust = False

    @property
    def classes(self) -> LatentClasses | None:
        """The last fit; None before the first."""
        return self._held.classes

    @property
    def calls(self) -> int:
        """Number of times that items were remembered."""
        return self._held.calls

    @property
    def items(self) -> Float[Tensor, "filled two_dim"] | None:
        """Both views of each remembered item, side by side; None if there are none yet."""
        held = self._held
        return None if held.items is None else held.items[: held.filled]

    @property
    def agreement(self) -> Float[Tensor, " mixtures"] | None:
        """Moving average of how far views and mixtures agree; None before the first fit."""
        return self._held.agreement

    @property
    def prior(self) -> float:
        """Probability that two items are of one class, as the last fit took it; 1 before it."""
        return self._held.prior

    # ------------------------------------------------------------------ how far to trust it

    @property
    def precision(self) -> Precision:
        """Share of attracting pairs that are of one class, measured on labelled items."""
        return Precision.of(self._held)

    @property
    def evidence(self) -> float:
        """Weight of the measured precision in the trust, in [0, 1); 0 without labels."""
        return evidence(self._held)

    @property
    def trust_by_mixture(self) -> Float[Tensor, " mixtures"] | None:
        """How far each mixture is trusted, in [0, 1]; None before the first fit."""
        held = self._held
        if self._trust is None and held.agreement is not None:
            self._trust = trust = trust_by_mixture(held)
            # Looking costs nothing on the CPU.
            self._may_trust = trust is not None and (not trust.is_cpu or bool(trust.any()))
        return self._trust

    @property
    def trust(self) -> float:
        """The mean over mixtures; 0 before the first fit."""
        trust = self.trust_by_mixture
        return 0.0 if trust is None else float(trust.mean())

    # ------------------------------------------------------------------ what it says of rows

    def outlook(
        self, rows: Float[Tensor, "rows dim"], *, unit: bool = False
    ) -> Float[Tensor, "rows components"] | None:
        """Where further views of rows would lie; None before the first fit.

        Rows that are not finite give NaN.

        Args:
            rows: embeddings.
            unit: whether they are known to have length 1 or 0.

        Raises:
            ValueError: if rows have another number of coordinates than those remembered.
        """
        self._follow(rows)
        classes = self.classes
        if classes is None:
            return None
        rows = rows.to(classes.center)
        if unit:
            return unit_outlook(rows, classes)
        return outlooks(class_responsibilities(rows, classes), classes)

    def factors(
        self, outlook: Float[Tensor, "rows components"]
    ) -> Float[Tensor, "rows components"] | None:
        """Factors whose product is the posterior that two rows are of one class.

        Args:
            outlook: :meth:`outlook` of rows, or its mean over the views of items.

        Returns:
            None if nothing is trusted. Rows that are not finite get 0: nothing is known of them.
        """
        trust, classes = self.trust_by_mixture, self.classes
        if classes is None or trust is None or not self._may_trust:
            return None
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
        now, before = agreement_in(self.classes, first, second), self.agreement
        if before is not None:
            now = torch.lerp(now, before, _INERTIA**_OBSERVED_EVERY)
        self._held.agreement, self._trust = now, None

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
        known, classes, held = (labels >= 0).nonzero().squeeze(1), self.classes, self._held
        if classes is None or len(known) < 2:
            return
        shares = [class_responsibilities(view[known].to(classes.center), classes) for view in views]
        mean = ((shares[0] + shares[1]) / 2).nan_to_num(0.0)
        whole = mean.new_ones(len(classes.sizes))
        factors = same_class_factors(mean, whole, classes.moves, hops=1)
        attracted = (factors @ factors.T > threshold).triu(1)
        same = labels[known, None] == labels[known]
        right, wrong = float((attracted & same).sum()), float((attracted & ~same).sum())
        # A few items make many pairs, which say no more than as many as share no item.
        scale = min(1.0, len(known) / 2 / max(1.0, right + wrong))
        held.right = _INERTIA * held.right + scale * right
        held.wrong = _INERTIA * held.wrong + scale * wrong
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

        Args:
            view_1: embeddings of one view of each item.
            view_2: embeddings of the other.
            tau_plus: probability that two items are of one class, in (0, 1); None to estimate it.
            labels: their classes, -1 where unknown. Default: none is known.
            everywhere: whether all processes remember the same items. All then use the fit of the
                first, since fits may differ between hardware.
        """
        held = self._held
        held.keep(view_1, view_2, self.size)
        if labels is not None:
            known = labels >= 0
            both = torch.cat([view_1[known], view_2[known]], dim=1)
            held.keep_labelled(both, labels[known], _LABELLED)
        held.calls += 1
        held.since += len(view_1)
        if self._is_due(tau_plus, len(view_1)):
            self._fit(tau_plus, everywhere=everywhere)

    def _is_due(self, tau_plus: float | None, arrived: int) -> bool:
        """Whether a fit is due, because there is none or its items are long gone."""
        held = self._held
        if held.classes is not None and self.refit_every is not None:
            due = held.calls % self.refit_every == 0
        else:  # at once the first time
            rarer = min(2.0, max(1.0, _SMALL_BATCH / arrived))
            due = held.since >= _RENEWALS * rarer * held.seen
        return due and held.filled >= self.enough(tau_plus)

    def enough(self, tau_plus: float | None) -> int:
        """Number of items needed for a fit at a class prior; None if that is to be estimated."""
        return enough_items(tau_plus, self.size)

    def _fit(self, tau_plus: float | None, *, everywhere: bool) -> None:
        """Fit at a prior, or at several and keep the one in which views and mixtures agree best."""
        held = self._held
        self.fits_without_trust = 0 if self.trust > 0 else self.fits_without_trust + 1
        how: dict[str, Any] = {
            "seed": held.calls,
            "labelled": held.latest_of_each_label(_LABELLED_PER_CLASS),
        }
        if tau_plus is not None:
            if is_hopeless(tau_plus, self.size):
                return
            items, prior = held.in_order(), tau_plus
            classes = fitted_classes(items, tau_plus, **how)
        else:
            finer = SCALES[min(held.scale + 1, len(SCALES) - 1)]
            items = held.in_order()[-memory_for(1 / finer) :]
            fits = fits_at_scales(items, None if held.classes is None else held.scale, **how)
            for scale, (_, now) in fits.items():
                before = held.scores[scale]
                held.scores[scale] = now if before == 0 else (now + before) / 2
            best = max(fits, key=lambda scale: held.scores[scale])
            if everywhere:  # scores may differ between hardware
                chosen = torch.tensor([best], device=items.device)
                distributed.copy_from_first([chosen])
                best = int(chosen)
            held.scale, classes = best, fits[best][0]
            # Views join the components of a class, so the classes found are what to go by.
            share = float(classes.share)
            prior = share if 0 < share < 1 else 1 / SCALES[best]
        if everywhere:
            tensors = tensors_of(classes)
            distributed.copy_from_first(list(tensors.values()))
            classes = classes_of(tensors, classes.sizes)
        if held.classes is None or held.classes.sizes != classes.sizes:
            held.agreement = None  # of other mixtures
        held.classes, held.prior, held.seen, held.since = classes, prior, len(items), 0
        self._trust = None

    # ------------------------------------------------------------------ for people, and for files

    def explain(self, tau_plus: float | None) -> str:
        """Say what was found, how far it is trusted, and why not more.

        Args:
            tau_plus: the prior that the next fit would use; None if it is estimated.
        """
        return explanation(self._held, self.trust_by_mixture, tau_plus, self.size)

    def _follow(self, rows: Tensor) -> None:
        """Move to the embeddings' device, and refuse embeddings of another size."""
        items = self._held.items
        if items is None:
            return
        dim = items.shape[1] // 2
        if rows.shape[-1] != dim:
            raise ValueError(
                f"embeddings must have {dim} coordinates, like those that the loss remembers, got "
                f"{rows.shape[-1]}: use a new loss for another encoder"
            )
        if items.device != rows.device:  # what a checkpoint brought may lie elsewhere
            self._held, self._trust = self._held.to(rows.device, self.size), None

    def get_extra_state(self) -> dict[str, Any]:
        """Return all that is remembered, fitted and observed: numbers, and copies of tensors."""
        return self._held.state()

    def set_extra_state(self, state: Any) -> None:
        """Restore the memory from a ``state_dict``.

        Raises:
            ValueError: if the state is damaged, or is of a memory of another size.
        """
        self._held, self._trust = Remembered.of(state, self.size), None

    def extra_repr(self) -> str:
        """Show the sizes."""
        every = "" if self.refit_every is None else f", refit_every={self.refit_every}"
        return f"size={self.size}{every}"
