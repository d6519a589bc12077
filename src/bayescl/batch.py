"""Anchors, their positives and their candidates, and the masks of candidates."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch

from bayescl._types import Bool, Float, Int, Tensor
from bayescl.rows import UNKNOWN, Rows, class_similarity

Layout = Literal["two_views", "views", "in_batch", "sampled", "logits"]
"""Calls of a loss. ``"views"`` stands for more than two views."""

__all__ = ["Batch", "Excluded", "Layout", "TargetRule"]

_MATCHES_NOTHING = torch.iinfo(torch.int64).min  # replaces UNKNOWN in one side of a comparison


@dataclass(frozen=True)
class TargetRule:
    """Parameters of target probabilities.

    Attributes:
        temperature: Temperature of the teacher's softmax, positive.
        positive_share: Probability that the positive keeps, in (0, 1]. If ``None``, the positive
            counts as one more candidate of similarity 1.
    """

    temperature: float | Float[Tensor, ""]
    positive_share: float | None


@dataclass(frozen=True)
class Excluded:
    """Columns that are not candidates of some anchors, as indices or as a mask.

    Attributes:
        columns: Distinct columns of each anchor, the same number for all anchors.
        mask: True where a column is not a candidate. If given, ``columns`` is ``None``.
    """

    columns: Int[Tensor, "rows excluded"] | None = None
    mask: Bool[Tensor, "rows candidates"] | None = None

    @property
    def few(self) -> int:
        """Number of excluded columns of each anchor, if there is no mask."""
        return 0 if self.columns is None else self.columns.shape[1]

    def log_count(self, logits: Float[Tensor, "rows candidates"]) -> float | Float[Tensor, " rows"]:
        """Return the log of the number of candidates, one number if it is the same for all rows.

        It is -inf without candidates.
        """
        if self.mask is not None:
            return (~self.mask).sum(dim=1).to(logits.dtype).log()
        left = logits.shape[1] - self.few
        return math.log(left) if left else -math.inf

    def fill_(self, values: Float[Tensor, "rows candidates"], value: float) -> None:
        """Overwrite the excluded entries of ``values``, in place."""
        if self.mask is not None:
            values.masked_fill_(self.mask, value)
        elif self.columns is not None:
            values.scatter_(1, self.columns, value)


@dataclass(frozen=True)
class OfTwoViews(Excluded):
    """Excluded columns of a batch of two views: each row itself and its partner."""

    few = 2

    def fill_(self, values: Float[Tensor, "rows rows"], value: float) -> None:
        """Overwrite each row's entries for itself and its partner, in place."""
        items = len(values) // 2
        values.view(2, items, 2, items).diagonal(dim1=1, dim2=3).fill_(value)

    def partners(self, values: Float[Tensor, "rows rows"]) -> Float[Tensor, "2 items"]:
        """Return each row's entry for its partner, as a tensor view."""
        count = len(values)
        items = count // 2
        strides = (items * count - items, count + 1)  # to the second view; to the next item
        return values.as_strided((2, items), strides, items)


@dataclass(frozen=True)
class Batch:
    """Anchors, their positives and their candidates.

    Attributes:
        layout: Call that built the batch.
        anchors: Rows to be trained.
        positives: One row per pair. ``None`` if they are rows of the first block, in the columns
            ``positive``.
        columns: One or more blocks of candidates, side by side. All anchors share a block, or each
            anchor has its own rows in it.
        anchor_of: Anchor of each pair. ``None``: pair i belongs to anchor i.
        own: Column of each anchor itself, if the first block contains the anchors.
        positive: Column of each pair's positive, if the first block contains the positives.
        valid: False where a column must not be a candidate of an anchor.
        weight: Non-negative weight of each pair.
        target: Target probabilities of the candidates, dense or sparse COO, or the rule that
            computes them from teacher and labels. ``None`` for no target.
        is_replicated: Whether all processes have the same shared columns. They are then not
            gathered.
        are_units: Whether all embeddings are known to have length 1 or 0, which bounds the logits.
    """

    layout: Layout
    anchors: Rows
    positives: Rows | None
    columns: tuple[Rows, ...]
    anchor_of: Int[Tensor, " pairs"] | None = None
    own: Int[Tensor, " anchors"] | None = None
    positive: Int[Tensor, " pairs"] | None = None
    valid: Bool[Tensor, "anchors candidates"] | None = None
    weight: Float[Tensor, " pairs"] | None = None
    target: Float[Tensor, "anchors candidates"] | TargetRule | None = None
    is_replicated: bool = False
    are_units: bool = False

    @property
    def num_anchors(self) -> int:
        """Number of anchors."""
        return len(self.anchors)

    @property
    def num_pairs(self) -> int:
        """Number of pairs."""
        return len(self.anchors if self.anchor_of is None else self.anchor_of)

    @property
    def num_candidates(self) -> int:
        """Number of columns, including excluded ones."""
        return sum(map(len, self.columns))

    @property
    def pair_anchors(self) -> Rows:
        """The anchor of each pair."""
        return self.anchors if self.anchor_of is None else self.anchors[self.anchor_of]

    @property
    def pair_positives(self) -> Rows:
        """The positive of each pair."""
        if self.positives is not None:
            return self.positives
        assert self.positive is not None  # else ``positives`` must be given
        return self.columns[0][self.positive]

    def map_rows(self, function: Callable[[Rows], Rows]) -> Batch:
        """Apply a function to all rows. Rows that are the same object are mapped once."""
        every = (self.anchors, self.positives, *self.columns)
        mapped = {id(rows): function(rows) for rows in every if rows is not None}
        return replace(
            self,
            anchors=mapped[id(self.anchors)],
            positives=mapped.get(id(self.positives)),
            columns=tuple(mapped[id(block)] for block in self.columns),
        )

    # ------------------------------------------------------------------ masks

    def mask(self, rows: slice | None = None) -> Bool[Tensor, "rows candidates"] | None:
        """Return True where a column is a candidate of an anchor; ``None`` if all are."""
        rows = slice(0, self.num_anchors) if rows is None else rows
        excluded = self.excluded(rows)
        if excluded.mask is not None:
            return ~excluded.mask
        if excluded.columns is None:
            return None
        shape = rows.stop - rows.start, self.num_candidates
        every = torch.ones(shape, dtype=torch.bool, device=self.anchors.embeddings.device)
        return every.scatter(1, excluded.columns, False)

    @property
    def needs_mask(self) -> bool:
        """Whether anchors may have different numbers of candidates."""
        known = self.anchors.groups is not None or self.anchors.domains is not None
        several = self.anchor_of is not None and self.positive is not None
        return known or several or self.valid is not None

    def excluded(self, rows: slice) -> Excluded:
        """Return the excluded columns of anchors ``rows``, a slice with start and stop."""
        if self.needs_mask:
            return Excluded(mask=self._excluded_mask(rows))
        alone = self._alone
        return Excluded(None if alone is None else alone[rows])

    @property
    def _alone(self) -> Int[Tensor, "anchors few"] | None:
        """Columns of each anchor and of its positive, unless anchors have several positives."""
        positive = None if self.anchor_of is not None else self.positive
        if self.own is None:
            return None if positive is None else positive[:, None]
        return self.own[:, None] if positive is None else torch.stack([self.own, positive], dim=1)

    def _excluded_mask(self, rows: slice) -> Bool[Tensor, "rows candidates"]:
        """Return a new mask, True where a column does not count."""
        device = self.anchors.embeddings.device
        if self.valid is not None:
            mask = ~self.valid[rows]
        else:
            shape = rows.stop - rows.start, self.num_candidates
            mask = torch.zeros(shape, dtype=torch.bool, device=device)
        parts = torch.split(mask, [len(block) for block in self.columns], dim=1)
        for block, part in zip(self.columns, parts, strict=True):
            for mine, theirs in _keys(self.anchors.groups, block.groups, rows):
                part |= mine.masked_fill(mine == UNKNOWN, _MATCHES_NOTHING) == theirs
            apart: Tensor | bool = False
            for mine, theirs in _keys(self.anchors.domains, block.domains, rows):
                apart = ((mine != theirs) & (mine != UNKNOWN) & (theirs != UNKNOWN)) | apart
            labels, others = self.anchors.labels, block.labels
            if isinstance(self.target, TargetRule) and labels is not None and others is not None:
                # Rows that share the target are candidates in any domain.
                others = others[rows] if block.are_own else others[None]
                apart = apart & ~(class_similarity(labels[rows], others) > 0)
            part |= apart
        alone = self._alone
        if alone is not None:
            mask.scatter_(1, alone[rows], True)
        if self.anchor_of is not None and self.positive is not None:
            inside = (self.anchor_of >= rows.start) & (self.anchor_of < rows.stop)
            mask[self.anchor_of[inside] - rows.start, self.positive[inside]] = True
        return mask


def _keys(
    mine: Tensor | None, theirs: Tensor | None, rows: slice
) -> Iterator[tuple[Int[Tensor, "rows 1"], Int[Tensor, "#rows candidates"]]]:
    """Yield pairs of anchors' and columns' keys; nothing if either side has no keys."""
    if mine is None or theirs is None:
        return
    theirs = theirs[None] if theirs.ndim == 2 else theirs[rows]
    for anchor_key, column_key in zip(mine[rows].unbind(-1), theirs.unbind(-1), strict=True):
        yield anchor_key[:, None], column_key
