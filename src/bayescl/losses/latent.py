"""The latent-class loss as a module."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from typing_extensions import Unpack

from bayescl.axes import Float, Tensor
from bayescl.batch import Batch, Rows
from bayescl.checks import check_choice, check_count, check_interval
from bayescl.functional.latent import AIMS, THRESHOLD, Aim, Latent, check_attraction
from bayescl.functional.latent_classes.posterior import LatentClasses, outlook_factors
from bayescl.functional.objective import Objective
from bayescl.losses.base import ContrastiveLoss, SharedOptions, without_autocast
from bayescl.losses.class_explanation import explanation, too_many_classes
from bayescl.losses.class_fits import SCALES, is_hopeless, memory_for
from bayescl.losses.class_memory import ClassMemory, Precision
from bayescl.losses.gathering import Gathering
from bayescl.losses.parameters import Hyperparameter, class_prior

_SHARPEST = 0.1  # temperature above which members are ranked as at this one
_MOST_REMEMBERED = 2**20
_FITS_IN_VAIN = 100  # in a row, without trust: some 200,000 items at the default


class LatentClassContrastiveLoss(ContrastiveLoss):
    r"""InfoNCE with latent classes, found without labels and used as far as they can be trusted.

    A memory keeps the embeddings of recent items. Every few steps, coarse and fine mixtures of von
    Mises-Fisher components are fitted to it, and components that views of one item move between are
    joined. Rows that share components likely share a class, and likely members of an anchor's class
    attract. Each mixture is trusted as far as the two views of an item agree in it and as it agrees
    with the others. Nothing is trusted if the classes found are twice as large as they should be,
    or if positives are no closer than other members of a class. If ``trust`` is 0, as before the
    first fit, the loss is exactly InfoNCE. :meth:`explain` says in words what was found.

    The exact pair stays first, and its class comes next, in every layout: members of a class are
    ranked above the mean non-member, and then left alone. With ``aim="classes"`` members count as
    further positives and no longer as negatives: the exact partner is lost among them, so never use
    it for retrieval of exact pairs.

    Calls in ``train()`` mode are remembered in every layout but :meth:`from_logits`: two views of
    an item, or an anchor and its positive. Memory, fits and trust are part of ``state_dict``. With
    ``gather=True`` all processes hold the same memory and the same fits.

    If some labels are known, pass them to any call as ``labels=``, with -1 for items without. Pairs
    of two known labels are then settled, and with two views they attract or repel as
    :class:`~bayescl.losses.SupervisedContrastiveLoss` has it. Labelled items say of which
    class components are, and the :attr:`precision` of the classes is measured on them, which
    replaces the trust by agreement as labels grow.

    Args:
        num_classes: approximate number of classes; half or double the true number does little harm.
            Default: estimated, between 5 and 160, by how far views and mixtures agree; then
            ``1 / tau_plus`` says what was found.
        tau_plus: prior probability that a candidate is of the anchor's class, in (0, 1), instead of
            ``num_classes``.
        aim: ``"pairs"`` or ``"classes"``.
        attraction: how strongly likely members of the anchor's class attract, in [0, 1e6].
        threshold: posterior above which a candidate attracts, in [0, 1].
        memory_size: number of items remembered. Default: 1,024, or more for at least 16 items of
            each class, up to 8,192.
        refit_every: steps between two fits. Default: as many as bring twice the items that the last
            fit saw, or up to four times in batches below 128 items; for a memory of 1,024, every 8
            steps of 2 x 256 views and every 64 of 2 x 64.
        **shared: what every loss takes; see :class:`~bayescl.losses.ContrastiveLoss`. The
            default temperature is 0.25.

    Raises:
        ValueError: if an argument is out of range.

    Warns:
        UserWarning: once, if there are too many classes to look for, or if nothing was trusted in a
            hundred fits.

    Example:
        >>> loss = LatentClassContrastiveLoss(num_classes=10)
        >>> view_1, view_2 = torch.eye(4), torch.eye(4)
        >>> loss(view_1, view_2), loss.trust
        (tensor(0.1043), 0.0)
        >>> value = loss(view_1, view_2, labels=torch.tensor([0, 0, 1, -1]))  # the last is unknown

    Reference:
        Banerjee et al., "Clustering on the Unit Hypersphere using von Mises-Fisher
        Distributions", JMLR 2005, for the mixtures.

    See Also:
        :func:`bayescl.functional.latent_loss`: the same on logits, with your own posteriors.
    """

    tau_plus = Hyperparameter(
        lambda value: check_interval("tau_plus", value, 0.0, 1.0, open_low=True, open_high=True)
    )
    attraction = Hyperparameter(check_attraction)
    hyperparameters: tuple[str, ...] = ("tau_plus", "attraction")
    uses_labels = True

    def __init__(
        self,
        *,
        num_classes: int | None = None,
        tau_plus: float | None = None,
        aim: Aim = "pairs",
        attraction: float = 1.0,
        threshold: float = THRESHOLD,
        memory_size: int | None = None,
        refit_every: int | None = None,
        **shared: Unpack[SharedOptions],
    ) -> None:
        shared.setdefault("temperature", 0.25)
        super().__init__(**shared)
        self.tau_plus = class_prior(tau_plus, num_classes)
        self.estimates_prior = tau_plus is None and num_classes is None
        check_choice("aim", aim, AIMS)
        self.aim: Aim = aim
        self.attraction = attraction
        self.threshold = check_interval("threshold", threshold, 0.0, 1.0)
        prior = 1 / SCALES[-1] if self.estimates_prior else self.tau_plus
        size = memory_for(prior) if memory_size is None else memory_size
        if check_count("memory_size", size, 2) > _MOST_REMEMBERED:
            raise ValueError(f"memory_size must be at most {_MOST_REMEMBERED}, got {size}")
        if refit_every is not None:
            check_count("refit_every", refit_every, 1)
        self.memory = ClassMemory(size, refit_every)
        self._has_warned = False

    @property
    def trust(self) -> float:
        """How far the classes found are trusted, from 0 (InfoNCE) to 1; the mean over mixtures."""
        return self.memory.trust

    @property
    def precision(self) -> Precision:
        """Share of attracting pairs that are of one class, measured on labelled items."""
        return self.memory.precision

    def readings(self) -> dict[str, float]:
        """Return readings to record after an epoch: trust, and what labels say of it."""
        readings = {"trust": self.trust}
        if self.memory.evidence > 0:
            value, low, high, _ = self.precision
            readings |= {"precision": value, "precision_low": low, "precision_high": high}
        return readings

    def explain(self) -> str:
        """Say in a few sentences what was found, how far it is trusted, and why not more.

        Example:
            >>> print(LatentClassContrastiveLoss(num_classes=10).explain())
            No call in train() mode yet: nothing is remembered, and the loss is InfoNCE.
        """
        return explanation(self.memory, None if self.estimates_prior else self.tau_plus)

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
        memory = self.memory
        rows, columns = (memory.factors(memory.outlook(side)) for side in (first, second))
        if rows is None or columns is None:
            return first.new_zeros(len(first), len(second), dtype=torch.float32)
        return (rows @ columns.T).clamp(0, 1)

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective at a temperature."""
        scale = temperature.detach() if isinstance(temperature, Tensor) else temperature
        sharpness = max(1.0, float(scale) / _SHARPEST)  # a soft temperature tells little apart
        return Latent(self.attraction, self.threshold, self.aim, sharpness)

    def extra_repr(self) -> str:
        """Show every setting."""
        return f"aim={self.aim!r}, threshold={self.threshold:g}, {super().extra_repr()}"

    def with_posterior(self, batch: Batch, gathering: Gathering | None = None) -> Batch:
        """Return a batch with the posterior of its pairs, and learn from it while training."""
        if torch.compiler.is_compiling():
            # What is remembered changes with every call: traced, it would be compiled each time.
            known: Batch = torch.compiler.disable(self.with_posterior)(batch, gathering)
            return known
        # A transform's values must not outlive it.
        learns = self.training and not torch._C._are_functorch_transforms_active()
        memory = self.memory
        with torch.no_grad(), without_autocast(batch.anchors.embeddings.device):
            signatures = self._signatures(batch)
            if gathering is None or not learns:
                return self._known(batch, signatures)
            learned = self._learned(gathering, batch, signatures)
            batch = self._known(batch, signatures)
        view_1, view_2, labels = learned
        # Under inference_mode, too, what is remembered must serve later training.
        with (
            torch.inference_mode(mode=False),
            without_autocast(batch.anchors.embeddings.device),
        ):
            memory.remember(
                view_1.detach(),
                view_2.detach(),
                tau_plus=None if self.estimates_prior else self.tau_plus,
                labels=labels,
                everywhere=gathering.active,
            )
        if self.estimates_prior and memory.classes is not None:
            self.tau_plus = memory.prior
        if not self._has_warned:
            self._warn_if_in_vain()
        return batch

    def _learned(
        self, gathering: Gathering, batch: Batch, signatures: _Outlooks | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Compare the last fit with a new batch; return all processes' views and labels of it."""
        memory = self.memory
        # Of two views, the second half of the anchors are the first half's positives.
        pairs = batch.pair_anchors
        items = len(pairs) // (1 if batch.own is None else 2)
        parts = [pairs.embeddings[:items], batch.positives.embeddings[:items]]
        if signatures is not None and memory.is_due_to_observe:
            parts += [signatures.anchors[:items], signatures.positives[:items]]
        labels = None if pairs.labels is None else pairs.labels[:items]
        with gathering.synchronized_errors():
            pass
        if gathering.active:  # other processes may know labels
            parts.append(parts[0].new_full((items,), -1).long() if labels is None else labels)
            *parts, labels = gathering.rows_of_all(*parts, calls=memory.calls)
        if labels is not None and not bool((labels >= 0).any()):
            labels = None
        view_1, view_2, *of_views = parts
        if of_views:
            memory.observe(*of_views)
        if labels is not None:
            memory.measure((view_1, view_2), labels, self.threshold)
        return view_1, view_2, labels

    def _warn_if_in_vain(self) -> None:
        """Warn once if no classes can be looked for, or if fits cost time and earn no trust."""
        memory = self.memory
        tau_plus = 1.0 if self.estimates_prior else self.tau_plus
        if memory.classes is None and is_hopeless(tau_plus, memory.size):
            reason = too_many_classes(tau_plus, memory.size)
        elif memory.fits_without_trust >= _FITS_IN_VAIN:
            reason = (
                f"nothing was trusted in {memory.fits_without_trust} fits of latent classes, so "
                f"the loss is InfoNCE, at several times its cost. {self.explain()}"
            )
        else:
            return
        self._has_warned = True
        warnings.warn(reason, stacklevel=2)

    def _signatures(self, batch: Batch) -> _Outlooks | None:
        """Signatures of all rows; None before the first fit, and where nothing would use them."""
        memory = self.memory
        memory.follow(batch.anchors.embeddings)
        observes = self.training and memory.is_due_to_observe
        if memory.classes is None or not (memory.may_trust or observes):
            return None

        def of(rows: Rows) -> Tensor:
            flat = rows.embeddings.flatten(end_dim=-2)
            return cast(Tensor, memory.outlook(flat, unit=self.normalize))

        columns = tuple(of(block) for block in batch.columns)
        if batch.is_square:
            first, second = columns[0].chunk(2)
            return _Outlooks(first, second, columns)
        positives = columns[0] if batch.positives is batch.columns[0] else of(batch.positives)
        return _Outlooks(of(batch.pair_anchors), positives, columns)

    def _known(self, batch: Batch, signatures: _Outlooks | None) -> Batch:
        """Add the posterior that these signatures give, if any mixture is trusted."""
        if signatures is None:
            return batch

        def with_factors(rows: Rows, factors: Tensor) -> Rows:
            shape = rows.embeddings.shape[:-1]
            factors = factors.to(rows.embeddings.dtype).view(*shape, -1)
            return replace(rows, factors=factors)

        # An anchor and its positive are one item: each gets the mean signature of both.
        both = (signatures.anchors + signatures.positives) / 2
        trust = self.memory.trust_by_mixture
        if trust is None or not self.memory.may_trust:
            return batch
        items = self._factors(both)
        batch = replace(batch, trust=float(trust.mean()) if trust.is_cpu else trust.mean())
        if batch.is_square:
            rows = with_factors(batch.anchors, torch.cat([items, items]))
            positives = replace(batch.positives, factors=rows.factors)
            return replace(batch, anchors=rows, positives=positives, columns=(rows,))
        positives = with_factors(batch.positives, items)
        of_anchors = items
        if batch.anchor_of is not None:
            of_anchors = _means_of(both, batch.anchor_of, batch.num_anchors)
            of_anchors = self._factors(of_anchors)
        anchors = with_factors(batch.anchors, of_anchors)
        columns = []
        for block, signature in zip(batch.columns, signatures.columns, strict=True):
            if block is batch.positives:
                columns.append(positives)
            else:
                columns.append(with_factors(block, self._factors(signature)))
        return replace(batch, anchors=anchors, positives=positives, columns=tuple(columns))

    def _factors(self, signatures: Tensor) -> Tensor:
        """Factors of the posterior before trust; nothing is known of rows that are not finite."""
        classes = cast(LatentClasses, self.memory.classes)
        whole = torch.ones_like(cast(Tensor, self.memory.trust_by_mixture))
        return outlook_factors(signatures.nan_to_num(0.0), whole, classes)


def _means_of(values: Tensor, anchor_of: Tensor, anchors: int) -> Tensor:
    """Mean over each anchor's pairs."""
    sums = values.new_zeros(anchors, values.shape[1]).index_add_(0, anchor_of, values)
    return sums / anchor_of.bincount(minlength=anchors).clamp_min(1)[:, None]


class _Outlooks(NamedTuple):
    """Where further views of the rows of a batch would lie; of two views, anchors are the first."""

    anchors: Float[Tensor, "items components"]
    positives: Float[Tensor, "items components"]
    columns: tuple[Float[Tensor, "candidates components"], ...]
