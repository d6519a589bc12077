"""The latent-class loss as a module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from typing_extensions import Unpack

from bayescl.axes import Float, Tensor
from bayescl.checks import check_count, check_interval, check_non_negative
from bayescl.engines import ContrastiveBatch, SameClass
from bayescl.functional.latent import THRESHOLD, Latent
from bayescl.functional.objective import Objective
from bayescl.losses.base import ContrastiveLoss, SharedOptions
from bayescl.losses.class_memory import ClassMemory
from bayescl.losses.gathering import Gathering
from bayescl.losses.hyperparameters import Hyperparameter, class_prior

_LARGEST_MEMORY = 16384


def _check_prior(tau_plus: float) -> float:
    return check_interval("tau_plus", tau_plus, 0.0, 1.0, open_low=True, open_high=True)


def _check_attraction(attraction: float) -> float:
    return check_non_negative("attraction", attraction)


def memory_for(tau_plus: float) -> int:
    """Return how many items a memory must hold to fit components at a class prior.

    A power of two with at least sixteen items of each class.

    Example:
        >>> memory_for(0.1), memory_for(1 / 77), memory_for(1e-6)
        (1024, 2048, 16384)
    """
    wanted: int = 1 << math.ceil(math.log2(16 / tau_plus))
    return min(max(1024, wanted), _LARGEST_MEMORY)


class LatentClassContrastiveLoss(ContrastiveLoss):
    r"""InfoNCE with latent classes, found without labels and used as far as they can be trusted.

    A memory keeps the embeddings of recent items. Every few steps, coarse and fine mixtures of von
    Mises-Fisher components are fitted to it, and components that views of one item move between are
    joined. The probability that two rows share a class follows from the components they share. This
    posterior takes false negatives out of the sum and lets likely ones attract as further
    positives. Each mixture is trusted as far as the two views of an item agree in it and as it
    agrees with the other mixtures. Nothing is trusted if the classes found are twice as large as
    they should be, or if positives are no closer than other members of a class, so that there is
    nothing to gain. If ``trust`` is 0 the loss is exactly InfoNCE. The same holds until the memory
    has enough items for a fit.

    Call it like any other loss, without labels or indices. Calls in ``train()`` mode are remembered
    in every layout but :meth:`from_logits`: two views of an item, or an anchor and its positive.
    Memory, fits and trust are part of ``state_dict``. With ``gather=True`` all processes hold the
    same memory and the same fits.

    Args:
        num_classes: approximate number of classes; half or double the true number does little harm.
        tau_plus: prior probability that a candidate is of the anchor's class, in (0, 1). Default:
            ``1 / num_classes``, or 0.1 without it.
        attraction: how strongly likely members of the anchor's class attract, at least 0; at 0 they
            only stop repelling.
        threshold: posterior above which a candidate attracts, in [0, 1].
        memory_size: number of items remembered. Default: :func:`memory_for` the prior.
        refit_every: steps between two fits. Default: as many as bring twice the items that the last
            fit saw; for 2 x 256 views and a memory of 1,024, every 8 steps.
        **shared: what every loss takes (temperature, normalize, reduction, engine, ...); see
            :class:`~bayescl.losses.ContrastiveLoss`. The default temperature is 0.25. The fused
            engine cannot compute this loss.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> loss = LatentClassContrastiveLoss(num_classes=10)
        >>> view_1, view_2 = torch.eye(4), torch.eye(4)
        >>> loss(view_1, view_2), loss.trust
        (tensor(0.1043), 0.0)

    Reference:
        Banerjee et al., "Clustering on the Unit Hypersphere using von Mises-Fisher
        Distributions", JMLR 2005, for the mixtures.

    See Also:
        :func:`bayescl.functional.latent_loss`: the same on logits, with your own posteriors.
    """

    tau_plus = Hyperparameter(_check_prior)
    attraction = Hyperparameter(_check_attraction)
    hyperparameters = ("tau_plus", "attraction")

    def __init__(
        self,
        *,
        num_classes: int | None = None,
        tau_plus: float | None = None,
        attraction: float = 1.0,
        threshold: float = THRESHOLD,
        memory_size: int | None = None,
        refit_every: int | None = None,
        **shared: Unpack[SharedOptions],
    ) -> None:
        shared.setdefault("temperature", 0.25)
        super().__init__(**shared)
        if self.engine == "fused":
            raise ValueError("engine must be auto, dense or chunked for this loss, got 'fused'")
        self.tau_plus = class_prior(tau_plus, num_classes)
        self.attraction = attraction
        self.threshold = check_interval("threshold", threshold, 0.0, 1.0)
        size = memory_for(self.tau_plus) if memory_size is None else memory_size
        if refit_every is not None:
            check_count("refit_every", refit_every, 1)
        self.memory = ClassMemory(check_count("memory_size", size, 2), refit_every)

    @property
    def trust(self) -> float:
        """How far the classes found are trusted, from 0 (InfoNCE) to 1; the mean over mixtures."""
        return self.memory.trust

    def readings(self) -> dict[str, float]:
        """Return readings to record after an epoch."""
        return {"trust": self.trust}

    @torch.no_grad()
    def same_class(
        self, first: Float[Tensor, "rows dim"], second: Float[Tensor, "columns dim"]
    ) -> Float[Tensor, "rows columns"]:
        """Return the current posterior probability that two embeddings are of one class.

        Args:
            first: embeddings, of any length.
            second: embeddings to compare with.

        Returns:
            Values in [0, 1]; all 0 if nothing is fitted or trusted yet.

        Raises:
            ValueError: if the embeddings differ in number of coordinates from the memory's.
        """
        found = [self.memory.outlook(rows) for rows in (first, second)]
        factors = [None if seen is None else self.memory.factors(seen) for seen in found]
        rows, columns = factors
        if rows is None or columns is None:
            return first.new_zeros(len(first), len(second), dtype=torch.float32)
        return (rows @ columns.T).clamp(0, 1)

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits, which does not depend on the temperature."""
        del temperature
        return Latent(self.attraction, self.threshold)

    def _evaluate(
        self,
        gathering: Gathering,
        batches: Sequence[ContrastiveBatch],
        temperature: float | Tensor,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the losses with the current classes; then remember the batch."""
        first = batches[0]
        if not self._learns:
            with gathering.refusals():
                informed = [self.informed(batch) for batch in batches]
            return super()._evaluate(gathering, informed, temperature)
        device = first.anchors.device.type
        with torch.no_grad(), torch.autocast(device, enabled=False):
            with gathering.refusals():
                known = self._outlooks(first)
            # Where anchors are candidates too, the second half are the first one's positives.
            items = first.num_anchors // (1 if first.rule.own is None else 2)
            parts = [first.anchors, first.positives, *(known or ())][:4]
            parts = gathering.rows_of_all(
                *(part[:items] for part in parts), calls=self.memory.calls
            )
            view_1, view_2, *outlooks = parts
            if outlooks:
                self.memory.observe(*outlooks)
            informed = [self._informed(first, known), *map(self.informed, batches[1:])]
        value = super()._evaluate(gathering, informed, temperature)
        with torch.autocast(device, enabled=False):
            self.memory.remember(
                view_1, view_2, tau_plus=self.tau_plus, everywhere=gathering.active
            )
        return value

    @property
    def _learns(self) -> bool:
        """Whether calls are remembered: a transform's values must not outlive it."""
        return self.training and not torch._C._are_functorch_transforms_active()

    def informed(self, batch: ContrastiveBatch) -> ContrastiveBatch:
        """Return a batch with the posterior that a candidate is of the anchor's class.

        This has no side effects: only calls of the loss are remembered.

        Args:
            batch: in any layout; returned unchanged if nothing is trusted.
        """
        if batch.same_class is not None:
            return batch
        with torch.no_grad(), torch.autocast(batch.anchors.device.type, enabled=False):
            return self._informed(batch, self._outlooks(batch))

    def _outlooks(self, batch: ContrastiveBatch) -> tuple[Tensor, Tensor, Tensor] | None:
        """Outlooks of anchors, positives and candidates; None before the first fit."""
        of, rule, rows = self.memory.outlook, batch.rule, batch.candidates
        columns = of(rows.reshape(-1, rows.shape[-1]))
        if columns is None:
            return None
        anchors = columns if rows is batch.anchors else of(batch.anchors)
        positives = of(batch.positives) if rule.positive is None else columns[rule.positive]
        assert anchors is not None  # as there are those of candidates
        assert positives is not None
        return anchors, positives, columns

    def _informed(
        self, batch: ContrastiveBatch, known: tuple[Tensor, Tensor, Tensor] | None
    ) -> ContrastiveBatch:
        """Add the posterior that these outlooks give, if any mixture is trusted."""
        if known is None:
            return batch
        anchors, positives, candidates = known
        # What is known of both views is known of each.
        both = (anchors + positives) / 2
        place = batch.rule.positive
        if batch.candidates is batch.anchors:
            candidates = both
        elif place is not None:
            candidates = candidates.index_copy(0, place, both)
        columns = self.memory.factors(candidates)
        if columns is None:
            return batch
        if batch.candidates is batch.anchors:
            items: Tensor | None = columns
        else:
            items = self.memory.factors(both) if place is None else columns[place]
        assert items is not None  # as candidates are believed
        items, columns = items.to(batch.anchors.dtype), columns.to(batch.anchors.dtype)
        columns = columns.view(*batch.candidates.shape[:-1], -1)
        return replace(batch, same_class=SameClass(items, columns))
