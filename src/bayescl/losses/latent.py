"""The latent-class loss as a module."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from typing_extensions import Unpack

from bayescl import distributed
from bayescl._axes import Float, Tensor
from bayescl._checks import check_count, check_interval, check_non_negative
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
    """Return how many items a memory must hold for components of a class prior to be fitted.

    At least sixteen items of each class, in powers of two.

    Example:
        >>> memory_for(0.1), memory_for(1 / 77), memory_for(1e-6)
        (1024, 2048, 16384)
    """
    wanted: int = 1 << math.ceil(math.log2(16 / tau_plus))
    return min(max(1024, wanted), _LARGEST_MEMORY)


class LatentClassContrastiveLoss(ContrastiveLoss):
    r"""InfoNCE that finds the classes of the data itself, without labels, and believes what holds.

    A memory keeps the embeddings of recent items. Every few steps mixtures of von Mises-Fisher
    components are fitted to it, coarser and finer ones. Two rows are of one class with the
    probability that they come from one component; that posterior takes false negatives out of the
    sum, and lets likely ones attract as further positives. Each mixture is trusted as far as the
    two views of an item agree in it: where the classes are not to be found, ``trust`` is 0 and
    the loss is InfoNCE, exactly. It is so too from the first step until the memory can carry a
    fit.

    Call it like any other loss: no labels, no indices. Only calls in ``train()`` mode are
    remembered, in every layout but :meth:`from_logits`: two views of an item, or an anchor and
    its positive. Memory, fits and trust travel in ``state_dict``. With ``gather=True`` all
    processes hold the same memory and the same fits.

    Args:
        num_classes: about how many classes there are; half or double the truth does little harm.
        tau_plus: prior probability that a candidate is of the anchor's class, in (0, 1). Default:
            ``1 / num_classes``, or 0.1 without it.
        attraction: how strongly likely members of the anchor's class attract, at least 0; with 0
            they only cease to repel.
        threshold: posterior above which a candidate attracts, in [0, 1].
        memory_size: items remembered. Default: :func:`memory_for` the prior.
        refit_every: steps between two fits.
        **shared: what every loss takes (temperature, normalize, reduction, engine, ...); see
            :class:`~bayescl.losses.ContrastiveLoss`. The temperature is 0.25 by default here. The
            fused engine cannot compute this loss.

    Raises:
        ValueError: if an argument leaves its range.

    Example:
        >>> loss = LatentClassContrastiveLoss(num_classes=10)
        >>> view_1, view_2 = torch.eye(4), torch.eye(4)
        >>> loss(view_1, view_2), loss.trust
        (tensor(0.1043), 0.0)

    Reference:
        Banerjee et al., "Clustering on the Unit Hypersphere using von Mises-Fisher
        Distributions", JMLR 2005, for the mixtures.

    See Also:
        :func:`bayescl.functional.latent_loss`: the same on logits, with posteriors of your own.
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
        refit_every: int = 4,
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
        self.memory = ClassMemory(
            check_count("memory_size", size, 2), check_count("refit_every", refit_every, 1)
        )

    @property
    def trust(self) -> float:
        """How far the classes found are believed: 0, as InfoNCE, to 1; the mean over mixtures."""
        return self.memory.trust

    def readings(self) -> dict[str, float]:
        """Return what a training run may want to record after an epoch."""
        return {"trust": self.trust}

    @torch.no_grad()
    def same_class(
        self, first: Float[Tensor, "rows dim"], second: Float[Tensor, "columns dim"]
    ) -> Float[Tensor, "rows columns"]:
        """Return the posterior probability that two embeddings are of one class, as believed now.

        Args:
            first: embeddings, of any length.
            second: embeddings to compare with.

        Returns:
            Values in [0, 1]; 0 throughout while nothing is fitted or trusted.

        Raises:
            ValueError: if the embeddings have another number of coordinates than the memory's.
        """
        rows, columns = self.memory.factors(first), self.memory.factors(second)
        if rows is None or columns is None:
            return first.new_zeros(len(first), len(second))
        return (rows @ columns.T).clamp(0, 1)

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits; the temperature plays no part."""
        del temperature
        return Latent(self.attraction, self.threshold)

    def _evaluate(
        self,
        gathering: Gathering,
        batches: Sequence[ContrastiveBatch],
        temperature: float | Tensor,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the losses with what is believed of this batch; then remember it."""
        views = _views(batches[0], gathering) if self.training else None
        with torch.autocast(batches[0].anchors.device.type, enabled=False):
            if views is not None:
                self.memory.observe(*views)
            believed = [self._believed(batch) for batch in batches]
        value = super()._evaluate(gathering, believed, temperature)
        if views is not None:
            with torch.autocast(views[0].device.type, enabled=False):
                self.memory.remember(*views, tau_plus=self.tau_plus)
        return value

    def _believed(self, batch: ContrastiveBatch) -> ContrastiveBatch:
        """Add the posterior that a candidate is of the anchor's class, where any is trusted."""
        rows = batch.candidates
        with torch.no_grad():
            items = self.memory.factors(batch.anchors, batch.positives)
            columns = self.memory.factors(rows.reshape(-1, rows.shape[-1]))
            if items is None or columns is None:
                return batch
            columns = columns.view(*rows.shape[:-1], -1)
            # What is known of both views is known of each.
            for place in (batch.rule.own, batch.rule.positive):
                if place is not None:
                    columns[place] = items
        return replace(batch, same_class=SameClass(items, columns))


def _views(batch: ContrastiveBatch, gathering: Gathering) -> tuple[Tensor, Tensor]:
    """Two views of each item of a call, over all processes if they gather."""
    # Where anchors are candidates too, the second half of them are the first one's positives.
    items = batch.num_anchors // (1 if batch.rule.own is None else 2)
    first, second = batch.anchors[:items].detach(), batch.positives[:items].detach()
    if gathering.active:
        both = distributed.gather(torch.cat([first, second], dim=1))
        first, second = both.chunk(2, dim=1)
    return first, second
