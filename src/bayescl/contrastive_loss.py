"""Base class of all losses: settings, four calls, and the evaluation of a batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from torch.nn import functional as F

from bayescl import distributed
from bayescl._arguments import (
    batch_of_views,
    check_logits,
    check_valid,
    checked_anchor_of,
    checked_candidates,
    checked_embeddings,
    checked_positive_indices,
    checked_target,
    checked_weight,
    first_of_each,
    with_metadata,
)
from bayescl._checks import (
    check_choice,
    check_count,
    check_finite,
    check_flag,
    check_shape,
    check_tensor,
    is_eager_cpu,
    is_traced,
)
from bayescl._engine import ENGINES, Engine, fused_losses
from bayescl._engine.blocked import blocked_losses
from bayescl._engine.reference import losses_of_logits, reference_losses
from bayescl._ops.objective import Objective
from bayescl._ops.similarity import unit_vectors
from bayescl._ops.target import check_positive_share
from bayescl._steps import (
    corrected,
    gathered,
    mean_factor,
    refuse_not_finite,
    reversed_pairs,
    total_weight,
    with_zeroed_rows,
)
from bayescl._types import Bool, Float, Int, Tensor
from bayescl.batch import Batch, TargetRule
from bayescl.margin import Margin, check_margin, within_margin
from bayescl.rows import Rows
from bayescl.temperature import LearnableTemperature, check_call_temperature, check_temperature

Reduction = Literal["mean", "sum", "none"]

_LARGEST_USUAL_TEMPERATURE = 5.0
"""Above this value, the caller probably passed a scale, which multiplies. The cosine of a pair then
moves its logit by less than 0.4, and the softmax is almost uniform."""

_FEW_CANDIDATES = 16
"""Number of candidates below which a warning is given: a rule of thumb, not a measured value."""

_COUNTED_CALLS = 10
"""Number of calls with ``domains`` in which candidates are counted: the first ones suffice for the
warning, and the mask costs time."""


class ContrastiveLoss(nn.Module):
    """A contrastive loss around an objective on logits.

    The named losses derive from this class. To try your own weighting, pass any function of logits
    that returns one loss per anchor.

    Args:
        objective: Function called as ``objective(positive, unlabeled, valid=mask)`` with logits
            ``[anchors]`` and ``[anchors, candidates]`` and a boolean mask or ``None``. It returns
            ``[anchors]``.
        temperature: Temperature of the softmax, positive, or a
            :class:`~bayescl.LearnableTemperature`. Default: 0.5.
        positive_share: Target probability that the positive keeps, in (0, 1], if a call has a
            ``teacher`` or ``labels``; the candidates share the rest. 1 turns soft targets off. If
            ``None``, the positive counts as one more candidate, of similarity 1. Default: 0.5.
        teacher_temperature: Temperature of the teacher's softmax, positive. Default: the loss's
            own temperature.
        normalize: Whether embeddings are scaled to length 1, so that similarities are cosines.
            Otherwise they are inner products. Default: True.
        reduction: ``"mean"`` or ``"sum"`` over pairs, or ``"none"``. Default: ``"mean"``.
        engine: ``"blocked"``, which computes a few anchors at a time; ``"reference"``, which can be
            differentiated any number of times; or ``"auto"``, which uses the reference under
            ``torch.compile`` and ``torch.func`` transforms and the blocked engine otherwise.
            ``"fused"`` uses Triton kernels on a GPU where they apply, and has not been measured
            yet. Default: ``"auto"``.
        chunk_size: Number of anchors at a time in the blocked engine. Default: chosen for the
            device.
        gather: Whether anchors are scored against the candidates of all processes of the default
            process group. Gradients flow back to the candidates' processes, and batches may
            differ in size. The processes' means average to the mean over all pairs, so gradients
            averaged over processes, as by ``DistributedDataParallel``, equal the gradients of one
            process with the whole batch. With ``reduction="sum"``, the sums add up to the sum of
            the whole batch. If settings differ between processes or the input of a process is
            invalid, all processes raise the same error. An objective of your own that raises on one
            process is not covered: the others wait until the process group ends. Default: False.
        check_finite: Whether to check embeddings and logits for NaN and infinity and raise an error
            that names the cause. This synchronizes with the device. Otherwise the loss of an anchor
            is NaN if its logits are not finite. Rows that ``valid`` or ``margin`` excludes may
            contain NaN or infinity. Default: False.

    Raises:
        ValueError: if an argument is out of range.

    Example:
        >>> from bayescl.functional import info_nce_loss
        >>> loss = ContrastiveLoss(info_nce_loss, temperature=0.5)
        >>> view_1, view_2 = torch.eye(3), torch.eye(3)
        >>> loss(view_1, view_2)
        tensor(0.4327)
        >>> loss(view_1, view_2, teacher=torch.eye(3))  # half of the target is shared
        tensor(1.4327)
    """

    needs_groups = False
    """Whether the loss is undefined without ``groups``."""

    needs_labels = False
    """Whether the loss is undefined without ``labels``."""

    hyperparameters: ClassVar[Mapping[str, Callable[[Any], float | None]]] = {
        "temperature": check_temperature,
        "positive_share": check_positive_share,
    }
    """Numbers that may be changed during training, and the check of each. They are saved in
    ``state_dict`` and shown in ``repr``."""

    positive_share: float | None
    learnable_temperature: LearnableTemperature | None

    def __init__(
        self,
        objective: Objective | None = None,
        *,
        temperature: float | LearnableTemperature = 0.5,
        positive_share: float | None = 0.5,
        teacher_temperature: float | None = None,
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
        check_flag("normalize", normalize)
        check_flag("gather", gather)
        check_flag("check_finite", check_finite)
        if chunk_size is not None:
            check_count("chunk_size", chunk_size, 1)
        if teacher_temperature is not None:
            teacher_temperature = check_temperature(teacher_temperature, "teacher_temperature")
        self._objective = objective
        if isinstance(temperature, LearnableTemperature):
            self.learnable_temperature = temperature
        else:
            self.learnable_temperature, self.temperature = None, temperature
            if self.temperature > _LARGEST_USUAL_TEMPERATURE:
                warnings.warn(
                    f"temperature={temperature:g} divides similarities: usual values are 0.05 to "
                    "1. For a scale that multiplies them, pass 1 / scale",
                    stacklevel=3,
                )
        self.positive_share = positive_share
        self.teacher_temperature = teacher_temperature
        self.normalize = normalize
        self.reduction = reduction
        self.engine = engine
        self.chunk_size = chunk_size
        self.gather = gather
        self.check_finite = check_finite
        self._given_warnings: set[str] = set()
        self._counted_calls = 0

    def objective(self, temperature: float | Tensor) -> Objective:
        """Return the objective on logits at a temperature. A new loss overrides this method."""
        del temperature  # an objective passed in does not depend on it
        if self._objective is None:
            raise TypeError(f"{type(self).__name__} needs an objective: pass a function of logits")
        return self._objective

    # ------------------------------------------------------------------ settings

    def __setattr__(self, name: str, value: Any) -> None:
        """Check a hyper-parameter before it is set."""
        if name in self.hyperparameters:
            value = self.hyperparameters[name](value)
        super().__setattr__(name, value)

    @property
    def temperature(self) -> float:
        """Current temperature. Setting it also sets the parameter of a learnable temperature."""
        if self.learnable_temperature is None:
            return self._temperature
        return float(self.learnable_temperature().detach())

    @temperature.setter
    def temperature(self, value: float) -> None:
        if self.learnable_temperature is None:
            self._temperature = value
        else:
            self.learnable_temperature.set(value)

    def current_temperature(
        self, given: float | Float[Tensor, ""] | None = None
    ) -> float | Float[Tensor, ""]:
        """Return the temperature of a call, with gradient if it is learnable.

        Args:
            given: Temperature passed to the call, a positive number or a 0-d tensor, which is
                returned at least in float32. Default: the loss's own temperature.

        Raises:
            ValueError: if ``given`` is not positive.
        """
        if given is not None:
            return check_call_temperature(given)
        if self.learnable_temperature is None:
            return self._temperature
        temperature: Tensor = self.learnable_temperature()
        return temperature

    def get_extra_state(self) -> dict[str, float]:
        """Return the hyper-parameters, which are saved in ``state_dict``."""
        values = {name: getattr(self, name) for name in self.hyperparameters}
        return {name: float(value) for name, value in values.items() if value is not None}

    def set_extra_state(self, state: Any) -> None:
        """Restore the hyper-parameters from a ``state_dict``, or raise ``ValueError``."""
        names = self.get_extra_state()
        if not isinstance(state, Mapping) or any(name not in state for name in names):
            found = sorted(map(str, state)) if isinstance(state, Mapping) else type(state).__name__
            raise ValueError(
                f"the state of {type(self).__name__} must contain the numbers "
                f"{', '.join(names)}, got {found}"
            )
        for name in names:
            # A learnable temperature is a parameter, and comes with the parameters.
            if name != "temperature" or self.learnable_temperature is None:
                setattr(self, name, state[name])

    def extra_repr(self) -> str:
        """Show main settings."""
        numbers = self.get_extra_state()
        if self.learnable_temperature is not None:
            del numbers["temperature"]
        shown = {name: f"{value:g}" for name, value in numbers.items()}
        shown |= {"normalize": str(self.normalize), "reduction": repr(self.reduction)}
        return ", ".join(f"{name}={value}" for name, value in shown.items())

    # ------------------------------------------------------------------ calls

    def forward(
        self,
        view_1: Float[Tensor, "batch dim"],
        view_2: Float[Tensor, "batch dim"],
        *others: Float[Tensor, "batch dim"],
        teacher: Float[Tensor, "batch teacher_dim"] | None = None,
        groups: Int[Tensor, " batch *keys"] | None = None,
        domains: Int[Tensor, " batch *keys"] | None = None,
        labels: Int[Tensor, " batch"] | Float[Tensor, "batch classes"] | None = None,
        target: Float[Tensor, "anchors anchors"] | None = None,
        valid: Bool[Tensor, "anchors anchors"] | None = None,
        margin: Margin | None = None,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*pairs"]:
        """Compute the loss of two or more views of a batch, as SimCLR does.

        Each of the ``2 batch`` rows is an anchor. Its other view is the positive, and the other
        ``2 batch - 2`` rows are the candidates. With more views, every other view of the item is a
        positive, and the rows of all other items are the candidates.

        Args:
            view_1: Embeddings of the first view of each item.
            view_2: Embeddings of the second view of each item, in the same order.
            *others: Embeddings of further views.
            teacher: Embeddings that define the similarity of items: usually embeddings of the
                unaugmented items by the same network, computed without gradient. Any other model
                works too. A part ``1 - positive_share`` of the target probability goes to the
                candidates, by a softmax of the teacher's cosines. An item with a row of
                zeros neither gives nor gets target probability. Not differentiated. Default: no
                soft target.
            groups: Integer per item, or several, ``[batch, keys]``. Items that share a key are
                never negatives of each other. -1 belongs to no group.
            domains: Integer per item for a known nuisance, such as lab batch, speaker, device or
                day; or several, ``[batch, keys]``. Only items of the anchor's domain (equal in all
                keys) are its candidates, so separating domains does not lower the loss. -1 is
                unknown and matches every domain.
            labels: Class of each item, -1 if unknown. An item with the anchor's label is a
                candidate in any domain and gets target probability as if identical to the
                anchor. A candidate with another known label gets none. For items with several
                classes, pass 0 and 1, ``[batch, classes]``, and a row of -1 or NaN if unknown: the
                Jaccard similarity of the classes replaces the teacher's cosine, and candidates
                without a common class get none. Has no effect if ``positive_share`` is 1.
            target: Target probability of each candidate, ``[anchors, columns]``, dense or sparse
                COO, with the rows and columns of ``valid``. The positive has the remaining
                probability, so a row of zeros means no soft target. Entries of rows that are not
                candidates count as 0. ``positive_share`` does not apply; see
                :func:`~bayescl.functional.target_probabilities` for a target from similarities or
                scores. With ``gather``, columns may be this process's own. Not differentiated.
            valid: True where a row of ``torch.cat([view_1, view_2, ...])`` may be scored against
                another. With ``gather``, columns are all views of rank 0, then of rank 1, and so
                on.
            margin: Rule that excludes candidates that score like the positive; see
                :class:`~bayescl.Margin`.
            temperature: Temperature of this call. A 0-d tensor receives a gradient.
                Default: the loss's own.

        Returns:
            A scalar, or with ``reduction="none"`` one value per anchor: first all of ``view_1``,
            then all of ``view_2``. With ``n`` views, there are ``n - 1`` values per anchor: first
            all anchors with their next view as the positive, then with the view after it, and so
            on.

        Raises:
            ValueError: if shapes do not match or the batch has one item. With ``gather``, all
                processes raise if one does.
            RuntimeError: with ``gather``, if there is no process group.

        Reference:
            For ``domains``: Tsai et al., "Conditional Contrastive Learning for Improving Fairness
            in Self-Supervised Learning", 2021.
        """
        with self._shared_errors():
            temperature = self.current_temperature(temperature)
            if self.needs_groups or self.needs_labels:
                self._require(groups=groups, labels=labels)
            views = {"view_1": view_1, "view_2": view_2}
            for number, view in enumerate(others, 3):
                views[f"view_{number}"] = view
            items, *more = checked_embeddings(views, finite=self.check_finite)
            parts = [items.embeddings]
            for number, rows in enumerate(more, 2):
                check_shape(f"view_{number}", rows.embeddings, items.embeddings.shape)
                parts.append(rows.embeddings)
            num_items = items.embeddings.shape[0]
            if num_items < 2 and not self._gathers:
                raise ValueError(
                    "view_1 must have at least 2 rows, got 1: a single item has no candidates"
                )
            known = {"groups": groups, "domains": domains, "labels": labels, "teacher": teacher}
            described, repeated = with_metadata(items, "", known), {}
            for name, part in known.items():
                if part is not None:
                    repeated[name] = torch.cat([getattr(described, name)] * len(parts))
            anchors = self._scaled(Rows(torch.cat(parts), **repeated))
            batch = batch_of_views(anchors, len(parts), are_units=self.normalize)
            if valid is not None or target is not None:
                batch = self._with_matrices(batch, valid, target, gathers=self._gathers)
        return self.evaluate(batch, temperature=temperature, margin=margin)

    def in_batch(
        self,
        anchors: Float[Tensor, "batch dim"] | Rows,
        positives: Float[Tensor, "pairs dim"] | Rows,
        *,
        anchor_of: Int[Tensor, " pairs"] | None = None,
        positive_weight: Float[Tensor, " pairs"] | None = None,
        extra: Float[Tensor, "*own extra dim"] | Rows | None = None,
        teacher: Float[Tensor, "pairs teacher_dim"] | None = None,
        groups: Int[Tensor, " pairs *keys"] | None = None,
        domains: Int[Tensor, " pairs *keys"] | None = None,
        labels: Int[Tensor, " pairs"] | Float[Tensor, "pairs classes"] | None = None,
        target: Float[Tensor, "batch columns"] | None = None,
        log_q: Float[Tensor, " pairs"] | None = None,
        valid: Bool[Tensor, "batch columns"] | None = None,
        margin: Margin | None = None,
        both_directions: bool = False,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*pairs"]:
        """Compute the loss of pairs, with the positives of the other pairs as candidates.

        This is the layout of retrieval, CLIP and two-tower recommenders.

        Metadata (``teacher``, ``groups``, ``domains``, ``labels``) has one value per pair and
        applies to both sides. Pass :class:`~bayescl.Rows` for a side with metadata of its own.

        Args:
            anchors: Embeddings of users, queries or images.
            positives: Embeddings of each anchor's item, document or caption, in the same order.
            anchor_of: Row of ``anchors`` that each positive belongs to, if anchors have several.
                An anchor's positives are never its negatives. The metadata of an anchor's first
                positive applies to the anchor. Default: pair ``i`` belongs to anchor ``i``.
            positive_weight: Non-negative weight per pair. The mean becomes a weighted mean.
                Default: 1.
            extra: Further candidates, such as mined hard negatives: ``[extra, dim]`` for all
                anchors, or ``[batch, extra, dim]`` if each anchor has its own. Metadata that is
                not given is unknown.
            teacher: Embeddings of the pairs as in :meth:`forward`, for example
                ``positives.detach()``.
            groups: As in :meth:`forward`, for example the number of each document.
            domains: As in :meth:`forward`.
            labels: As in :meth:`forward`.
            target: As in :meth:`forward`. Columns are ``positives``, then ``extra``. In the second
                direction, the target is the transpose of the columns of ``positives``. With
                ``gather``, columns may be this process's own; with
                ``both_directions``, they must be.
            log_q: Log probability with which each positive is sampled. It is subtracted from the
                positive's logits, also for other anchors. Needed if some items occur in more
                pairs than others: pass the log of each item's share of the pairs. Not
                differentiated. For ``extra``, and for anchors in the second direction, pass
                ``Rows(..., log_q=...)``.
            valid: True where an anchor (row) may be scored against a candidate (column). Columns
                are ``positives``, then ``extra``. With ``gather``, columns are the positives of all
                processes by rank, then the shared ``extra`` of all, and ``both_directions`` must be
                False. The entry of an anchor and its own positive is ignored.
            margin: Rule that excludes candidates that score like the positive. ``extra`` is exempt
                by default. See :class:`~bayescl.Margin`.
            both_directions: Whether every positive is also an anchor that is scored against all
                anchors, as in CLIP. ``extra`` does not take part in the second direction.
            temperature: As in :meth:`forward`.

        Returns:
            A scalar, or with ``reduction="none"`` one value per pair. With both directions, the
            values of the anchors come first.

        Raises:
            ValueError: as :meth:`forward`.
            RuntimeError: as :meth:`forward`.

        Reference:
            For ``log_q``: Yi et al., "Sampling-Bias-Corrected Neural Modeling for Large Corpus Item
            Recommendations", RecSys 2019.
        """
        with self._shared_errors():
            temperature = self.current_temperature(temperature)
            left, right, *more = map(
                self._scaled,
                checked_embeddings(
                    {"anchors": anchors, "positives": positives, "extra": extra},
                    finite=self.check_finite,
                ),
            )
            known = {"groups": groups, "domains": domains, "labels": labels, "teacher": teacher}
            title = "positives" if isinstance(positives, Rows) else ""
            right = with_metadata(right, title, {**known, "log_q": log_q})
            self._require(groups=right.groups, labels=right.labels)
            anchor_of = checked_anchor_of(left, right, anchor_of)
            num_anchors = len(left)
            if num_anchors < 2 and (extra is None or both_directions) and not self._gathers:
                raise ValueError(
                    "anchors must have at least 2 rows, got 1: a single pair has no candidates"
                )
            # Metadata of the pairs applies to the anchors, unless they have their own.
            of_pairs = right if anchor_of is None else first_of_each(right, anchor_of, num_anchors)
            own = left.metadata
            left = replace(of_pairs, embeddings=left.embeddings, log_q=None)
            if own:
                left = replace(left, **own).checked("anchors", like=right)
            if right.log_q is None and any(rows.log_q is not None for rows in more):
                raise ValueError("extra.log_q needs log_q of the positives")
            columns = (right, *(checked_candidates("extra", rows, left) for rows in more))
            if self.needs_groups and more:
                self._require(**{"extra.groups": columns[1].groups})
            batch = Batch(
                "in_batch",
                left,
                right,
                columns,
                anchor_of,
                positive=torch.arange(len(right), device=left.embeddings.device),
                are_units=self.normalize,
                weight=checked_weight(positive_weight, right),
            )
            batch = self._with_matrices(batch, valid, target, gathers=self._gathers)
            batches = [batch]
            if both_directions:
                for name, part in (("valid", valid), ("target", target)):
                    if (
                        part is not None
                        and self._gathers
                        and not (name == "target" and part.shape[1] == batch.num_candidates)
                    ):
                        raise ValueError(
                            f"with both_directions and gather, {name} cannot have the columns of "
                            "all processes: pass groups, or a target with the columns of this "
                            "process"
                        )
                batches.append(reversed_pairs(batch))
        return self.evaluate(*batches, temperature=temperature, margin=margin)

    def sampled(
        self,
        anchors: Float[Tensor, "batch dim"] | Rows,
        positives: Float[Tensor, "pairs dim"] | Int[Tensor, " pairs"] | Rows,
        candidates: Float[Tensor, "*own candidates dim"] | Rows,
        *,
        anchor_of: Int[Tensor, " pairs"] | None = None,
        positive_weight: Float[Tensor, " pairs"] | None = None,
        teacher: Float[Tensor, "batch teacher_dim"] | None = None,
        groups: Int[Tensor, " batch *keys"] | None = None,
        domains: Int[Tensor, " batch *keys"] | None = None,
        labels: Int[Tensor, " batch"] | Float[Tensor, "batch classes"] | None = None,
        target: Float[Tensor, "batch candidates"] | None = None,
        valid: Bool[Tensor, "batch candidates"] | None = None,
        margin: Margin | None = None,
        gather_candidates: bool = True,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*pairs"]:
        """Compute the loss of pairs with drawn candidates.

        Args:
            anchors: Embeddings of users or queries.
            positives: Embeddings of each anchor's item, in the same order. With ``anchor_of``,
                alternatively their indices in this process's shared ``candidates``; these items
                are then not candidates of their anchor. To correct for sampling, pass
                ``Rows(items, log_q=...)`` here and as ``candidates``. Metadata that is not given is
                the anchor's.
            candidates: ``[candidates, dim]`` if all anchors share them, or
                ``[batch, candidates, dim]`` if each anchor has its own. With ``gather``, shared
                candidates come from all processes, which should then draw different ones; an
                anchor's own are not gathered. Pass ``Rows`` to give candidates ``groups``,
                ``domains``, ``labels``, ``log_q`` or a ``teacher``.
            anchor_of: Row of ``anchors`` that each positive belongs to, if anchors have several.
                Logits, ranks and sums are computed once for all positives of an anchor. Pass
                ``valid`` or ``groups`` to exclude positive candidates.
            positive_weight: As in :meth:`in_batch`.
            teacher: Embedding per anchor, as in :meth:`forward`. Only candidates with a teacher
                embedding get target probability.
            groups: Integer per anchor, or several, ``[batch, keys]``. Needs ``candidates.groups``.
                A candidate that shares a key with the anchor does not count.
            domains: Integer per anchor, as in :meth:`forward`.
            labels: Class of each anchor, as in :meth:`forward`.
            target: As in :meth:`forward`. Columns are ``candidates``.
            valid: True where a candidate counts for an anchor. With ``gather``, columns are the
                candidates of rank 0, then of rank 1, and so on.
            margin: As in :meth:`forward`.
            gather_candidates: With ``gather``, whether shared candidates come from all processes.
                Pass False if every process has drawn the same ones. Default: True.
            temperature: As in :meth:`forward`.

        Returns:
            As :meth:`in_batch`.

        Raises:
            ValueError: as :meth:`forward`.
            RuntimeError: as :meth:`forward`.
        """
        with self._shared_errors():
            temperature = self.current_temperature(temperature)
            gathers = self._gathers and gather_candidates
            are_indices = not (
                isinstance(positives, Rows)
                or check_tensor("positives", positives).is_floating_point()
            )
            given = {"anchors": anchors, "candidates": candidates}
            if not are_indices:
                given["positives"] = positives
            left, drawn, *others = map(
                self._scaled, checked_embeddings(given, finite=self.check_finite)
            )
            indices = None
            if isinstance(positives, Tensor) and are_indices:
                indices = checked_positive_indices(positives, drawn, anchor_of, gathers)
                others = [Rows(F.embedding(indices, drawn.embeddings))]
            (right,) = others
            if (right.log_q is None) != (drawn.log_q is None):
                raise ValueError("log_q must be given for both positives and candidates")
            anchor_of = checked_anchor_of(left, right, anchor_of)
            known = {"groups": groups, "domains": domains, "labels": labels, "teacher": teacher}
            left = with_metadata(left, "anchors" if isinstance(anchors, Rows) else "", known)
            self._require(groups=left.groups, labels=left.labels)
            # Metadata of the anchors applies to their positives, unless these have their own.
            of_anchors = left if anchor_of is None else left[anchor_of]
            own = {"log_q": None, **right.metadata}
            right = replace(of_anchors, embeddings=right.embeddings, **own)
            right = right.checked("positives", like=left)
            if (left.groups is None) != (drawn.groups is None):
                raise ValueError("groups and candidates.groups must be given together")
            drawn = checked_candidates("candidates", drawn, left)
            batch = Batch(
                "sampled",
                left,
                right,
                (drawn,),
                anchor_of,
                positive=indices,
                are_units=self.normalize,
                weight=checked_weight(positive_weight, right),
                is_replicated=not gather_candidates,
            )
            gathers = gathers and not drawn.are_own
            batch = self._with_matrices(batch, valid, target, gathers=gathers)
        return self.evaluate(batch, temperature=temperature, margin=margin)

    def from_logits(
        self,
        positive: Float[Tensor, " anchors"],
        unlabeled: Float[Tensor, "anchors candidates"],
        *,
        target: Float[Tensor, "anchors candidates"] | None = None,
        valid: Bool[Tensor, "anchors candidates"] | None = None,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the loss from your own logits, already divided by the temperature.

        With ``gather``, only settings and numbers of anchors are exchanged, for the mean over all.

        Args:
            positive: Logit of each anchor's positive.
            unlabeled: Logits of each anchor's candidates. A logit of -inf does not count.
            target: Target probabilities of the candidates, dense or sparse COO, as in
                :meth:`forward`. Default: no soft target.
            valid: True where a candidate counts. Default: all count.
            temperature: Temperature that the logits were divided by. Only the debiased and the hard
                loss use it, for their floor. Default: the loss's own.

        Returns:
            A scalar, or with ``reduction="none"`` one value per anchor.

        Raises:
            ValueError: as :meth:`forward`.
            RuntimeError: as :meth:`forward`.
        """
        with self._shared_errors():
            temperature = self.current_temperature(temperature)
            positive, unlabeled = check_logits(positive, unlabeled)
            if valid is not None:
                shape = (len(positive), unlabeled.shape[1])
                check_valid(valid, shape, positive.device, gathers=False)
            elif self.needs_groups:
                raise ValueError(
                    f"{type(self).__name__} needs valid, a mask that is True for true negatives"
                )
            counted = unlabeled.detach() != -torch.inf
            if valid is not None:
                counted = counted & valid
            if self.check_finite:
                check_finite("positive", positive)
                check_finite("unlabeled", unlabeled.masked_fill(~counted, 0))
            if target is not None:
                target = checked_target(
                    target, unlabeled, unlabeled.shape[1], gathers=False, finite=self.check_finite
                )
                target = target.to_dense() if target.is_sparse else target
                target = target.masked_fill(~counted, 0.0)
        factor = 1.0
        if self._gathers:
            factor = mean_factor("logits", len(positive), self._must_agree())
        # -inf under a mask would still turn products with zero gradients into NaN.
        unlabeled = unlabeled.masked_fill(~counted, 0)
        objective = self.objective(temperature)
        losses = losses_of_logits(objective, positive, unlabeled, valid=counted, target=target)
        return self.reduced(losses, factor)

    # ------------------------------------------------------------------ evaluation

    def evaluate(
        self,
        *batches: Batch,
        temperature: float | Float[Tensor, ""] | None = None,
        margin: Margin | None = None,
    ) -> Float[Tensor, "*pairs"]:
        """Compute the loss of a batch.

        ``loss(...)``, ``in_batch`` and ``sampled`` build a batch and call this method. Call it
        yourself with a :class:`~bayescl.batch.Batch` of another layout. This method does not
        normalize embeddings, even with ``normalize=True``. Rows with metadata must be the result of
        :meth:`Rows.checked <bayescl.rows.Rows.checked>`.

        Args:
            *batches: This process's batch, and the second direction if there is one.
            temperature: Temperature of the softmax. Default: the loss's own.
            margin: Rule that excludes candidates that score like the positive. Default: none.

        Returns:
            A scalar, or with ``reduction="none"`` one value per pair.
        """
        if temperature is None:
            temperature = self.current_temperature()
        if margin is not None:
            with self._shared_errors():
                check_margin(margin, batches)
        parts, factor = list(batches), 1.0
        anchors = parts[0].anchors
        if anchors.teacher is not None or anchors.labels is not None:
            if self.positive_share != 1:
                own = self.teacher_temperature
                rule = TargetRule(temperature if own is None else own, self.positive_share)
                parts = [replace(it, target=rule) if it.target is None else it for it in parts]
            elif anchors.labels is not None:
                self._warn_once("labels", "labels have no effect with positive_share=1")
        if self._gathers:
            parts, factor = gathered(parts, temperature, self._must_agree(margin))
        # Ranks and sums need float32: bfloat16 has about 1,350 distinct values for 4,096 cosines.
        device_type = parts[0].anchors.embeddings.device.type
        with_autocast = torch.is_autocast_enabled(device_type)
        with torch.autocast(device_type, enabled=False) if with_autocast else nullcontext():
            if margin is not None:
                parts = [within_margin(part, margin) for part in parts]
            losses = self._losses(parts[0], temperature)
            if len(parts) > 1:
                losses = torch.cat([losses, self._losses(parts[1], temperature)])
        if self.check_finite:
            with self._shared_errors():
                refuse_not_finite(losses, parts, temperature)
                self._check_candidates(losses, parts[0])
            if self._gathers:
                distributed.exchange({})  # raises if the input of another process was invalid
        elif parts[0].needs_mask:
            self._check_candidates(losses, parts[0])
        if batches[0].weight is not None and self.reduction == "mean":
            return losses.sum() / sum(map(total_weight, batches)) * factor
        return self.reduced(losses, factor)

    def _losses(self, batch: Batch, temperature: float | Tensor) -> Float[Tensor, " pairs"]:
        """Compute one loss per pair of a batch with complete columns."""
        if batch.positives is not None and batch.positives.log_q is not None:
            batch = corrected(batch, batch.positives.log_q, temperature)
        if batch.valid is not None:
            batch = with_zeroed_rows(batch)
        if self.engine == "reference" or (is_traced() and self.engine == "auto"):
            return reference_losses(batch, temperature, self.objective)
        if self.engine == "fused" and not is_traced():
            losses = fused_losses(batch, temperature, self.objective)
            if losses is not None:
                return losses
        return blocked_losses(
            batch,
            temperature,
            self.objective,
            shared_upstream=self.reduction != "none",
            chunk_size=self.chunk_size,
        )

    def reduced(
        self, losses: Float[Tensor, " pairs"], factor: float = 1.0
    ) -> Float[Tensor, "*pairs"]:
        """Return the losses' mean times ``factor``, their sum, or the losses themselves."""
        if self.reduction == "mean":
            mean = losses.mean()
            return mean if factor == 1 else mean * factor
        return losses.sum() if self.reduction == "sum" else losses

    # ------------------------------------------------------------------ helpers of the calls

    def _require(self, **given: Tensor | None) -> None:
        """Raise ``ValueError`` if metadata that the loss needs is missing."""
        needed = {"groups": self.needs_groups, "labels": self.needs_labels}
        for name, part in given.items():
            if part is None and needed[name.rpartition(".")[2]]:
                raise ValueError(f"{type(self).__name__} needs {name}: one integer per row")

    def _scaled(self, rows: Rows) -> Rows:
        """Scale embeddings to length 1 if ``normalize`` is set."""
        if not self.normalize:
            return rows
        return replace(rows, embeddings=unit_vectors(rows.embeddings))

    @property
    def _gathers(self) -> bool:
        """Whether there are other processes to gather from."""
        return self.gather and distributed.world_size() > 1

    def _with_matrices(
        self, batch: Batch, valid: Tensor | None, target: Tensor | None, *, gathers: bool
    ) -> Batch:
        """Check a mask and target probabilities, and add them to a batch."""
        anchors, columns = batch.anchors, batch.num_candidates
        if valid is not None:
            shape = (len(anchors), None if gathers else columns)
            check_valid(valid, shape, anchors.embeddings.device, gathers=self._gathers)
        if target is not None:
            target = checked_target(
                target, anchors, columns, gathers=gathers, finite=self.check_finite
            )
        return replace(batch, valid=valid, target=target)

    def _shared_errors(self) -> AbstractContextManager[None]:
        """Make every process raise if one process raises while it checks its input."""
        return distributed.shared_refusals() if self._gathers else nullcontext()

    def _must_agree(self, margin: Margin | None = None) -> list[tuple[str, Any]]:
        """Return names and values of settings that must be the same on all processes."""
        function = self._objective
        settings = {
            "the class of the loss": type(self).__name__,
            "the objective": getattr(function, "__qualname__", type(function).__name__),
            **{name: f"{value:.6g}" for name, value in self.get_extra_state().items()},
            **{
                name: getattr(self, name)
                for name in ("teacher_temperature", "normalize", "reduction", "check_finite")
            },
            "margin": repr(margin),
        }
        del settings["temperature"]  # compared with the temperature of the call
        return list(settings.items())

    def _check_candidates(self, losses: Float[Tensor, " pairs"], batch: Batch) -> None:
        """Warn once if anchors have no or few candidates; raise for none with ``check_finite``.

        This does nothing on a GPU, where it would synchronize, and while tracing.
        """
        if not is_eager_cpu(losses):
            return
        values = losses.detach()
        if values[0].item() == 0 and not values.any():  # the first test is cheap
            mask = batch.mask()
            if mask is not None and not mask.any():
                reason = "no anchor has a candidate, so the loss and its gradient are 0"
                if self.check_finite:
                    raise ValueError(reason)
                self._warn_once("candidates", reason)
        if batch.anchors.domains is None or self._counted_calls >= _COUNTED_CALLS:
            return
        self._counted_calls += 1
        mask = batch.mask()
        if mask is None:
            return
        median = int(mask.sum(dim=1).median())
        if median < _FEW_CANDIDATES:
            self._warn_once(
                "candidates",
                f"half of the anchors have at most {median} candidates of their own domain: draw "
                "larger batches, or batches of fewer domains with DomainBatchSampler; if the "
                "domains themselves are small, merge similar ones, or mark their items with -1",
            )

    def _warn_once(self, subject: str, message: str) -> None:
        """Warn, unless this loss has given a warning on the subject before."""
        if subject not in self._given_warnings and not torch.compiler.is_compiling():
            self._given_warnings.add(subject)
            warnings.warn(message, stacklevel=6)
