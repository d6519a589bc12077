"""Rows, batches and masks of candidates.

:class:`Rows` holds embeddings and their metadata. :class:`Batch` holds anchors, their positives and
the columns of their candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

import torch

from bayescl._checks import check_floating, check_keys, check_labels, check_shape
from bayescl._ops.similarity import unit_vectors
from bayescl._types import Bool, Float, Int, Tensor

Layout = Literal["two_views", "in_batch", "sampled", "logits"]
"""Calls of a loss."""

__all__ = ["UNKNOWN", "Batch", "Excluded", "Layout", "Rows", "TargetRule"]

UNKNOWN = -1
"""Value of a group, a domain or a label that is not known."""

_MATCHES_NOTHING = torch.iinfo(torch.int64).min  # replaces UNKNOWN in one side of a comparison


@dataclass(frozen=True)
class Rows:
    """Embeddings and the metadata of each row. A field is ``None`` if it is not given.

    Pass ``Rows`` instead of a tensor where rows have metadata of their own:
    ``loss.in_batch(queries, documents, extra=Rows(hard, groups=ids))``.

    Args:
        embeddings: ``[rows, dim]``, or ``[anchors, rows, dim]`` if each anchor has its own rows.
            The other fields have the same leading axes.
        groups: Integer key per row, or several in a last axis. Rows that share a key are never
            negatives of each other. -1 belongs to no group.
        domains: Integer key per row, or several in a last axis. Only rows that agree in every key
            are candidates of each other. -1 is unknown and agrees with every key.
        labels: Class of each row, -1 for unknown.
        log_q: Log probability with which each row is sampled.
        teacher: Embedding of each row by the teacher. Its dimension may differ from ``dim``.

    Example:
        >>> rows = Rows(torch.zeros(3, 2), groups=torch.tensor([0, 0, 1]))
        >>> len(rows), rows[:2].groups
        (3, tensor([0, 0]))
    """

    embeddings: Float[Tensor, "*own rows dim"]
    groups: Int[Tensor, "*own_rows_keys"] | None = None
    domains: Int[Tensor, "*own_rows_keys"] | None = None
    labels: Int[Tensor, "*own rows"] | None = None
    log_q: Float[Tensor, "*own rows"] | None = None
    teacher: Float[Tensor, "*own rows teacher_dim"] | None = None

    def __len__(self) -> int:
        """Return the number of rows, per anchor if each anchor has its own."""
        return self.embeddings.shape[-2]

    @property
    def are_own(self) -> bool:
        """Whether each anchor has its own rows."""
        return self.embeddings.ndim == 3

    @property
    def metadata(self) -> dict[str, Tensor]:
        """The fields that are given, by name, without the embeddings."""
        return {
            name: part
            for name, part in vars(self).items()
            if part is not None and name != "embeddings"
        }

    def map(self, function: Callable[[Tensor], Tensor]) -> Rows:
        """Apply a function to the embeddings and to every field that is given."""
        fields = {name: function(part) for name, part in self.metadata.items()}
        return replace(self, embeddings=function(self.embeddings), **fields)

    def __getitem__(self, index: Tensor | slice) -> Rows:
        """Return some of the rows, or the own rows of some anchors."""
        return self.map(lambda part: part[index])

    def checked(self, name: str, like: Rows | None = None) -> Rows:
        """Return the rows in canonical form: keys ``[*rows, keys]``, teacher of unit length.

        Teacher and ``log_q`` get the embeddings' precision.

        Args:
            name: Name of the rows in error messages.
            like: Rows that are compared with these. The number of keys and the teacher's dimension
                must agree. Default: no check.

        Raises:
            ValueError: if a field does not fit the embeddings.
        """
        known = self.metadata
        if not known:
            return self
        shape, device = self.embeddings.shape[:-1], self.embeddings.device
        dtype = self.embeddings.dtype
        fields: dict[str, Tensor] = {}
        for field, part in known.items():
            title = f"{name}.{field}" if name else field
            if field in ("groups", "domains"):
                other = getattr(like, field, None)
                keys = None if other is None else other.shape[-1]
                check_keys(title, part, shape, device, keys=keys)
                fields[field] = part.long().reshape(*shape, -1)
            elif field == "labels":
                check_labels(title, part, shape, device)
                fields[field] = part.long()
            elif field == "teacher":
                check_floating(title, part, device)
                other = getattr(like, field, None)
                dim = "dim" if other is None else other.shape[-1]
                check_shape(title, part, (*shape, dim))
                if part.numel() == 0:
                    raise ValueError(f"{title} must not be empty, got shape {list(part.shape)}")
                wide = part.detach().to(torch.promote_types(part.dtype, dtype))
                fields[field] = unit_vectors(wide).to(dtype)
            else:
                check_floating(title, part, device)
                check_shape(title, part, shape)
                fields[field] = part.detach().to(dtype)
        return replace(self, **fields)

    def with_coordinate(self, values: Tensor) -> Rows:
        """Append a coordinate to the embeddings: one value per row, or one for all rows."""
        # In half precision a logarithm would have three digits.
        rows = self.embeddings
        dtype = torch.promote_types(rows.dtype, torch.float32)
        values = values.to(dtype).expand(rows.shape[:-1])[..., None]
        return replace(self, embeddings=torch.cat([rows, values], dim=-1))


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

    def fill_(self, values: Float[Tensor, "rows candidates"], value: float) -> None:
        """Overwrite the excluded entries of ``values``, in place."""
        if self.mask is not None:
            values.masked_fill_(self.mask, value)
        elif self.columns is not None:
            values.scatter_(1, self.columns, value)


@dataclass(frozen=True)
class Batch:
    """Anchors, their positives and their candidates.

    Attributes:
        layout: Call that built the batch.
        anchors: Rows to be trained.
        positives: One row per pair.
        columns: One or more blocks of candidates, side by side. All anchors share a block, or each
            anchor has its own rows in it.
        anchor_of: Anchor of each pair. ``None``: pair i belongs to anchor i.
        own: Column of each anchor itself, if the first block holds the anchors.
        positive: Column of each positive, if the first block holds the positives.
        valid: False where a column must not be a candidate of an anchor.
        weight: Non-negative weight of each pair.
        target: Parameters of target probabilities. ``None`` for no target.
        is_replicated: Whether all processes hold the same shared columns. They are then not
            gathered.
    """

    layout: Layout
    anchors: Rows
    positives: Rows
    columns: tuple[Rows, ...]
    anchor_of: Int[Tensor, " pairs"] | None = None
    own: Int[Tensor, " anchors"] | None = None
    positive: Int[Tensor, " pairs"] | None = None
    valid: Bool[Tensor, "anchors candidates"] | None = None
    weight: Float[Tensor, " pairs"] | None = None
    target: TargetRule | None = None
    is_replicated: bool = False

    @property
    def num_anchors(self) -> int:
        """Number of anchors."""
        return len(self.anchors)

    @property
    def num_candidates(self) -> int:
        """Number of columns, including excluded ones."""
        return sum(map(len, self.columns))

    @property
    def is_square(self) -> bool:
        """Whether the anchors are the only columns, as with two views."""
        return self.columns[0] is self.anchors and len(self.columns) == 1

    @property
    def pair_anchors(self) -> Rows:
        """The anchor of each pair."""
        return self.anchors if self.anchor_of is None else self.anchors[self.anchor_of]

    def map_rows(self, function: Callable[[Rows], Rows]) -> Batch:
        """Apply a function to all rows. Equal objects stay equal objects."""
        made = {id(rows): function(rows) for rows in (self.anchors, self.positives, *self.columns)}
        return replace(
            self,
            anchors=made[id(self.anchors)],
            positives=made[id(self.positives)],
            columns=tuple(made[id(block)] for block in self.columns),
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

    def log_counts(self, rows: slice, dtype: torch.dtype) -> Float[Tensor, "#rows"]:
        """Return the log of the number of candidates of some anchors; -inf for none."""
        excluded, device = self.excluded(rows), self.anchors.embeddings.device
        if excluded.mask is not None:
            return (~excluded.mask).sum(dim=1).to(dtype).log()
        few = 0 if excluded.columns is None else excluded.columns.shape[1]
        left = self.num_candidates - few
        return torch.full((1,), math.log(left) if left else -math.inf, dtype=dtype, device=device)

    def excluded(self, rows: slice) -> Excluded:
        """Return the columns that are not candidates of some anchors, a slice with bounds."""
        if self.needs_mask:
            return Excluded(mask=self._excluded_mask(rows))
        alone = self._alone
        return Excluded(None if alone is None else alone[rows])

    @property
    def _alone(self) -> Int[Tensor, "anchors few"] | None:
        """Columns of each anchor itself and of its positive, if each anchor has one."""
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
            for mine, theirs in _keys(self.anchors.domains, block.domains, rows):
                part |= (mine != theirs) & (mine != UNKNOWN) & (theirs != UNKNOWN)
        alone = self._alone
        if alone is not None:
            mask.scatter_(1, alone[rows], True)
        if self.anchor_of is not None and self.positive is not None:
            held = (self.anchor_of >= rows.start) & (self.anchor_of < rows.stop)
            mask[self.anchor_of[held] - rows.start, self.positive[held]] = True
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
