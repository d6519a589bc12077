"""Recent items, the latent classes fitted to them, and how far these are trusted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from bayescl import distributed
from bayescl.axes import Float, Tensor
from bayescl.batch import UNKNOWN, Batch, Rows, write_latest
from bayescl.latent_classes.explain import Finding, Reason, limit_of_trust
from bayescl.latent_classes.fit import (
    ITEMS_PER_COMPONENT,
    SCALES,
    fits_at_scales,
    fitted_classes,
    is_hopeless,
    memory_for,
    mixture_sizes,
)
from bayescl.latent_classes.labelled import LabelledItems, joined
from bayescl.latent_classes.posterior import (
    LatentClasses,
    class_agreement,
    same_class,
    signature_factors,
    signatures,
    unit_or_nan,
)
from bayescl.latent_classes.state import checked_state, classes_of, state_of, tensors_of
from bayescl.latent_classes.trust import (
    Precision,
    trust_of_agreement,
    trust_of_closeness,
    trust_of_precision,
    trust_of_share,
)

_RENEWALS = 2  # a fit is renewed after this many times as many new items as it was made to
_SMALL_BATCH = 128  # items of a call below which fits are rarer, up to half as often
_INERTIA = 0.9  # decay per call of the views' agreement
_OBSERVED_EVERY = 4  # calls between two looks at how far views agree
_LABELLED = 1024  # labelled items that are remembered, beside the memory
_LABELLED_PER_CLASS = 20  # of each label, as many say which class a component is of
_SURE = 0.5  # measured strength from which it takes the place of trust
_AUDITED_PER_CLASS = 20  # of each label, at most as many audit
_COMPARED = 256  # items of the memory that audited ones are compared with

Gather = Callable[..., list[Tensor]]
"""Given tensors of this process's rows, and ``calls``, returns those of all processes."""


class ClassMemory(nn.Module):
    """Two views of each of the most recent items, and latent classes fitted to them.

    A loss asks for the :meth:`posterior` of a batch, then lets the memory learn from it
    (:meth:`update`); :meth:`explain` and :meth:`metrics` say what was found.

    Fits are seeded by the number of calls, so a resumed run continues exactly. What is held is
    extra state rather than buffers, in float32 on the device of the last embeddings: converting a
    model to half precision leaves it alone, and ``DistributedDataParallel`` does not broadcast it,
    since processes that do not gather hold different ones.

    Args:
        size: number of items remembered.
        refit_every: calls between two fits; None: by the number of new items.
        threshold: posterior above which pairs attract.
    """

    def __init__(self, size: int, refit_every: int | None = None, threshold: float = 0.5) -> None:
        super().__init__()
        self.size = size
        self.refit_every = refit_every
        self.threshold = threshold
        self.fits_without_trust = 0  # in a row
        self.precision: Precision | None = None  # of attracting pairs, None if not measured
        self._trust: tuple[Tensor, float | Tensor] | None = None  # None: to be computed again
        # What follows is the state.
        self.calls = 0  # of update
        self.num_seen = 0  # items so far
        self.buffer: Float[Tensor, "size two_dim"] | None = None  # both views, side by side
        self.labelled: LabelledItems | None = None
        self.audited: LabelledItems | None = None
        self.classes: LatentClasses | None = None  # the last fit
        self.num_fitted = 0  # items that it was made to
        self.num_since_fit = 0  # items that have come since
        self.prior = 1.0  # probability that two items are of one class, as the fit assumed
        self.scale = 0  # which of SCALES it had, where no number of classes is given
        self.scores = [0.0] * len(SCALES)  # how far views and mixtures agree at each of SCALES
        self.agreement: Float[Tensor, " mixtures"] | None = None  # of the last fit, moving average

    def empty_copy(self) -> ClassMemory:
        """Return a memory with the same settings that holds nothing."""
        return ClassMemory(self.size, self.refit_every, self.threshold)

    @property
    def dim(self) -> int | None:
        """Coordinates of the embeddings that are remembered; None before any."""
        return None if self.buffer is None else self.buffer.shape[1] // 2

    # ------------------------------------------------------------------ how far it is trusted

    @property
    def trust_by_mixture(self) -> Float[Tensor, " mixtures"] | None:
        """How far each mixture is trusted, in [0, 1]; None before the first fit is judged."""
        return self._judged[0]

    @property
    def _judged(self) -> tuple[Tensor | None, float | Tensor]:
        """Trust of each mixture, and its mean, which is a tensor on a GPU: it does not wait."""
        if self._trust is None:
            trust = self._trust_without_labels
            if trust is None:
                return None, 0.0
            if self.precision is not None:  # between what is sure and what is likely
                likely, sure = map(trust_of_precision, self.precision[:2])
                trust = trust.clamp(sure, likely)
            mean = trust.mean()
            self._trust = trust, float(mean) if mean.is_cpu else mean
        return self._trust

    @property
    def _trust_without_labels(self) -> Float[Tensor, " mixtures"] | None:
        classes, agreement = self.classes, self.agreement
        if classes is None or agreement is None:
            return None
        sized = trust_of_share(classes.share, self.prior)
        return trust_of_agreement(agreement) * sized * trust_of_closeness(classes.closeness)

    @property
    def trust(self) -> float:
        """The mean over mixtures; 0 before the first fit."""
        return float(self._judged[1])

    @property
    def measured_strength(self) -> float | None:
        """How surely attracting pairs are of one class, in [0, 1]; None if it is not measured."""
        precision = self.precision
        return None if precision is None else trust_of_precision(precision.low)

    # ------------------------------------------------------------------ what it says of rows

    @torch.no_grad()
    def posterior(self, batch: Batch, *, unit: bool = False) -> Batch:
        """Return a batch whose rows have factors of the posterior that two are of one class.

        An anchor and its positives are one item: each pair gets the mean signature of both. The
        posterior is that before trust, which the batch holds beside it: the measured strength if
        that is large.

        Args:
            batch: any layout, with columns of this process.
            unit: whether embeddings are known to have length 1.

        Returns:
            The same batch if nothing is trusted.

        Raises:
            ValueError: if embeddings differ in size from those that are remembered.
        """
        self._follow(batch.anchors.embeddings)
        trust, strength = self._judged[1], self.measured_strength
        if not isinstance(trust, Tensor) and trust == 0:
            return batch
        how: dict[str, Any] = {"trust": trust}
        if strength is not None and strength > _SURE:
            how = {"trust": strength, "is_measured": True}

        def signature(rows: Rows) -> Tensor:
            return self._signatures(rows.embeddings.flatten(end_dim=-2), unit=unit)

        def known(rows: Rows, signature: Tensor) -> Rows:
            factors = self._factors(signature).to(rows.embeddings.dtype)
            return replace(rows, factors=factors.view(*rows.embeddings.shape[:-1], -1))

        first, *others = batch.columns
        others = [known(block, signature(block)) for block in others]
        if first is batch.anchors:  # both views of each item
            view_1, view_2 = signature(first).chunk(2)
            item = self._factors((view_1 + view_2) / 2).to(first.embeddings.dtype)
            factors = torch.cat([item, item])
            anchors = replace(first, factors=factors)
            positives = replace(batch.positives, factors=factors)
            columns = (anchors, *others)
            return replace(batch, anchors=anchors, positives=positives, columns=columns, **how)
        pairs = (signature(batch.pair_anchors) + signature(batch.positives)) / 2
        positives = known(batch.positives, pairs)
        of_anchors = pairs
        if batch.anchor_of is not None:
            count = batch.anchor_of.bincount(minlength=batch.num_anchors)[:, None]
            sums = pairs.new_zeros(len(count), pairs.shape[1])
            of_anchors = sums.index_add_(0, batch.anchor_of, pairs) / count
        anchors = known(batch.anchors, of_anchors)
        first = positives if first is batch.positives else known(first, signature(first))
        return replace(batch, anchors=anchors, positives=positives, columns=(first, *others), **how)

    @torch.no_grad()
    def same_class(
        self, first: Float[Tensor, "rows dim"], second: Float[Tensor, "columns dim"]
    ) -> Float[Tensor, "rows columns"]:
        """Return the posterior that embeddings are of one class; all 0 if nothing is trusted."""
        self._follow(first)
        self._follow(second)
        classes, (trust, mean) = self.classes, self._judged
        if classes is None or trust is None:
            return first.new_zeros(len(first), len(second), dtype=torch.float32)
        rows, columns = (side.to(classes.center) for side in (first, second))
        return mean * same_class(rows, columns, classes)

    def _signatures(self, rows: Tensor, *, unit: bool = False) -> Tensor:
        classes = self.classes
        assert classes is not None  # else nothing is trusted
        rows = rows.to(classes.center)
        return signatures(rows if unit else unit_or_nan(rows), classes)

    def _factors(self, signature: Tensor) -> Tensor:
        classes = self.classes
        assert classes is not None  # else there are no signatures
        # Nothing is known of rows that are not finite.
        return signature_factors(signature.nan_to_num(0.0), classes)

    # ------------------------------------------------------------------ what it learns

    @torch.no_grad()
    def update(self, batch: Batch, *, tau_plus: float | None, gather: Gather | None = None) -> None:
        """Remember the items of a batch, judge the last fit by them, and refit every few calls.

        Args:
            batch: any layout. Of two views, items are the rows of both; else they are the pairs.
            tau_plus: prior probability that two items are of one class; None: estimated.
            gather: fetches the items of all processes, which then hold the same memory. All use
                the fit of the first, since fits may differ between hardware.
        """
        pairs, positives = batch.pair_anchors, batch.positives
        count = len(pairs) // (1 if batch.own is None else 2)  # then views are swapped
        views = [rows.embeddings[:count].detach() for rows in (pairs, positives)]
        known = [None if part is None else part[:count] for part in (pairs.labels, pairs.audit)]
        if gather is not None:  # other processes may know labels
            unknown = torch.full((count,), UNKNOWN, device=views[0].device)
            both = torch.stack([unknown if part is None else part for part in known], dim=1)
            *views, both = gather(*views, both, calls=self.calls)
            known = [*both.unbind(dim=1)]
        # Under inference_mode, too, what is remembered must serve later training.
        with torch.inference_mode(mode=False):
            self._follow(views[0])
            self._observe(views)
            items = torch.cat([view.float() for view in views], dim=1)
            self._remember(items)
            labelled, audited = (
                joined(held, items, labels, self.calls)
                for held, labels in zip((self.labelled, self.audited), known, strict=True)
            )
            if labelled is not None and labelled is not self.labelled:
                self.labelled = labelled.last(_LABELLED)
            if audited is not None and audited is not self.audited:
                since = self.calls - self.size // len(items)  # older ones are long forgotten
                self.audited = audited.recent(since, _AUDITED_PER_CLASS)
                self._measure()
            if self._is_due(len(items), tau_plus):
                self._fit(tau_plus, everywhere=gather is not None)

    def _observe(self, views: list[Tensor]) -> None:
        """Update how far views and mixtures agree in the last fit."""
        classes, before = self.classes, self.agreement
        if classes is None or (before is not None and self.calls % _OBSERVED_EVERY):
            return
        now = class_agreement(self._signatures(torch.cat(views)), classes)
        if before is not None:
            now = torch.lerp(now, before, _INERTIA**_OBSERVED_EVERY)
        self.agreement, self._trust = now, None

    def _remember(self, items: Float[Tensor, "items two_dim"]) -> None:
        """Store items in place of the oldest ones."""
        if self.buffer is None:
            self.buffer = items.new_zeros(self.size, items.shape[1])
        write_latest(self.buffer, items, self.num_seen)
        self.calls += 1
        self.num_seen += len(items)
        self.num_since_fit += len(items)

    def latest(self, count: int) -> Float[Tensor, "items two_dim"]:
        """Both views of so many of the latest items, side by side, the oldest first."""
        assert self.buffer is not None
        count, end = min(count, self.num_seen, self.size), self.num_seen
        return self.buffer[torch.arange(end - count, end, device=self.buffer.device) % self.size]

    def enough(self, tau_plus: float | None) -> int:
        """Number of items needed for a fit: with fewer, each would get its own component."""
        prior = 1 / SCALES[1] if tau_plus is None else tau_plus
        return min(ITEMS_PER_COMPONENT * max(mixture_sizes(prior, self.size)), self.size)

    def _is_due(self, count: int, tau_plus: float | None) -> bool:
        """Whether to fit after a call with so many items."""
        if self.num_seen < self.enough(tau_plus):
            return False
        if self.classes is not None and self.refit_every is not None:
            return self.calls % self.refit_every == 0
        # At once the first time, then when the items of the last fit are long gone.
        rarer = min(2.0, max(1.0, _SMALL_BATCH / count))
        return self.num_since_fit >= _RENEWALS * rarer * self.num_fitted

    def _fit(self, tau_plus: float | None, *, everywhere: bool) -> None:
        """Fit at a prior, or at several and keep the one in which views and mixtures agree best."""
        self.fits_without_trust = 0 if self.trust > 0 else self.fits_without_trust + 1
        if tau_plus is not None and is_hopeless(tau_plus, self.size):
            return
        how: dict[str, Any] = {"seed": self.calls, "labelled": None}
        if self.labelled is not None and len(self.labelled.labels) > 1:
            latest = self.labelled.latest(_LABELLED_PER_CLASS)
            how["labelled"] = (*latest.views.chunk(2, dim=1), latest.labels)
        if tau_plus is not None:
            items = self.latest(memory_for(tau_plus / 2))
            classes = fitted_classes(items, tau_plus, **how)
        else:
            finer = SCALES[min(self.scale + 1, len(SCALES) - 1)]
            items = self.latest(memory_for(1 / finer))
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
        self.classes, self.prior = classes, tau_plus
        self.num_fitted, self.num_since_fit = len(items), 0
        self._measure()

    def _measure(self) -> None:
        """Measure the precision of attracting pairs on audited items, by the last fit."""
        self.precision, self._trust = None, None
        classes, audited = self.classes, self.audited
        if classes is None or audited is None:
            return
        assert self.buffer is not None  # a fit has items
        held, count = min(self.num_seen, self.size), len(audited.labels)
        others = self.buffer[: held : max(1, held // _COMPARED)]
        items = torch.cat([audited.views, others])
        first, second = self._signatures(torch.cat(items.chunk(2, dim=1))).chunk(2)
        factors = self._factors((first + second) / 2)
        attracts = factors[:count] @ factors.T > self.threshold
        among, outside = attracts.split([count, len(others)], dim=1)
        self.precision = Precision.of_pairs(among, outside, audited, self.prior)

    # ------------------------------------------------------------------ what it found

    def explain(self, tau_plus: float | None) -> Finding:
        """Return what was found; ``tau_plus`` is the prior of the next fit, None if estimated."""
        if self.calls == 0:
            return Finding(Reason.NOTHING_REMEMBERED)
        classes, agreement = self.classes, self.agreement
        before = self._trust_without_labels
        if classes is None or agreement is None or before is None:
            items = min(self.num_seen, self.size)
            if tau_plus is not None and is_hopeless(tau_plus, self.size):
                return Finding(Reason.TOO_MANY_CLASSES, items, num_classes=1 / tau_plus)
            return Finding(Reason.TOO_FEW_ITEMS, items, self.enough(tau_plus))
        share, trust = float(classes.share), self.trust
        if not 0 < share < math.inf:
            return Finding(Reason.NO_CLASSES, self.num_fitted)
        reason, reading = limit_of_trust(classes, agreement, self.prior)
        if abs(trust - float(before.mean())) > 0.01:
            reason = Reason.AUDIT
        elif trust > 0.95:
            reason = Reason.TRUSTED
        return Finding(
            reason,
            self.num_fitted,
            num_classes=1 / share,
            trust=trust,
            reading=reading,
            precision=self.precision,
        )

    def metrics(self) -> dict[str, float]:
        """Return numbers to record after an epoch: trust, and the precision if it is measured."""
        metrics = {"trust": self.trust}
        if self.precision is not None:
            value, low, high, _ = self.precision
            metrics |= {"precision": value, "precision_low": low, "precision_high": high}
        return metrics

    # ------------------------------------------------------------------ devices and files

    def _follow(self, rows: Tensor) -> None:
        """Move to the embeddings' device, and refuse embeddings of another size."""
        if self.buffer is None:
            return
        if rows.shape[-1] != self.dim:
            raise ValueError(
                f"embeddings must have {self.dim} coordinates, like those that the loss remembers, "
                f"got {rows.shape[-1]}: use a new loss for another encoder"
            )
        if self.buffer.device != rows.device:  # what a checkpoint brought may lie elsewhere
            state = self.get_extra_state()
            for name, value in state.items():
                state[name] = value.to(rows.device) if isinstance(value, Tensor) else value
            self.set_extra_state(state)

    def get_extra_state(self) -> dict[str, Any]:
        """Return all that is remembered, fitted and observed: numbers, and copies of tensors."""
        return state_of(vars(self))

    def set_extra_state(self, state: Any) -> None:
        """Restore the memory from a ``state_dict``; see :func:`checked_state`."""
        vars(self).update(checked_state(state, self.size))
        self._measure()

    def extra_repr(self) -> str:
        """Show the sizes."""
        every = "" if self.refit_every is None else f", refit_every={self.refit_every}"
        return f"size={self.size}{every}"
