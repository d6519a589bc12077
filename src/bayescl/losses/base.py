"""The shared body of every loss: layouts, masks, precision, reduction, engine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import torch
from torch import nn
from typing_extensions import TypedDict

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_choice, check_count, check_finite, check_floating, check_shape
from bayescl.engines import (
    ENGINES,
    ContrastiveBatch,
    Engine,
    Layout,
    logits_loss,
    per_anchor_losses,
)
from bayescl.functional.objective import Maskless, Objective, takes_mask
from bayescl.functional.similarity import unit_vectors
from bayescl.functional.sorting import is_eager_cpu
from bayescl.losses import layouts
from bayescl.losses.denominators import MovingDenominators
from bayescl.losses.gathering import Gathering
from bayescl.losses.hyperparameters import LearnableTemperature, check_temperature, state_numbers

Reduction = Literal["mean", "sum", "none"]


class SharedOptions(TypedDict, total=False):
    """Arguments that every loss takes; see :class:`ContrastiveLoss`."""

    temperature: float | LearnableTemperature
    normalize: bool
    reduction: Reduction
    engine: Engine
    chunk_size: int | None
    gather: bool
    check_finite: bool


class ContrastiveLoss(nn.Module):
    """A contrastive loss in four layouts, around an objective on logits.

    The named losses of this package derive from it. To try your own weighting, pass any function of
    logits that returns one loss per anchor.

    Args:
        objective: called as ``objective(positive, unlabeled, valid=mask)`` with logits
            ``[anchors]`` and ``[anchors, candidates]`` and a boolean mask or None; returns
            ``[anchors]``.
        temperature: softmax scale, positive; or a
            :class:`~bayescl.losses.LearnableTemperature`.
        normalize: whether embeddings are scaled to length 1 first. Similarities are then cosines,
            otherwise inner products.
        reduction: ``"mean"`` or ``"sum"`` over anchors, or ``"none"``.
        engine: ``"dense"``, ``"chunked"``, or ``"auto"`` to choose between them by size;
            ``engine_used`` names the one that computed the last call. ``"fused"`` needs a CUDA
            device and Triton, and takes the ranks for the Bayesian weights from a histogram. It
            multiplies half-precision embeddings as they are, on the matrix units; the others
            convert them to float32.
        chunk_size: anchors at a time on the chunked engine; default: chosen for the device.
        gather: whether anchors are scored against the candidates of all processes of the default
            process group; gradients flow back to the processes that own them. Batches may differ in
            size. The processes' means average to the mean over all anchors, so when gradients are
            averaged over processes, as by ``DistributedDataParallel``, they equal those of one
            process with the whole batch. Sums add up to the whole batch's sum.
        check_finite: whether every call checks its embeddings and logits for NaN and infinity, and
            raises an error that names the cause. This waits for the device, so it is off by
            default; the loss of an anchor whose logits are not finite is then NaN.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> from bayescl.functional import info_nce_loss
        >>> loss = ContrastiveLoss(info_nce_loss, temperature=0.5)
        >>> view_1, view_2 = torch.eye(3), torch.eye(3)
        >>> loss(view_1, view_2)
        tensor(0.4327)
    """

    hyperparameters: tuple[str, ...] = ()
    """Names of the floats that travel in ``state_dict``, besides the temperature."""

    needs_groups = False
    """Whether the loss is undefined without labels."""

    uses_labels = False
    """Whether the loss can use the labels of some items."""

    can_be_fused = True
    """Whether the fused engine can compute the loss."""

    def __init__(
        self,
        objective: Objective | None = None,
        *,
        temperature: float | LearnableTemperature = 0.5,
        normalize: bool = True,
        reduction: Reduction = "mean",
        engine: Engine = "auto",
        chunk_size: int | None = None,
        gather: bool = False,
        check_finite: bool = False,
    ) -> None:
        super().__init__()
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        check_choice("engine", engine, ENGINES)
        if engine == "fused" and not self.can_be_fused:
            raise ValueError("engine must be auto, dense or chunked for this loss, got 'fused'")
        if chunk_size is not None:
            check_count("chunk_size", chunk_size, 1)
        if objective is not None and not takes_mask(objective):
            objective = Maskless(objective)
        self._objective = objective
        self.denominators: MovingDenominators | None = None
        self.learnable_temperature: LearnableTemperature | None = None
        if isinstance(temperature, LearnableTemperature):
            self.learnable_temperature = temperature
        else:
            self.temperature = temperature
        self.normalize = normalize
        self.reduction = reduction
        self.engine = engine
        self.engine_used: Engine | None = None
        self.chunk_size = chunk_size
        self.gather = gather
        self.check_finite = check_finite

    @property
    def temperature(self) -> float:
        """Current softmax scale. If it is learnable, setting it moves the parameter."""
        if self.learnable_temperature is None:
            return self._temperature
        return float(self.learnable_temperature().detach())

    @temperature.setter
    def temperature(self, value: float) -> None:
        if self.learnable_temperature is None:
            self._temperature = check_temperature(value)
        else:
            self.learnable_temperature.set(value)

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits at the given temperature."""
        del temperature  # an objective passed in does not depend on it
        if self._objective is None:
            raise TypeError(f"{type(self).__name__} needs an objective: pass a function of logits")
        return self._objective

    def objective_in(self, layout: Layout, temperature: float | Tensor) -> Objective:
        """Return the objective in a layout; the same in all, unless a loss says otherwise."""
        del layout
        return self.objective(temperature)

    def forward(
        self,
        view_1: Float[Tensor, "batch dim"],
        view_2: Float[Tensor, "batch dim"],
        *,
        groups: Int[Tensor, " batch *keys"] | None = None,
        labels: Int[Tensor, " batch"] | None = None,
        valid: Bool[Tensor, "two_batch two_batch"] | None = None,
        indices: Int[Tensor, " batch"] | None = None,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the loss of two views of a batch, as SimCLR does.

        Each of the ``2 batch`` rows is an anchor, its other view is the positive, and the other
        ``2 batch - 2`` rows are the candidates.

        Args:
            view_1: embeddings of the first views.
            view_2: embeddings of the second views of the same items, in the same order.
            groups: one integer per item; items of one group are never each other's negatives. With
                several, ``[batch, keys]``, one equal key is enough.
            labels: class of each item, -1 where it is not known; only for a loss that can use some
                labels, as :class:`~bayescl.losses.LatentClassContrastiveLoss` does.
            valid: True where a pair of rows of ``torch.cat([view_1, view_2])`` may count. With
                ``gather``, columns are both views of rank 0, then both views of rank 1, and so on.
            indices: place of each item in the data set, for a loss with
                :class:`~bayescl.MovingDenominators`; all distinct, of all processes too. On the CPU
                they are checked.
            temperature: used for this call instead of the loss's own; a one-element tensor receives
                a gradient.

        Returns:
            A scalar, or with ``reduction="none"`` one value per anchor: first view_1, then view_2.

        Raises:
            ValueError: if shapes do not match or no row has a candidate; with ``gather``, on all
                processes if on any.
            RuntimeError: with ``gather``, if there is no process group.
        """
        gathering = Gathering.of("two views", self.gather)
        with gathering.refusals():
            temperature = self._begun(temperature, labels, indices, groups=groups)
            view_1, view_2 = self._check(view_1=view_1, view_2=view_2)
            batch = layouts.two_views(
                view_1,
                view_2,
                groups=groups,
                labels=labels,
                valid=valid,
                gather=gathering.active,
                scale=self._scale,
            )
            batch = self._with_indices(batch, indices, len(view_1))
        return self._evaluate(gathering, [batch], temperature)

    def in_batch(
        self,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "batch dim"],
        *,
        extra: Float[Tensor, "extra dim"] | None = None,
        groups: Int[Tensor, " batch *keys"] | None = None,
        extra_groups: Int[Tensor, " extra *keys"] | None = None,
        labels: Int[Tensor, " batch"] | None = None,
        extra_labels: Int[Tensor, " extra"] | None = None,
        valid: Bool[Tensor, "batch columns"] | None = None,
        log_q: Float[Tensor, " columns"] | None = None,
        anchor_log_q: Float[Tensor, " batch"] | None = None,
        both_directions: bool = False,
        indices: Int[Tensor, " batch"] | None = None,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the loss of pairs whose candidates are the other pairs' positives.

        This is the layout of retrieval, CLIP and two-tower recommenders.

        Args:
            anchors: embeddings of users, queries or images.
            positives: embeddings of each anchor's item, document or caption, in the same order.
            extra: further candidates for every anchor, such as mined hard negatives.
            groups: one integer per pair; pairs of one group (the same item, say) are never each
                other's negatives. With several, ``[batch, keys]`` (for query and document, say),
                one equal key is enough.
            extra_groups: the groups of ``extra``, if known.
            labels: class of each pair, as in :meth:`forward`.
            extra_labels: the classes of ``extra``. Default: not known.
            valid: True where an anchor (row) may be scored against a candidate (column); columns
                are ``positives``, then ``extra``. With ``gather``, columns are those of rank 0,
                then those of rank 1, and so on, and ``both_directions`` must be False. The entry of
                an anchor and its own positive is ignored.
            log_q: log probability that a row is sampled, of this process's ``positives``, then
                ``extra``; it is subtracted from the row's logits, as a positive and as a candidate.
                In-batch candidates need it if some items are in many pairs, since popular ones are
                sampled more often: pass the log of an item's share of the pairs. Not
                differentiated. Default: no correction.
            anchor_log_q: the same of the anchors, for the second direction.
            both_directions: whether every positive is also an anchor against all anchors, as in
                CLIP. ``extra`` does not take part in the second direction.
            indices: place of each pair in the data set; see :meth:`forward`. Not with ``extra``.
            temperature: of this call. The result and the errors are those of :meth:`forward`; with
                both directions, the anchors' values come before the positives'.

        Reference:
            For ``log_q``: Yi et al., "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item
            Recommendations", RecSys 2019.
        """
        gathering = Gathering.of("in_batch", self.gather)
        with gathering.refusals():
            temperature = self._begun(temperature, labels, indices, groups=groups)
            anchors, positives, *more = self.prepared(
                anchors=anchors, positives=positives, **({} if extra is None else {"extra": extra})
            )
            if more:
                self._require_groups(extra_groups=extra_groups)
                if indices is not None:
                    raise ValueError(
                        "extra must be None with indices: denominators are of the data"
                    )
            known: dict[str, Any] = {
                "groups": groups, "labels": labels, "gather": gathering.active
            }  # fmt: skip
            there = layouts.pairs(
                anchors,
                positives,
                extra=more[0] if more else None,
                extra_groups=extra_groups,
                extra_labels=extra_labels,
                valid=valid,
                log_q=log_q,
                **known,
            )
            batches = [self._with_indices(there, indices, len(anchors))]
            if anchor_log_q is not None:
                if not both_directions:
                    raise ValueError("anchor_log_q needs both_directions")
                layouts.check_log_q("anchor_log_q", anchor_log_q, anchors, anchors.shape[:1])
            if both_directions:
                if valid is not None:
                    if gathering.active:
                        raise ValueError(
                            "valid must be None if both_directions and gather are set: this "
                            "process's mask does not say which anchors of other processes its "
                            "positives may be scored against; mark pairs with groups instead"
                        )
                    valid = valid[:, : len(anchors)].T
                back = layouts.pairs(positives, anchors, valid=valid, log_q=anchor_log_q, **known)
                batches.append(replace(back, indices=batches[0].indices))
        return self._evaluate(gathering, batches, temperature)

    def sampled(
        self,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "batch dim"],
        candidates: Float[Tensor, "*own candidates dim"],
        *,
        groups: Int[Tensor, " batch *keys"] | None = None,
        candidate_groups: Int[Tensor, "*own_candidates_keys"] | None = None,
        labels: Int[Tensor, " batch"] | None = None,
        candidate_labels: Int[Tensor, "*own candidates"] | None = None,
        valid: Bool[Tensor, "batch candidates"] | None = None,
        log_q: Float[Tensor, "*own candidates"] | None = None,
        positive_log_q: Float[Tensor, " batch"] | None = None,
        gather_candidates: bool = True,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the loss of pairs with drawn candidates.

        Args:
            anchors: embeddings of users or queries.
            positives: embeddings of each anchor's item, in the same order.
            candidates: ``[batch, candidates, dim]`` if each anchor has its own, or
                ``[candidates, dim]`` if all anchors share them. With ``gather``, shared candidates
                are shared by all processes, which should then draw different ones; an anchor's own
                are not gathered.
            groups: one integer per anchor, or several, ``[batch, keys]``.
            candidate_groups: one integer per candidate, shaped like ``candidates`` without ``dim``
                (or with ``keys`` in its place). A candidate that shares a key with the anchor does
                not count.
            labels: class of each anchor, as in :meth:`forward`.
            candidate_labels: class of each candidate. Default: not known.
            valid: True where a candidate counts for an anchor; with ``gather``, columns are the
                candidates of rank 0, then those of rank 1, and so on.
            log_q: log probability that a candidate is sampled, shaped like ``candidates`` without
                ``dim``; it is subtracted from the candidate's logits. See :meth:`in_batch`.
            positive_log_q: the same of each positive; given together with ``log_q``.
            gather_candidates: with ``gather``, whether shared candidates come from all processes.
                False if every process has drawn the same ones: then only what the mean over all
                anchors and a memory need is sent.
            temperature: of this call. The result and the errors are those of :meth:`forward`.
        """
        gathering = Gathering.of("sampled", self.gather, candidates=gather_candidates)
        with gathering.refusals():
            temperature = self._begun(temperature, labels, groups=groups)
            anchors, positives, candidates = self.prepared(
                anchors=anchors, positives=positives, candidates=candidates
            )
            batch = layouts.drawn(
                anchors,
                positives,
                candidates,
                groups=groups,
                candidate_groups=candidate_groups,
                labels=labels,
                candidate_labels=candidate_labels,
                valid=valid,
                log_q=log_q,
                positive_log_q=positive_log_q,
                gather=gathering.active,
                gather_candidates=gather_candidates,
            )
        return self._evaluate(gathering, [batch], temperature)

    def from_logits(
        self,
        positive: Float[Tensor, " anchors"],
        unlabeled: Float[Tensor, "anchors candidates"],
        *,
        valid: Bool[Tensor, "anchors candidates"] | None = None,
        log_q: Float[Tensor, "*anchors candidates"] | None = None,
        positive_log_q: Float[Tensor, " anchors"] | None = None,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the loss from your own logits, already divided by the temperature.

        With ``gather``, processes exchange only how many anchors they hold, for the mean over all.

        Args:
            positive: logit of each anchor's positive.
            unlabeled: logits of each anchor's candidates. A logit of -inf does not count.
            valid: True where a candidate counts.
            log_q: log probability that a candidate is sampled, ``[candidates]`` or like
                ``unlabeled``; it is subtracted from the logits. See :meth:`in_batch`.
            positive_log_q: the same of each positive; given together with ``log_q``.
            temperature: what the logits were divided by, if not the loss's own temperature. The
                debiased and the hard loss need it for their floor. The result and the errors are
                those of :meth:`forward`.
        """
        gathering = Gathering.of("from_logits", self.gather)
        with gathering.refusals():
            temperature = self._begun(temperature)
            check_floating("positive", positive)
            check_floating("unlabeled", unlabeled, positive.device)
            check_shape("positive", positive, ("anchors",))
            check_shape("unlabeled", unlabeled, (positive.shape[0], "candidates"))
            if unlabeled.numel() == 0:
                raise ValueError(f"unlabeled must not be empty, got shape {list(unlabeled.shape)}")
            layouts.check_valid(valid, (len(unlabeled), unlabeled.shape[1]), positive.device, False)
            if valid is None and self.needs_groups:
                raise ValueError(
                    f"{type(self).__name__} needs valid: True where a candidate is a true negative"
                )
            positive, unlabeled = _in_one_precision(positive, unlabeled)
            counted = unlabeled.detach() != -torch.inf
            if valid is not None:
                counted = counted & valid
            if self.check_finite:
                check_finite("positive", positive)
                check_finite("unlabeled", unlabeled.masked_fill(~counted, 0))
            by_column = isinstance(log_q, Tensor) and log_q.ndim < 2
            shape = unlabeled.shape[1:] if by_column else unlabeled.shape
            log_qs = layouts.checked_log_q(positive_log_q, log_q, positive, shape)
            if log_qs is not None:
                positive = positive - log_qs[0].to(positive)
                unlabeled = unlabeled - log_qs[1].to(positive)
        # -inf under a mask would still turn products with zero gradients into NaN.
        unlabeled = unlabeled.masked_fill(~counted, 0)
        objective = self.objective(temperature)
        share = gathering.mean_share(len(positive))
        losses = logits_loss(objective, positive, unlabeled, valid=counted)
        return self.reduced(losses, share)

    def prepared(self, **embeddings: Tensor) -> list[Tensor]:
        """Check embeddings, convert half precision to float32 and scale to length 1 if asked.

        For your own layouts, in a class derived from a loss.

        Args:
            **embeddings: ``[rows, dim]``, under the names that error messages use; ``candidates``
                may also be ``[rows, candidates, dim]``.

        Raises:
            ValueError: if one is empty, has the wrong shape, or is not finite while
                ``check_finite`` is set.
        """
        return [self._scale(rows) for rows in self._check(**embeddings)]

    def _check(self, **embeddings: Tensor) -> list[Tensor]:
        """Check embeddings and bring them to one precision, for most engines at least float32."""
        device: torch.device | None = None
        for name, rows in embeddings.items():
            check_floating(name, rows, device)
            device = rows.device
            if rows.ndim not in ((2, 3) if name == "candidates" else (2,)):
                raise ValueError(f"{name} must have shape [rows, dim], got {list(rows.shape)}")
            if rows.numel() == 0:
                raise ValueError(f"{name} must not be empty, got shape {list(rows.shape)}")
            if self.check_finite:
                check_finite(name, rows)
        # The fused engine's kernels sum products of half precision in float32.
        return _in_one_precision(*embeddings.values(), half=self.engine == "fused")

    def _scale(self, rows: Tensor) -> Tensor:
        """Scale embeddings to length 1 if asked."""
        if not self.normalize:
            return rows
        with without_autocast(rows.device):
            if rows.dtype in (torch.float16, torch.bfloat16):
                return unit_vectors(rows.float()).to(rows.dtype)
            return unit_vectors(rows)

    def _begun(
        self,
        temperature: float | Tensor | None,
        labels: Tensor | None = None,
        indices: Tensor | None = None,
        **groups: Tensor | None,
    ) -> float | Tensor:
        """Return a call's temperature, or refuse arguments that this loss cannot use."""
        if labels is not None and not self.uses_labels:
            raise ValueError(
                f"labels must be None, because {type(self).__name__} cannot use some labels; "
                "LatentClassContrastiveLoss can, and groups= marks items that are never negatives"
            )
        self._require_groups(**groups)
        if self.denominators is None and indices is not None:
            raise ValueError(
                f"indices must be None, because this {type(self).__name__} keeps no denominators: "
                "make it with denominators=MovingDenominators(size)"
            )
        if self.denominators is not None and indices is None and self.training:
            raise ValueError(
                "indices must be given to train a loss with denominators; two views and in_batch "
                "take them"
            )
        if temperature is None:
            return self.current_temperature()
        if not isinstance(temperature, Tensor):
            return check_temperature(temperature)
        check_floating("temperature", temperature)
        check_shape("temperature", temperature, ())
        if is_eager_cpu(temperature) and temperature.item() <= 0:  # NaN makes NaN
            raise ValueError(f"temperature must be positive, got {temperature.item():g}")
        return temperature.to(torch.promote_types(temperature.dtype, torch.float32))

    def _require_groups(self, **groups: Tensor | None) -> None:
        """Refuse a call without groups if the loss is undefined without them."""
        for name, value in groups.items():
            if self.needs_groups and value is None:
                raise ValueError(f"{type(self).__name__} needs {name}: an integer label per row")

    def _with_indices(
        self, batch: ContrastiveBatch, indices: Tensor | None, items: int
    ) -> ContrastiveBatch:
        """Note which items of the data set a batch holds, if the loss keeps denominators."""
        if self.denominators is None or indices is None:
            return batch
        return replace(batch, indices=self.denominators.checked(indices, items))

    def informed(self, batch: ContrastiveBatch) -> ContrastiveBatch:
        """Return a batch with what the loss knows of its pairs, without remembering the batch."""
        return batch

    def current_temperature(self) -> float | Float[Tensor, ""]:
        """Return the temperature that the next call uses, with gradient if it is learnable."""
        if self.learnable_temperature is None:
            return self.temperature
        temperature: Tensor = self.learnable_temperature()
        return temperature

    def _evaluate(
        self, gathering: Gathering, batches: Sequence[ContrastiveBatch], temperature: float | Tensor
    ) -> Float[Tensor, "*anchors"]:
        """Compute and reduce the losses of one or more batches of one call."""
        informed = [self.informed(batch) for batch in batches]
        return self._losses_of(gathering, informed, temperature)

    def _losses_of(
        self, gathering: Gathering, batches: Sequence[ContrastiveBatch], temperature: float | Tensor
    ) -> Float[Tensor, "*anchors"]:
        """Compute and reduce the losses of batches with all that is known of their pairs."""
        batches = [layouts.corrected(batch, temperature) for batch in batches]
        batches, share = gathering.candidates_of_all(batches)
        parts = [self._per_anchor(batch, temperature) for batch in batches]
        moving, indices, fresh = self.denominators, batches[0].indices, None
        if moving is not None and indices is not None:
            with without_autocast(parts[0].device):
                parts, fresh = moving.moved(parts, batches, temperature)
        losses = parts[0] if len(parts) == 1 else torch.cat(parts)
        if self.check_finite:
            with gathering.refusals():
                self._check_finite_losses(losses, batches, temperature)
            gathering.go_on()
        if moving is not None and indices is not None and fresh is not None and self.training:
            moving.keep(indices, fresh, gathering)
        return self.reduced(losses, share)

    def _check_finite_losses(
        self, losses: Tensor, batches: Sequence[ContrastiveBatch], temperature: float | Tensor
    ) -> None:
        """Refuse logits that were not finite, although the embeddings were."""
        bad = int((~losses.detach().isfinite()).sum())
        if bad:
            scale = torch.as_tensor(temperature).detach().item()
            largest = max(float(batch.candidates.detach().abs().max()) for batch in batches)
            raise ValueError(
                f"logits must be finite, got NaN or infinity for {bad} of {len(losses)} anchors: "
                f"coordinates reach {largest:.3g}, and the temperature is {scale:.3g}"
            )

    def _per_anchor(self, batch: ContrastiveBatch, temperature: float | Tensor) -> Tensor:
        # Ranks and sums need float32: among 4,096 cosines bfloat16 tells some 1,350 apart.
        with without_autocast(batch.anchors.device):
            losses, engine = per_anchor_losses(
                batch,
                temperature,
                partial(self.objective_in, batch.layout),
                engine=self.engine,
                uniform=self.reduction != "none" and batch.indices is None,
                chunk_size=self.chunk_size,
            )
        if self.engine_used != engine:  # a module's attributes are slow to set
            self.engine_used = engine
        return losses

    def reduced(
        self, losses: Float[Tensor, " anchors"], share: float = 1.0
    ) -> Float[Tensor, "*anchors"]:
        """Return the losses' mean times ``share``, their sum, or the losses themselves."""
        if self.reduction == "mean":
            mean = losses.mean()
            return mean if share == 1 else mean * share
        return losses.sum() if self.reduction == "sum" else losses

    def get_extra_state(self) -> dict[str, float]:
        """Return the hyper-parameters for ``state_dict``; plain floats, not tensors."""
        return {name: float(getattr(self, name)) for name in ("temperature", *self.hyperparameters)}

    def set_extra_state(self, state: Any) -> None:
        """Take the hyper-parameters out of a ``state_dict``, or raise ``ValueError``."""
        names = ("temperature", *self.hyperparameters)
        values = state_numbers(type(self).__name__, state, names)
        for name, value in values.items():
            # A learnable temperature is a parameter, and comes with the parameters.
            if name != "temperature" or self.learnable_temperature is None:
                setattr(self, name, value)

    def extra_repr(self) -> str:
        """Show every setting."""
        shown = {name: f"{getattr(self, name):g}" for name in self.hyperparameters}
        if self.learnable_temperature is None:
            shown["temperature"] = f"{self.temperature:g}"
        shown |= {"normalize": str(self.normalize), "reduction": repr(self.reduction)}
        return ", ".join(f"{name}={value}" for name, value in shown.items())


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Context that turns autocast off; a no-op if it is off already, to save time."""
    if not torch.is_autocast_enabled(device.type):
        return nullcontext()
    return torch.autocast(device.type, enabled=False)


def _in_one_precision(*tensors: Tensor, half: bool = False) -> list[Tensor]:
    """Bring tensors to their common precision; half precision to float32 unless it may stay."""
    dtype = tensors[0].dtype if half else torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor if tensor.dtype == dtype else tensor.to(dtype) for tensor in tensors]
