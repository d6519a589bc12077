"""The four ways to call a loss: two views, pairs in a batch, drawn candidates, and logits.

Each call checks its arguments, builds a :class:`~bayescl.batch.Batch` and evaluates it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch.nn import functional as F

from bayescl._checks import (
    check_finite,
    check_floating,
    check_mask,
    check_places,
    check_shape,
    check_tensor,
    is_eager_cpu,
)
from bayescl._engine import losses_of_logits
from bayescl._ops.similarity import unit_vectors
from bayescl._types import Bool, Float, Int, Tensor
from bayescl.batch import UNKNOWN, Batch, Rows
from bayescl.losses.base import BatchLoss
from bayescl.losses.margin import Margin
from bayescl.losses.steps import mean_factor, reversed_pairs


class ContrastiveLoss(BatchLoss):
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
            Default: ``"auto"``.
        chunk_size: Number of anchors at a time in the blocked engine. Default: chosen for the
            device.
        gather: Whether anchors are scored against the candidates of all processes of the default
            process group. Gradients flow back to the processes that own them, and batches may
            differ in size. The processes' means average to the mean over all pairs, so gradients
            averaged over processes, as by ``DistributedDataParallel``, equal the gradients of one
            process with the whole batch. With ``reduction="sum"``, the sums add up to the sum of
            the whole batch. Default: False.
        check_finite: Whether to check embeddings and logits for NaN and infinity and raise an error
            that names the cause. This synchronizes with the device. Otherwise the loss of an anchor
            is NaN if its logits are not finite. Rows that ``valid`` or ``margin`` excludes may
            hold NaN or infinity. Default: False.

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

    def forward(
        self,
        view_1: Float[Tensor, "batch dim"],
        view_2: Float[Tensor, "batch dim"],
        *,
        teacher: Float[Tensor, "batch teacher_dim"] | None = None,
        groups: Int[Tensor, " batch *keys"] | None = None,
        domains: Int[Tensor, " batch *keys"] | None = None,
        labels: Int[Tensor, " batch"] | None = None,
        valid: Bool[Tensor, "two_batch two_batch"] | None = None,
        margin: Margin | None = None,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*anchors"]:
        """Compute the loss of two views of a batch, as SimCLR does.

        Each of the ``2 batch`` rows is an anchor. Its other view is the positive, and the other
        ``2 batch - 2`` rows are the candidates.

        Args:
            view_1: Embeddings of the first view of each item.
            view_2: Embeddings of the second view of each item, in the same order.
            teacher: Embeddings that define the similarity of items: usually embeddings of the
                unaugmented items by the same network, computed without gradient. Any other model
                works too. A part ``1 - positive_share`` of the target probability goes to the
                candidates, by a softmax of the teacher's cosines. Not differentiated. Default: no
                soft target.
            groups: Integer per item, or several, ``[batch, keys]``. Items that share a key are
                never negatives of each other. -1 belongs to no group.
            domains: Integer per item for a known nuisance, such as its batch, speaker, device or
                day; or several, ``[batch, keys]``. Only items of the anchor's domain (equal in all
                keys) are its candidates, so the loss gives no reason to separate domains. -1 is
                unknown and agrees with every domain.
            labels: Class of each item, -1 if unknown. A candidate with the anchor's label gets a
                share of the target as if it were identical to the anchor; one with another known
                label gets none.
            valid: True where a row of ``torch.cat([view_1, view_2])`` may be scored against
                another. With ``gather``, columns are both views of rank 0, then of rank 1, and so
                on.
            margin: Rule that excludes candidates that score like the positive; see
                :class:`~bayescl.Margin`.
            temperature: Temperature of this call. A one-element tensor receives a gradient.
                Default: the loss's own.

        Returns:
            A scalar, or with ``reduction="none"`` one value per anchor: first all of ``view_1``,
            then all of ``view_2``.

        Raises:
            ValueError: if shapes do not match or no row has a candidate. With ``gather``, all
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
            first, second = self._checked(view_1=view_1, view_2=view_2)
            check_shape("view_2", second.embeddings, first.embeddings.shape)
            (batch, _), device = first.embeddings.shape, first.embeddings.device
            if batch < 2 and not self._gathers:
                raise ValueError(
                    "view_1 must hold at least 2 rows, got 1: a single item has no candidates"
                )
            if valid is not None:
                self._check_valid(valid, (2 * batch, 2 * batch), device)
            items = _described(
                first, "", groups=groups, domains=domains, labels=labels, teacher=teacher
            )
            twice = {name: torch.cat([part, part]) for name, part in items.metadata.items()}
            rows = Rows(torch.cat([first.embeddings, second.embeddings]), **twice)
            both = self._scaled(rows)
            positives = Rows(both.embeddings.roll(batch, 0), **twice)
            own = torch.arange(2 * batch, device=device)
            partner = own.roll(batch)
            made = Batch(
                "two_views", both, positives, (both,), own=own, positive=partner, valid=valid
            )
        return self.evaluate(made, temperature=temperature, margin=margin)

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
        labels: Int[Tensor, " pairs"] | None = None,
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
            log_q: Log probability with which each positive is sampled. It is subtracted from the
                positive's logits, also where it is a candidate. Needed if some items occur in more
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
                self._scaled, self._checked(anchors=anchors, positives=positives, extra=extra)
            )
            title = "positives" if isinstance(positives, Rows) else ""
            known = {"groups": groups, "domains": domains, "labels": labels, "teacher": teacher}
            right = _described(right, title, log_q=log_q, **known)
            if self.needs_groups or self.needs_labels:
                self._require(groups=right.groups, labels=right.labels)
            anchor_of = _checked_pairs(left, right, anchor_of)
            batch, pairs = len(left), len(right)
            if batch < 2 and (extra is None or both_directions) and not self._gathers:
                raise ValueError(
                    "anchors must hold at least 2 rows, got 1: a single pair has no candidates"
                )
            known_pairs = right if anchor_of is None else _first_of_each(right, anchor_of, batch)
            own = left.metadata
            left = replace(known_pairs, embeddings=left.embeddings, log_q=None)
            if own:
                left = replace(left, **own).checked("anchors", like=right)
            if right.log_q is None and any(rows.log_q is not None for rows in more):
                raise ValueError("extra.log_q needs log_q")
            columns = (right, *(self._others("extra", rows, left) for rows in more))
            if valid is not None:
                width = sum(map(len, columns))
                self._check_valid(valid, (batch, width), left.embeddings.device)
            place = torch.arange(pairs, device=left.embeddings.device)
            made = Batch("in_batch", left, right, columns, anchor_of, positive=place, valid=valid)
            batches = [made if positive_weight is None else _weighted(made, positive_weight)]
            if both_directions:
                if self._gathers and valid is not None:
                    raise ValueError(
                        "valid must be None if both_directions and gather are set: a mask cannot "
                        "describe the second direction across processes; pass groups instead"
                    )
                turned = None if valid is None else valid[:, :pairs].T
                batches.append(reversed_pairs(batches[0], turned))
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
        labels: Int[Tensor, " batch"] | None = None,
        valid: Bool[Tensor, "batch candidates"] | None = None,
        margin: Margin | None = None,
        gather_candidates: bool = True,
        temperature: float | Float[Tensor, ""] | None = None,
    ) -> Float[Tensor, "*pairs"]:
        """Compute the loss of pairs with drawn candidates.

        Args:
            anchors: Embeddings of users or queries.
            positives: Embeddings of each anchor's item, in the same order. With ``anchor_of``, also
                the items' places among shared ``candidates`` of this process, which are then not
                the anchor's candidates; nothing of size pairs times ``dim`` is computed. To correct
                for sampling, pass ``Rows(items, log_q=...)`` here and as ``candidates``. Metadata
                that is not given is the anchor's.
            candidates: ``[candidates, dim]`` if all anchors share them, or
                ``[batch, candidates, dim]`` if each anchor has its own. With ``gather``, shared
                candidates come from all processes, which should then draw different ones; an
                anchor's own are not gathered. Pass ``Rows`` to give candidates ``groups``,
                ``domains``, ``labels``, ``log_q`` or a ``teacher``.
            anchor_of: Row of ``anchors`` that each positive belongs to, if anchors have several.
                Logits, ranks and sums are computed once for all positives of an anchor. Mark in
                ``valid`` or ``groups`` which candidates are positives.
            positive_weight: As in :meth:`in_batch`.
            teacher: Embedding per anchor, as in :meth:`forward`. Only candidates with a teacher
                get a share.
            groups: Integer per anchor, or several, ``[batch, keys]``. Needs ``candidates.groups``.
                A candidate that shares a key with the anchor does not count.
            domains: Integer per anchor, as in :meth:`forward`.
            labels: Class of each anchor, as in :meth:`forward`.
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
            are_places = not (
                isinstance(positives, Rows)
                or check_tensor("positives", positives).is_floating_point()
            )
            given = {"anchors": anchors, "candidates": candidates}
            if not are_places:
                given["positives"] = positives
            left, drawn, *others = map(self._scaled, self._checked(**given))
            place = None
            if isinstance(positives, Tensor) and are_places:
                _check_positive_places(positives, drawn, anchor_of, gathers)
                place = positives.long()
                others = [Rows(F.embedding(place, drawn.embeddings))]
            (right,) = others
            if (right.log_q is None) != (drawn.log_q is None):
                raise ValueError("log_q must be given for both positives and candidates")
            anchor_of = _checked_pairs(left, right, anchor_of)
            title = "anchors" if isinstance(anchors, Rows) else ""
            known = {"groups": groups, "domains": domains, "labels": labels, "teacher": teacher}
            left = _described(left, title, **known)
            if self.needs_groups or self.needs_labels:
                self._require(groups=left.groups, labels=left.labels)
            known_pairs = left if anchor_of is None else left[anchor_of]
            own = {"log_q": None, **right.metadata}
            right = replace(known_pairs, embeddings=right.embeddings, **own)
            right = right.checked("positives", like=left)
            if (left.groups is None) != (drawn.groups is None):
                raise ValueError("groups and candidates.groups must be given together")
            columns = (self._others("candidates", drawn, left),)
            width = len(drawn) if gathers is False or drawn.are_own else None
            if valid is not None:
                self._check_valid(valid, (len(left), width), left.embeddings.device)
            made = Batch(
                "sampled", left, right, columns, anchor_of, positive=place, valid=valid,
                is_replicated=not gather_candidates,
            )  # fmt: skip
            if positive_weight is not None:
                made = _weighted(made, positive_weight)
        return self.evaluate(made, temperature=temperature, margin=margin)

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

        With ``gather``, processes exchange only their numbers of anchors, for the mean over all.

        Args:
            positive: Logit of each anchor's positive.
            unlabeled: Logits of each anchor's candidates. A logit of -inf does not count.
            target: Target probabilities of the candidates, non-negative; see
                :func:`~bayescl.functional.target_probabilities`. Default: no soft target.
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
            check_floating("positive", positive)
            check_floating("unlabeled", unlabeled, positive.device)
            check_shape("positive", positive, ("anchors",))
            check_shape("unlabeled", unlabeled, (positive.shape[0], "candidates"))
            if unlabeled.numel() == 0:
                raise ValueError(f"unlabeled must not be empty, got shape {list(unlabeled.shape)}")
            if valid is not None:
                check_mask("valid", valid, unlabeled.shape, positive.device)
                _check_any(valid)
            elif self.needs_groups:
                raise ValueError(f"{type(self).__name__} needs valid: True for true negatives")
            dtype = torch.promote_types(positive.dtype, unlabeled.dtype)
            dtype = torch.promote_types(dtype, torch.float32)
            positive, unlabeled = positive.to(dtype), unlabeled.to(dtype)
            counted = unlabeled.detach() != -torch.inf
            if valid is not None:
                counted = counted & valid
            if self.check_finite:
                check_finite("positive", positive)
                check_finite("unlabeled", unlabeled.masked_fill(~counted, 0))
            if target is not None:
                check_floating("target", target, positive.device)
                check_shape("target", target, unlabeled.shape)
                target = target.detach().to(dtype).masked_fill(~counted, 0.0)
        factor = mean_factor("logits", len(positive)) if self._gathers else 1.0
        # -inf under a mask would still turn products with zero gradients into NaN.
        unlabeled = unlabeled.masked_fill(~counted, 0)
        objective = self.objective(temperature)
        losses = losses_of_logits(objective, positive, unlabeled, valid=counted, target=target)
        return self.reduced(losses, factor)

    # ------------------------------------------------------------------ checks

    def _require(self, **given: Tensor | None) -> None:
        """Raise ``ValueError`` if metadata that the loss needs is missing."""
        needed = {"groups": self.needs_groups, "labels": self.needs_labels}
        for name, part in given.items():
            if part is None and needed[name.rpartition(".")[2]]:
                raise ValueError(f"{type(self).__name__} needs {name}: one integer per row")

    def _checked(self, **given: Any) -> list[Rows]:
        """Check embeddings and bring them to one precision, at least float32."""
        device: torch.device | None = None
        dtype, found = torch.float32, []
        for name, part in given.items():
            if part is None and name == "extra":
                continue
            rows = part if isinstance(part, Rows) else Rows(part)
            embeddings = rows.embeddings
            check_floating(name, embeddings, device)
            device = embeddings.device
            if embeddings.ndim not in ((2, 3) if name in ("candidates", "extra") else (2,)):
                raise ValueError(
                    f"{name} must have shape [rows, dim], got {list(embeddings.shape)}"
                )
            if embeddings.numel() == 0:
                raise ValueError(f"{name} must not be empty, got shape {list(embeddings.shape)}")
            if self.check_finite:
                check_finite(name, embeddings)
            if embeddings.dtype != dtype:
                dtype = torch.promote_types(dtype, embeddings.dtype)
            found.append(rows)
        for place, rows in enumerate(found):
            if rows.embeddings.dtype != dtype:
                found[place] = replace(rows, embeddings=rows.embeddings.to(dtype))
        return found

    def _scaled(self, rows: Rows) -> Rows:
        """Scale embeddings to length 1 if ``normalize`` is set."""
        if not self.normalize:
            return rows
        return replace(rows, embeddings=unit_vectors(rows.embeddings))

    def _others(self, name: str, rows: Rows, anchors: Rows) -> Rows:
        """Check candidates, and their metadata against the metadata of the anchors."""
        dim, own = anchors.embeddings.shape[1], rows.are_own
        check_shape(name, rows.embeddings, (*((len(anchors),) if own else ()), name, dim))
        for field in rows.metadata:
            if field != "log_q" and getattr(anchors, field, rows) is None:
                raise ValueError(f"{name}.{field} needs {field}")
        self._require(**{f"{name}.groups": rows.groups})
        return rows.checked(name, like=anchors)

    def _check_valid(
        self, valid: Tensor, shape: tuple[int, int | None], device: torch.device
    ) -> None:
        """Check the shape of a mask. The number of columns of other processes is unknown here."""
        is_whole = not self._gathers and shape[1] is not None
        columns = shape[1] if is_whole else "candidates of all processes"
        check_mask("valid", valid, (shape[0], columns), device)
        if is_whole:
            _check_any(valid)


def _check_any(valid: Tensor) -> None:
    """Raise ``ValueError`` if a mask excludes all candidates."""
    if is_eager_cpu(valid) and not valid.numpy().any():  # torch's ``any`` reads the whole mask
        raise ValueError("valid must be True for at least one candidate")


def _described(rows: Rows, title: str, **given: Tensor | None) -> Rows:
    """Add the metadata that a call gives to its rows, and check all metadata of the rows."""
    known = {name: part for name, part in given.items() if part is not None}
    return (replace(rows, **known) if known else rows).checked(title)


def _checked_pairs(anchors: Rows, positives: Rows, anchor_of: Tensor | None) -> Tensor | None:
    """Check that positives belong to the anchors; return ``anchor_of`` as an index."""
    rows = anchors.embeddings
    if anchor_of is None:
        check_shape("positives", positives.embeddings, rows.shape)
        return None
    check_shape("positives", positives.embeddings, ("pairs", rows.shape[1]))
    shape = positives.embeddings.shape[:1]
    check_places("anchor_of", anchor_of, shape, len(anchors), "anchors", rows.device)
    return anchor_of.long()


def _check_positive_places(
    places: Tensor, candidates: Rows, anchor_of: Tensor | None, gathers: bool
) -> None:
    """Check positives that are given as indices of shared candidates."""
    if anchor_of is None or candidates.are_own or candidates.log_q is not None or gathers:
        raise ValueError(
            "positives can be indices only with anchor_of and with shared candidates that are not "
            "gathered and have no log_q"
        )
    rows = candidates.embeddings
    shape = check_tensor("anchor_of", anchor_of).shape
    check_places("positives", places, shape, len(candidates), "candidates", rows.device)


def _first_of_each(pairs: Rows, anchor_of: Tensor, anchors: int) -> Rows:
    """Return the metadata of each anchor's first pair; unknown for an anchor without pairs."""
    count = len(anchor_of)
    order = torch.arange(count, device=anchor_of.device)
    first = anchor_of.new_full((anchors,), count).scatter_reduce(0, anchor_of, order, "amin")
    has_none = first == count
    known = pairs[first.clamp(max=count - 1)]

    def unknown(part: Tensor) -> Tensor:
        value = 0.0 if part.is_floating_point() else UNKNOWN
        return part.masked_fill(has_none.view(-1, *[1] * (part.ndim - 1)), value)

    return known.map(unknown)


def _weighted(batch: Batch, weight: Tensor) -> Batch:
    """Add a weight per pair."""
    rows = batch.positives.embeddings
    check_floating("positive_weight", weight, rows.device)
    check_shape("positive_weight", weight, rows.shape[:1])
    if is_eager_cpu(weight) and not (bool((weight >= 0).all()) and bool(weight.any())):
        raise ValueError("positive_weight must be non-negative, with at least one positive value")
    return replace(batch, weight=weight.detach().to(rows.dtype))
