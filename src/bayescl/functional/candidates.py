"""Which candidates count for which anchor: neither itself, nor its positive, nor its group."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from bayescl._axes import Bool, Float, Int, Tensor


@dataclass(frozen=True)
class CandidateRule:
    """The rule that says which columns are candidates of which anchors.

    Holds index vectors and group labels instead of the full mask, so that an engine may ask for
    the mask of a few anchors at a time.

    Attributes:
        own: column of each anchor itself, where anchors are among the columns.
        positive: column of each anchor's positive, where positives are among the columns.
        anchor_groups: group of each anchor.
        candidate_groups: group of each column, shared or each anchor's own; equal groups are
            never each other's negatives.
        valid: True where the pair may count; all pairs where absent.
    """

    own: Int[Tensor, "anchors"] | None = None
    positive: Int[Tensor, "anchors"] | None = None
    anchor_groups: Int[Tensor, "anchors"] | None = None
    candidate_groups: Int[Tensor, "*own candidates"] | None = None
    valid: Bool[Tensor, "anchors candidates"] | None = None

    @property
    def equally_many(self) -> bool:
        """Whether all anchors have equally many candidates, whatever the groups and pairs."""
        return self.valid is None and self.anchor_groups is None

    def excluded_columns(self, rows: slice) -> Int[Tensor, "rows excluded"] | None:
        """The columns that are no candidates, where there are equally few for every anchor.

        None where groups or single pairs are excluded too: then only the mask will do.
        """
        if not self.equally_many:
            return None
        indices = [index[rows] for index in (self.own, self.positive) if index is not None]
        return torch.stack(indices, dim=1) if indices else None

    def mask(
        self, rows: slice, candidates: int, device: torch.device
    ) -> Bool[Tensor, "rows candidates"] | None:
        """True where a column is a candidate of an anchor; None where all are.

        Args:
            rows: the anchors asked for, start and stop given.
            candidates: number of columns.
            device: where the mask is wanted.

        Example:
            >>> rule = CandidateRule(own=torch.tensor([0, 1]), positive=torch.tensor([2, 2]))
            >>> rule.mask(slice(0, 2), candidates=3, device=torch.device("cpu"))
            tensor([[False,  True, False],
                    [ True, False, False]])
        """
        mask = None if self.valid is None else self.valid[rows]
        if self.anchor_groups is not None and self.candidate_groups is not None:
            groups = self.candidate_groups
            columns = groups[None] if groups.ndim == 1 else groups[rows]
            other = self.anchor_groups[rows, None] != columns
            mask = other if mask is None else mask & other
        excluded = [index[rows, None] for index in (self.own, self.positive) if index is not None]
        if excluded:
            if mask is None:
                count = rows.stop - rows.start
                mask = torch.ones(count, candidates, dtype=torch.bool, device=device)
            mask = mask.scatter(1, torch.cat(excluded, dim=1), False)
        return mask


@dataclass(frozen=True)
class ContrastiveBatch:
    """Everything that a contrastive loss is computed from, whatever layout it came in.

    Attributes:
        anchors: embeddings being trained.
        positives: each anchor's positive, row by row.
        candidates: ``[candidates, dim]`` shared by all anchors, or ``[anchors, candidates, dim]``.
        rule: which candidates count for which anchor.
    """

    anchors: Float[Tensor, "anchors dim"]
    positives: Float[Tensor, "anchors dim"]
    candidates: Float[Tensor, "*own candidates dim"]
    rule: CandidateRule

    @property
    def num_anchors(self) -> int:
        """Number of anchors."""
        return self.anchors.shape[0]

    @property
    def num_candidates(self) -> int:
        """Number of candidate columns, those that do not count included."""
        return self.candidates.shape[-2]

    def columns(self, rows: slice) -> Float[Tensor, "*own candidates dim"]:
        """The candidates of some anchors: all where they are shared, else these anchors' own."""
        return self.candidates if self.candidates.ndim == 2 else self.candidates[rows]

    def mask(self, rows: slice | None = None) -> Bool[Tensor, "rows candidates"] | None:
        """The rule's mask for some anchors (all where absent)."""
        rows = slice(0, self.num_anchors) if rows is None else rows
        return self.rule.mask(rows, self.num_candidates, self.anchors.device)

    def log_counts(self, rows: slice, dtype: torch.dtype) -> Float[Tensor, "#rows"]:
        """Log of the number of candidates of some anchors; -inf for an anchor with none."""
        excluded = self.rule.excluded_columns(rows)
        mask = self.mask(rows) if excluded is None else None
        if mask is not None:
            counts = mask.sum(dim=1)
        else:
            few = 0 if excluded is None else excluded.shape[1]
            counts = torch.full((1,), self.num_candidates - few, device=self.anchors.device)
        return counts.to(dtype).log()
