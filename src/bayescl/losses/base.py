"""The shared body of every loss: layouts, masks, precision, reduction, engine."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from typing_extensions import TypedDict

from bayescl import batch as layouts
from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.batch import Batch
from bayescl.checks import (
    check_choice,
    check_count,
    check_finite,
    check_floating,
    check_shape,
    check_tensor,
    is_eager_cpu,
)
from bayescl.engine import (
    ENGINES,
    Engine,
    blocked_losses,
    losses_of_logits,
    reference_losses,
)
from bayescl.functional.objective import Maskless, Objective, takes_mask
from bayescl.functional.similarity import unit_vectors
from bayescl.losses.gathering import Gathering
from bayescl.losses.margin import Guide, Margin, within_margin
from bayescl.losses.parameters import LearnableTemperature, check_temperature, state_numbers

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


_OTHER_NAMES = dict.fromkeys(("tau", "t", "scale", "logit_scale", "softmax_scale"), "temperature")
"""What other libraries call the shared arguments. A scale multiplies: it is 1 / temperature."""

_SOFTEST = 5.0  # temperature above which somebody may have meant a scale
_FEW_CANDIDATES = 16  # below which most anchors of a batch of few domains learn little
_LOOKS = 10  # calls in which the candidates of each domain are counted


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
        engine: ``"blocked"``; ``"reference"``, which can be differentiated any number of times; or
            ``"auto"`` for the reference under ``torch.compile`` and ``torch.func`` transforms, and
            the blocked engine otherwise.
        chunk_size: anchors at a time on the blocked engine; default: chosen for the device.
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

    other_names: ClassVar[Mapping[str, str]] = {}
    """Arguments by the names that they have elsewhere, for messages."""

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
        **unknown: Any,
    ) -> None:
        super().__init__()
        for name in unknown:
            word = {**_OTHER_NAMES, **self.other_names}.get(name)
            hint = "" if word is None else f": it is called {word} here"
            raise TypeError(f"{type(self).__name__} has no argument {name!r}{hint}")
        check_choice("reduction", reduction, ("mean", "sum", "none"))
        check_choice("engine", engine, ENGINES)
        if chunk_size is not None:
            check_count("chunk_size", chunk_size, 1)
        if objective is not None and not takes_mask(objective):
            objective = Maskless(objective)
        self._objective = objective
        self.learnable_temperature: LearnableTemperature | None = None
        if isinstance(temperature, LearnableTemperature):
            self.learnable_temperature = temperature
        else:
            self.temperature = temperature
            if self.temperature > _SOFTEST:
                warnings.warn(
                    f"temperature={temperature:g} divides similarities: usual values are 0.05 to "
                    "1. A scale that multiplies them is 1 / temperature",
                    stacklevel=3,
                )
        self.normalize = normalize
        self.reduction = reduction
        self.engine = engine
        self.chunk_size = chunk_size
        self.gather = gather
        self.check_finite = check_finite
        self._calls_with_domains = 0
        self._has_warned_of_candidates = False

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

    def forward(
        self,
        view_1: Float[Tensor, "batch dim"],
        view_2: Float[Tensor, "batch dim"],
        *,
        groups: Int[Tensor, " batch *keys"] | None = None,
        domains: Int[Tensor, " batch *keys"] | None = None,
        labels: Int[Tensor, " batch"] | None = None,
        audit: Int[Tensor, " batch"] | None = None,
        valid: Bool[Tensor, "two_batch two_batch"] | None = None,
        margin: Margin | None = None,
        guide: Guide | None = None,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the loss of two views of a batch, as SimCLR does.

        Each of the ``2 batch`` rows is an anchor, its other view is the positive, and the other
        ``2 batch - 2`` rows are the candidates.

        Args:
            view_1: embeddings of the first views.
            view_2: embeddings of the second views of the same items, in the same order.
            groups: one integer per item; items of one group are never each other's negatives, and
                -1 is in no group. With several, ``[batch, keys]``, one equal key is enough.
            domains: one integer per item for a nuisance that you know: its batch, speaker, device
                or day. Only items of the anchor's own domain are its candidates, so the loss has no
                reason to tell domains apart. -1 is unknown: a candidate for all. With several,
                ``[batch, keys]``, all must be equal.
            labels: class of each item, -1 where it is not known; only for a loss that can use some
                labels, as :class:`~bayescl.losses.LatentClassContrastiveLoss` does.
            audit: class of each item, -1 where it is not known, for a loss that can measure itself
                on labels that it does not train with.
            valid: True where a pair of rows of ``torch.cat([view_1, view_2])`` may count. With
                ``gather``, columns are both views of rank 0, then both views of rank 1, and so on.
            margin: leaves out candidates that score like the positive; see
                :class:`~bayescl.Margin`.
            guide: embeddings of both views by another model, by which the margin judges instead.
                Not with ``gather``.
            temperature: used for this call instead of the loss's own; a one-element tensor receives
                a gradient.

        Returns:
            A scalar, or with ``reduction="none"`` one value per anchor: first view_1, then view_2.

        Raises:
            ValueError: if shapes do not match or no row has a candidate; with ``gather``, on all
                processes if on any.
            RuntimeError: with ``gather``, if there is no process group.

        Reference:
            For ``domains``: Tsai et al., "Conditional Contrastive Learning for Improving Fairness
            in Self-Supervised Learning", 2021.
        """
        gathering = Gathering.of("two views", self.gather)
        with gathering.synchronized_errors():
            temperature = self._validate_call(temperature, labels, audit, groups=groups)
            view_1, view_2 = self._check(view_1=view_1, view_2=view_2)
            batch = layouts.two_views(
                view_1,
                view_2,
                valid=valid,
                gather=gathering.active,
                scale=self._scale,
                groups=groups,
                domains=domains,
                labels=labels,
                audit=audit,
            )
        return self._evaluate(gathering, batch, temperature, margin, guide)

    def in_batch(
        self,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "pairs dim"],
        *,
        anchor_of: Int[Tensor, " pairs"] | None = None,
        positive_weight: Float[Tensor, " pairs"] | None = None,
        extra: Float[Tensor, "*own extra dim"] | None = None,
        groups: Int[Tensor, " pairs *keys"] | None = None,
        extra_groups: Int[Tensor, "*own_extra_keys"] | None = None,
        domains: Int[Tensor, " pairs *keys"] | None = None,
        extra_domains: Int[Tensor, "*own_extra_keys"] | None = None,
        labels: Int[Tensor, " pairs"] | None = None,
        extra_labels: Int[Tensor, "*own extra"] | None = None,
        audit: Int[Tensor, " pairs"] | None = None,
        valid: Bool[Tensor, "batch columns"] | None = None,
        margin: Margin | None = None,
        guide: Guide | None = None,
        log_q: Float[Tensor, " columns"] | None = None,
        anchor_log_q: Float[Tensor, " batch"] | None = None,
        both_directions: bool = False,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*pairs"]:
        """Compute the loss of pairs whose candidates are the other pairs' positives.

        This is the layout of retrieval, CLIP and two-tower recommenders.

        Args:
            anchors: embeddings of users, queries or images.
            positives: embeddings of each anchor's item, document or caption, in the same order.
            anchor_of: for several positives per anchor, the row of ``anchors`` that each positive
                belongs to. An anchor's positives are never its negatives.
            positive_weight: of each pair's loss, not negative; the mean is then a weighted one.
                Default: 1.
            extra: further candidates, such as mined hard negatives: for every anchor, or
                ``[batch, extra, dim]`` if each anchor has its own.
            groups: one integer per pair; pairs of one group (the same item, say) are never each
                other's negatives, and -1 is in no group. With several, ``[pairs, keys]`` (for query
                and document, say), one equal key is enough. Of an anchor with several positives,
                what is known of its first holds.
            extra_groups: the groups of ``extra``, shaped like ``extra`` without ``dim`` (with
                ``keys`` in its place), if known.
            domains: one integer per pair, as in :meth:`forward`.
            extra_domains: the domains of ``extra``. Default: not known.
            labels: class of each pair, as in :meth:`forward`.
            extra_labels: the classes of ``extra``. Default: not known.
            audit: class of each pair that only measures, as in :meth:`forward`.
            valid: True where an anchor (row) may be scored against a candidate (column); columns
                are ``positives``, then ``extra``. With ``gather``, columns are the positives of all
                processes by rank, then the shared ``extra`` of all, and ``both_directions`` must be
                False. The entry of an anchor and its own positive is ignored.
            margin: leaves out candidates that score like the positive; ``extra`` is exempt unless
                the margin says otherwise. See :class:`~bayescl.Margin`.
            guide: embeddings of ``anchors``, ``positives`` (and ``extra``, if it is judged) by
                another model, by which the margin judges instead. Not with ``gather``.
            log_q: log probability that a row is sampled, of this process's ``positives``, then
                shared ``extra``; it is subtracted from the row's logits, as a positive and as a
                candidate. In-batch candidates need it if some items are in many pairs, since
                popular ones are sampled more often: pass the log of an item's share of the pairs.
                Not differentiated. Default: no correction.
            anchor_log_q: the same of the anchors, for the second direction.
            both_directions: whether every positive is also an anchor against all anchors, as in
                CLIP. ``extra`` does not take part in the second direction.
            temperature: of this call. The errors are those of :meth:`forward`.

        Returns:
            A scalar, or with ``reduction="none"`` one value per pair; with both directions, the
            anchors' values come before the positives'.

        Reference:
            For ``log_q``: Yi et al., "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item
            Recommendations", RecSys 2019.
        """
        gathering = Gathering.of("in_batch", self.gather)
        with gathering.synchronized_errors():
            temperature = self._validate_call(temperature, labels, audit, groups=groups)
            of_extra = {"groups": extra_groups, "domains": extra_domains, "labels": extra_labels}
            given = {"anchors": anchors, "positives": positives}
            if extra is not None:
                self._require_groups(extra_groups=extra_groups)
                given["extra"] = extra
            else:
                for name, part in of_extra.items():
                    if part is not None:
                        raise ValueError(f"extra_{name} needs extra")
            anchors, positives, *more = (self._scale(rows) for rows in self._check(**given))
            batch = layouts.in_batch(
                anchors,
                positives,
                anchor_of=anchor_of,
                extra=more[0] if more else None,
                valid=valid,
                log_q=log_q,
                gather=gathering.active,
                of_extra=of_extra,
                groups=groups,
                domains=domains,
                labels=labels,
                audit=audit,
            )
            batch = self._weighted(batch, positive_weight)
            if anchor_log_q is not None and not both_directions:
                raise ValueError("anchor_log_q needs both_directions")
            if both_directions and len(anchors) < 2 and not gathering.active:
                raise ValueError(
                    "anchors must hold at least 2 rows, got 1: a positive has no candidates"
                )
            if both_directions and valid is not None:
                if gathering.active:
                    raise ValueError(
                        "valid must be None if both_directions and gather are set: this process's "
                        "mask does not say which anchors of other processes its positives may be "
                        "scored against; mark pairs with groups instead"
                    )
                valid = valid[:, : len(positives)].T
        return self._evaluate(
            gathering, batch, temperature, margin, guide,
            (valid, anchor_log_q) if both_directions else None,
        )  # fmt: skip

    def sampled(
        self,
        anchors: Float[Tensor, "batch dim"],
        positives: Float[Tensor, "pairs dim"] | Int[Tensor, " pairs"],
        candidates: Float[Tensor, "*own candidates dim"],
        *,
        anchor_of: Int[Tensor, " pairs"] | None = None,
        positive_weight: Float[Tensor, " pairs"] | None = None,
        groups: Int[Tensor, " batch *keys"] | None = None,
        candidate_groups: Int[Tensor, "*own_candidates_keys"] | None = None,
        domains: Int[Tensor, " batch *keys"] | None = None,
        candidate_domains: Int[Tensor, "*own_candidates_keys"] | None = None,
        labels: Int[Tensor, " batch"] | None = None,
        candidate_labels: Int[Tensor, "*own candidates"] | None = None,
        audit: Int[Tensor, " batch"] | None = None,
        valid: Bool[Tensor, "batch candidates"] | None = None,
        margin: Margin | None = None,
        guide: Guide | None = None,
        log_q: Float[Tensor, "*own candidates"] | None = None,
        positive_log_q: Float[Tensor, " pairs"] | None = None,
        gather_candidates: bool = True,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*pairs"]:
        """Compute the loss of pairs with drawn candidates.

        Args:
            anchors: embeddings of users or queries.
            positives: embeddings of each anchor's item, in the same order; or, with ``anchor_of``,
                the items' places among shared ``candidates`` of this process, which are then not
                the anchor's candidates: nothing of size pairs times ``dim`` is computed.
            candidates: ``[batch, candidates, dim]`` if each anchor has its own, or
                ``[candidates, dim]`` if all anchors share them. With ``gather``, shared candidates
                are shared by all processes, which should then draw different ones; an anchor's own
                are not gathered.
            anchor_of: for several positives per anchor, the row of ``anchors`` that each positive
                belongs to. Logits, ranks and sums are computed once for all positives of an anchor:
                one row for each user instead of each of its items. Mark in ``valid`` or groups
                which candidates are positives.
            positive_weight: of each pair's loss; see :meth:`in_batch`.
            groups: one integer per anchor, or several, ``[batch, keys]``; -1 is in no group.
            candidate_groups: one integer per candidate, shaped like ``candidates`` without ``dim``
                (or with ``keys`` in its place). A candidate that shares a key with the anchor does
                not count.
            domains: one integer per anchor, as in :meth:`forward`.
            candidate_domains: the domain of each candidate. Default: not known.
            labels: class of each anchor, as in :meth:`forward`.
            candidate_labels: class of each candidate. Default: not known.
            audit: class of each anchor that only measures, as in :meth:`forward`.
            valid: True where a candidate counts for an anchor; with ``gather``, columns are the
                candidates of rank 0, then those of rank 1, and so on.
            margin: leaves out candidates that score like the positive; see
                :class:`~bayescl.Margin`.
            guide: embeddings of ``anchors``, ``positives`` and ``candidates`` by another model, by
                which the margin judges instead. Not with ``gather``.
            log_q: log probability that a candidate is sampled, shaped like ``candidates`` without
                ``dim``; it is subtracted from the candidate's logits. See :meth:`in_batch`.
            positive_log_q: the same of each positive; given together with ``log_q``.
            gather_candidates: with ``gather``, whether shared candidates come from all processes.
                False if every process has drawn the same ones: then only what the mean over all
                pairs and a memory need is sent.
            temperature: of this call. The result is that of :meth:`in_batch`, and the errors are
                those of :meth:`forward`.
        """
        gathering = Gathering.of("sampled", self.gather, candidates=gather_candidates)
        with gathering.synchronized_errors():
            temperature = self._validate_call(temperature, labels, audit, groups=groups)
            given = {"anchors": anchors, "positives": positives, "candidates": candidates}
            check_tensor("positives", positives)
            place = {} if positives.is_floating_point() else {"positives": given.pop("positives")}
            rows = dict(zip(given, map(self._scale, self._check(**given)), strict=True)) | place
            batch = layouts.sampled(
                **rows,
                anchor_of=anchor_of,
                valid=valid,
                log_q=log_q,
                positive_log_q=positive_log_q,
                gather=gathering.active and gather_candidates,
                of_candidates={
                    "groups": candidate_groups,
                    "domains": candidate_domains,
                    "labels": candidate_labels,
                },
                groups=groups,
                domains=domains,
                labels=labels,
                audit=audit,
            )
            batch = self._weighted(batch, positive_weight)
        return self._evaluate(gathering, batch, temperature, margin, guide)

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
        with gathering.synchronized_errors():
            temperature = self._validate_call(temperature)
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
            layouts.check_together(log_q, positive_log_q)
            if log_q is not None and positive_log_q is not None:
                layouts.check_log_q("log_q", log_q, positive, shape)
                layouts.check_log_q("positive_log_q", positive_log_q, positive, positive.shape)
                if self.check_finite:
                    check_finite("log_q", log_q.expand_as(unlabeled).masked_fill(~counted, 0))
                    check_finite("positive_log_q", positive_log_q)
                positive = positive - positive_log_q.detach().to(positive)
                unlabeled = unlabeled - log_q.detach().to(positive)
        # -inf under a mask would still turn products with zero gradients into NaN.
        unlabeled = unlabeled.masked_fill(~counted, 0)
        objective = self.objective(temperature)
        share = gathering.mean_share(len(positive))
        losses = losses_of_logits(objective, positive, unlabeled, valid=counted)
        return self.reduced(losses, share)

    def _check(self, **embeddings: Tensor) -> list[Tensor]:
        """Check embeddings and bring them to one precision, at least float32."""
        device: torch.device | None = None
        first, same = next(iter(embeddings.values())), True
        for name, rows in embeddings.items():
            check_floating(name, rows, device)
            device = rows.device
            if rows.ndim not in ((2, 3) if name in ("candidates", "extra") else (2,)):
                raise ValueError(f"{name} must have shape [rows, dim], got {list(rows.shape)}")
            if rows.numel() == 0:
                raise ValueError(f"{name} must not be empty, got shape {list(rows.shape)}")
            if self.check_finite:
                check_finite(name, rows)
            same = same and rows.dtype == first.dtype
        parts = list(embeddings.values())
        if same and first.dtype in (torch.float32, torch.float64):
            return parts
        return _in_one_precision(*parts)

    def _scale(self, rows: Tensor) -> Tensor:
        """Scale embeddings to length 1 if asked."""
        if not self.normalize:
            return rows
        with without_autocast(rows.device):
            return unit_vectors(rows)

    def _validate_call(
        self,
        temperature: float | Tensor | None,
        labels: Tensor | None = None,
        audit: Tensor | None = None,
        **groups: Tensor | None,
    ) -> float | Tensor:
        """Return a call's temperature, or refuse arguments that this loss cannot use."""
        if not self.uses_labels and (labels is not None or audit is not None):
            name = "audit" if labels is None else "labels"
            raise ValueError(
                f"{name} must be None, because {type(self).__name__} cannot use some labels; "
                "LatentClassContrastiveLoss can, and groups= marks items that are never negatives"
            )
        if self.needs_groups:
            self._require_groups(**groups)
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

    def _weighted(self, batch: Batch, weight: Tensor | None) -> Batch:
        """The batch with a weight of each pair's loss."""
        if weight is None:
            return batch
        rows = batch.positives.embeddings
        check_floating("positive_weight", weight, rows.device)
        check_shape("positive_weight", weight, rows.shape[:1])
        if is_eager_cpu(weight) and not (bool((weight >= 0).all()) and bool(weight.any())):
            raise ValueError("positive_weight must not be negative, nor 0 everywhere")
        return replace(batch, weight=weight.detach().to(rows.dtype))

    def with_posterior(self, batch: Batch, gathering: Gathering | None = None) -> Batch:
        """Return a batch with what the loss knows of its pairs.

        One of two methods to override in a new loss, beside :meth:`objective`.

        Args:
            batch: this process's part, before other processes' candidates are gathered.
            gathering: the call of a loss; None to learn nothing from the batch.
        """
        del gathering
        return batch

    def current_temperature(self) -> float | Float[Tensor, ""]:
        """Return the temperature that the next call uses, with gradient if it is learnable."""
        if self.learnable_temperature is None:
            return self._temperature
        temperature: Tensor = self.learnable_temperature()
        return temperature

    def _evaluate(
        self,
        gathering: Gathering,
        batch: Batch,
        temperature: float | Tensor,
        margin: Margin | None = None,
        guide: Guide | None = None,
        reverse: tuple[Tensor | None, Tensor | None] | None = None,
    ) -> Float[Tensor, "*pairs"]:
        """Compute and reduce the losses of a batch, and of its second direction if asked."""
        with gathering.synchronized_errors():
            if margin is None and guide is not None:
                raise ValueError("guide needs margin")
            if margin is not None and not isinstance(margin, Margin):
                raise TypeError(f"margin must be a Margin, got {type(margin).__name__}")
            if guide is not None and not isinstance(guide, tuple | list):
                raise TypeError(f"guide must be a tuple of tensors, got {type(guide).__name__}")
            if guide is not None and gathering.active:
                raise ValueError("guide must be None with gather: its embeddings are not gathered")
        batch = self.with_posterior(batch, gathering)
        batches = [batch]
        if reverse is not None:
            with gathering.synchronized_errors():
                batches.append(layouts.reversed_pairs(batch, *reverse))
        weight = 0.0
        if gathering.active or batch.weight is not None:
            for part in batches:
                weight += float(len(part.positives) if part.weight is None else part.weight.sum())
        share = 1.0
        if gathering.active:
            batches, share = gathering.gather_candidates(batches, weight, temperature)
        if margin is not None:
            with without_autocast(batch.anchors.embeddings.device):
                batches[0] = within_margin(batches[0], margin, guide)
                if len(batches) > 1:
                    turned = None if guide is None else (guide[1], guide[0])
                    batches[1] = within_margin(batches[1], margin, turned)
        losses = self._losses_of(batches[0], temperature)
        if len(batches) > 1:
            losses = torch.cat([losses, self._losses_of(batches[1], temperature)])
        if self.check_finite:
            with gathering.synchronized_errors():
                self._check_finite_losses(losses, batches, temperature)
                self._look_at_candidates(losses, batches[0])
            gathering.raise_peer_errors()
        elif not torch.compiler.is_compiling():
            self._look_at_candidates(losses, batches[0])
        if batch.weight is not None and self.reduction == "mean":
            return losses.sum() / weight * share
        return self.reduced(losses, share)

    def _losses_of(self, batch: Batch, temperature: float | Tensor) -> Float[Tensor, " pairs"]:
        """Compute one loss per pair of a batch, with all that is known."""
        batch = batch.corrected(temperature)
        traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
        # Ranks and sums need float32: among 4,096 cosines bfloat16 tells some 1,350 apart.
        with without_autocast(batch.anchors.embeddings.device):
            if self.engine == "reference" or (traced and self.engine == "auto"):
                return reference_losses(batch, temperature, self.objective)
            return blocked_losses(
                batch,
                temperature,
                self.objective,
                shared_upstream=self.reduction != "none",
                chunk_size=self.chunk_size,
            )

    def _check_finite_losses(
        self, losses: Tensor, batches: Sequence[Batch], temperature: float | Tensor
    ) -> None:
        """Refuse logits that were not finite, although the embeddings were."""
        bad = int((~losses.detach().isfinite()).sum())
        if bad == 0:
            return
        rows = [part for batch in batches for part in (batch.positives, *batch.columns)]
        for part in rows:
            if part.log_q is not None:
                check_finite("log_q", part.log_q)
        scale = torch.as_tensor(temperature).detach().item()
        largest = max(float(part.embeddings.detach().abs().max()) for part in rows)
        raise ValueError(
            f"logits must be finite, got NaN or infinity for {bad} of {len(losses)} pairs: "
            f"coordinates reach {largest:.3g}, and the temperature is {scale:.3g}"
        )

    def _look_at_candidates(self, losses: Tensor, batch: Batch) -> None:
        """Warn once if few anchors have candidates; raise with ``check_finite`` if none has."""
        if self._has_warned_of_candidates or not is_eager_cpu(losses):
            return
        reason = None
        values = losses.detach()
        if values[0].item() == 0 and not values.any():  # the first nearly always tells
            mask = batch.mask()
            if mask is not None and not mask.any():
                reason = "no anchor has a candidate, so the loss and its gradient are 0"
                if self.check_finite:
                    raise ValueError(reason)
        if batch.anchors.domains is not None and self._calls_with_domains < _LOOKS:
            self._calls_with_domains += 1
            mask = batch.mask()
            if mask is not None and mask.sum(dim=1).float().median() < _FEW_CANDIDATES:
                reason = reason or (
                    f"most anchors have fewer than {_FEW_CANDIDATES} candidates of their own "
                    "domain in a batch; draw batches of few domains with DomainBatchSampler"
                )
        if reason is not None:
            self._has_warned_of_candidates = True
            warnings.warn(reason, stacklevel=4)

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


def _in_one_precision(*tensors: Tensor) -> list[Tensor]:
    """Bring tensors to their common precision, at least float32."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return [tensor if tensor.dtype == dtype else tensor.to(dtype) for tensor in tensors]
