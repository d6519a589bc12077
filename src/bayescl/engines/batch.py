"""The input of engines: anchors, positives, candidates, and the rule of which candidates count."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.functional.excluded import Excluded
from bayescl.functional.sorting import is_eager_cpu

Layout = Literal["two_views", "in_batch", "sampled", "logits"]
"""Ways to call a loss."""


@dataclass(frozen=True)
class CandidateRule:
    """A rule that says which columns are candidates of which anchors.

    Holds index vectors and group labels instead of the full mask, so that an engine may ask for
    the mask of a few anchors at a time.

    Attributes:
        own: column of each anchor itself, if anchors are among the columns.
        positive: column of each anchor's positive, if positives are among the columns.
        anchor_groups: group of each anchor, or several groups, ``[anchors, keys]``.
        candidate_groups: groups of each column, shared or each anchor's own; rows with an equal key
            are never each other's negatives.
        valid: True where the pair may count; None if all may.
    """

    own: Int[Tensor, " anchors"] | None = None
    positive: Int[Tensor, " anchors"] | None = None
    anchor_groups: Int[Tensor, " anchors *keys"] | None = None
    candidate_groups: Int[Tensor, "*own_candidates_keys"] | None = None
    valid: Bool[Tensor, "anchors candidates"] | None = None

    @property
    def num_keys(self) -> int:
        """Number of groups per row; 0 without groups."""
        if self.anchor_groups is None or self.candidate_groups is None:
            return 0
        return 1 if self.anchor_groups.ndim == 1 else self.anchor_groups.shape[1]

    @cached_property
    def _columns_alone(self) -> Excluded:
        """The anchors themselves and their positives."""
        indices = [index for index in (self.own, self.positive) if index is not None]
        return Excluded(torch.stack(indices, dim=1) if indices else None)

    def positive_places(self, columns: int) -> NDArray[np.int64]:
        """Where positives stand in rows of so many logits, laid end to end. On the CPU."""
        return self._columns_alone.places(columns)[:, -1]

    def excluded(self, rows: slice) -> Excluded:
        """The columns that are not candidates of some anchors, a slice with start and stop."""
        if self.valid is None and self.num_keys == 0:
            few = self._columns_alone  # no mask is built
            whole = few.columns is None or rows.stop - rows.start == len(few.columns)
            return few if whole else few.of(rows)
        masks = [] if self.valid is None else [~self.valid[rows]]
        mine, theirs = self.anchor_groups, self.candidate_groups
        if mine is not None and theirs is not None:
            if mine.ndim == 1:
                mine, theirs = mine[:, None], theirs[..., None]
            # [rows, keys], and [1 or rows, candidates, keys]: any equal key excludes.
            mine, theirs = mine[rows], theirs[None] if theirs.ndim == 2 else theirs[rows]
            keys = zip(mine.unbind(-1), theirs.unbind(-1), strict=True)
            masks += [_equal(of_anchors[:, None], of_columns) for of_anchors, of_columns in keys]
        mask = reduce(torch.logical_or, masks)  # new memory, not the caller's
        if self._columns_alone.columns is not None:
            mask.scatter_(1, self._columns_alone.columns[rows], True)
        return Excluded(mask=mask)

    def mask(
        self, rows: slice, candidates: int, device: torch.device
    ) -> Bool[Tensor, "rows candidates"] | None:
        """True where one of so many columns is a candidate of an anchor; None if all are.

        Example:
            >>> rule = CandidateRule(own=torch.tensor([0, 1]), positive=torch.tensor([2, 2]))
            >>> rule.mask(slice(0, 2), candidates=3, device=torch.device("cpu"))
            tensor([[False,  True, False],
                    [ True, False, False]])
        """
        excluded = self.excluded(rows)
        if excluded.mask is not None:
            return ~excluded.mask
        if excluded.columns is None:
            return None
        count = rows.stop - rows.start
        every = torch.ones(count, candidates, dtype=torch.bool, device=device)
        return every.scatter(1, excluded.columns, False)


def _equal(groups: Tensor, others: Tensor) -> Bool[Tensor, "rows candidates"]:
    """Where groups are equal; NumPy compares integers in a third of torch's time."""
    if is_eager_cpu(groups) and is_eager_cpu(others):
        return torch.from_numpy(groups.numpy() == others.numpy())
    return groups == others


@dataclass(frozen=True)
class SameClass:
    """Posterior that a candidate is of its anchor's class, as a product of thin factors.

    Attributes:
        anchors: factor of each anchor.
        candidates: factor of each candidate, shared or each anchor's own.
    """

    anchors: Float[Tensor, "anchors components"]
    candidates: Float[Tensor, "*own candidates components"]

    def tile(self, rows: slice) -> Float[Tensor, "rows candidates"]:
        """The posterior of some anchors, in [0, 1]."""
        if self.candidates.ndim == 2:
            tile = self.anchors[rows] @ self.candidates.T
        else:
            tile = torch.einsum("ak,ank->an", self.anchors[rows], self.candidates[rows])
        return tile.clamp_(0, 1)  # rounding may leave the interval


@dataclass(frozen=True)
class Labels:
    """Classes of anchors and candidates, -1 where unknown. Two known labels settle a pair.

    Attributes:
        anchors: one of each anchor.
        candidates: one of each candidate, shared or each anchor's own.
    """

    anchors: Int[Tensor, " anchors"]
    candidates: Int[Tensor, "*own candidates"]

    def tile(self, rows: slice) -> tuple[Bool[Tensor, "rows candidates"], ...]:
        """Which pairs of some anchors are settled, and which of them are of one class."""
        mine, theirs = self.anchors[rows, None], self.candidates
        theirs = theirs if theirs.ndim == 1 else theirs[rows]
        certain = (mine >= 0) & (theirs >= 0)
        return certain, certain & (mine == theirs)


@dataclass(frozen=True)
class ContrastiveBatch:
    """Everything that a contrastive loss is computed from, in any layout.

    Attributes:
        anchors: embeddings to be trained.
        positives: each anchor's positive, row by row.
        candidates: ``[candidates, dim]`` shared by all anchors, or ``[anchors, candidates, dim]``.
        rule: which candidates count for which anchor.
        same_class: posterior that candidates are of the anchor's class, for objectives that use it;
            None if unknown.
        labels: known classes, likewise; None if there are none.
        indices: the place of each item in the data set, for a loss that remembers items.
        log_q: log sampling probabilities of positives and of candidates; a loss takes them into
            the embeddings before an engine sees them.
    """

    anchors: Float[Tensor, "anchors dim"]
    positives: Float[Tensor, "anchors dim"]
    candidates: Float[Tensor, "*own candidates dim"]
    rule: CandidateRule
    same_class: SameClass | None = None
    labels: Labels | None = None
    indices: Int[Tensor, " items"] | None = None
    log_q: tuple[Float[Tensor, " anchors"], Float[Tensor, "*own candidates"]] | None = None

    @property
    def knows_pairs(self) -> bool:
        """Whether anything is known of which pairs are of one class."""
        return self.same_class is not None or self.labels is not None

    def posterior(
        self, rows: slice | None = None
    ) -> tuple[Float[Tensor, "rows candidates"] | None, Bool[Tensor, "rows candidates"] | None]:
        """Posterior that pairs are of one class, and where labels settle it; None where unknown."""
        rows = slice(0, self.num_anchors) if rows is None else rows
        tile = None if self.same_class is None else self.same_class.tile(rows)
        if self.labels is None:
            return tile, None
        certain, equal = self.labels.tile(rows)
        settled = equal.to(self.anchors.dtype)
        return settled if tile is None else torch.where(certain, settled, tile), certain

    def with_candidates(
        self, fetch: Callable[[Tensor], Tensor], rule: CandidateRule
    ) -> ContrastiveBatch:
        """The same anchors with the candidates, and what is known of them, that ``fetch`` gets.

        Given this process's rows, it returns those of other processes.
        """
        known, labels, groups = self.same_class, self.labels, rule.candidate_groups
        return ContrastiveBatch(
            self.anchors,
            self.positives,
            fetch(self.candidates),
            rule if groups is None else replace(rule, candidate_groups=fetch(groups.long())),
            known and replace(known, candidates=fetch(known.candidates)),
            labels and replace(labels, candidates=fetch(labels.candidates)),
            self.indices,
        )

    @property
    def layout(self) -> Layout:
        """The call that it comes from."""
        if self.rule.own is not None:
            return "two_views"
        return "sampled" if self.rule.positive is None else "in_batch"

    @property
    def num_anchors(self) -> int:
        """Number of anchors."""
        return self.anchors.shape[0]

    @property
    def num_candidates(self) -> int:
        """Number of candidate columns, including those that do not count."""
        return self.candidates.shape[-2]

    def columns(self, rows: slice) -> Float[Tensor, "*own candidates dim"]:
        """The candidates of some anchors: all if they are shared, else these anchors' own."""
        return self.candidates if self.candidates.ndim == 2 else self.candidates[rows]

    def mask(self, rows: slice | None = None) -> Bool[Tensor, "rows candidates"] | None:
        """The rule's mask for some anchors; default: all."""
        rows = slice(0, self.num_anchors) if rows is None else rows
        return self.rule.mask(rows, self.num_candidates, self.anchors.device)

    def excluded(self, rows: slice) -> Excluded:
        """Columns that are not candidates of some anchors."""
        return self.rule.excluded(rows)

    def log_counts(self, rows: slice, dtype: torch.dtype) -> Float[Tensor, "#rows"]:
        """Log of the number of candidates of some anchors; -inf for an anchor with none."""
        excluded, device = self.excluded(rows), self.anchors.device
        if excluded.mask is not None:
            return excluded.counts(self.num_candidates, device).to(dtype).log()
        left = self.num_candidates - excluded.few
        return torch.full((1,), math.log(left) if left else -math.inf, dtype=dtype, device=device)
