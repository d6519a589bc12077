"""What losses are computed from: rows and all that is known of each, and batches of rows.

A new kind of knowledge is one more field of :class:`Rows`: its methods take, join and gather it
with the embeddings. A :class:`Batch` says which rows are whose positives and which columns are
whose candidates. It is made by one of three functions, one for each layout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import torch
from torch.nn import functional as F

from bayescl.axes import Bool, Float, Int, Tensor
from bayescl.checks import check_floating, check_mask, check_shape, check_tensor, is_eager_cpu
from bayescl.functional.excluded import Excluded

Layout = Literal["two_views", "in_batch", "sampled", "logits"]
"""Ways to call a loss."""

__all__ = ["UNKNOWN", "Batch", "Layout", "Rows", "in_batch", "sampled", "two_views"]

UNKNOWN = -1
"""In groups: in no group. In domains and labels: not known."""

_UNEQUAL = torch.iinfo(torch.int64).min  # stands for UNKNOWN where it must equal nothing


@dataclass(frozen=True)
class Rows:
    """Embeddings of some rows, and all that is known of each. What is None is known of no row.

    ``*own`` stands for an axis of anchors if each anchor has its own rows.

    Attributes:
        embeddings: one vector a row.
        groups: rows with an equal key are never each other's negatives; -1 is in no group.
        domains: only rows of equal domains, in every key, are each other's candidates; -1 is of
            unknown domain, a candidate for all.
        labels: class of each row, -1 where unknown.
        audit: classes that only measure, -1 where unknown.
        log_q: log probability that a row is sampled.
        factors: the posterior that two rows share a class is the product of their factors.
    """

    embeddings: Float[Tensor, "*own rows dim"]
    groups: Int[Tensor, "*own rows keys"] | None = None
    domains: Int[Tensor, "*own rows keys"] | None = None
    labels: Int[Tensor, "*own rows"] | None = None
    audit: Int[Tensor, "*own rows"] | None = None
    log_q: Float[Tensor, "*own rows"] | None = None
    factors: Float[Tensor, "*own rows factors"] | None = None

    def __len__(self) -> int:
        """Number of rows, of each anchor if these are its own."""
        return self.embeddings.shape[-2]

    @property
    def are_own(self) -> bool:
        """Whether each anchor has its own rows."""
        return self.embeddings.ndim == 3

    def map(self, function: Callable[[Tensor], Tensor]) -> Rows:
        """Apply a function that keeps rows together to all that is known."""
        known = vars(self).items()
        return Rows(**{name: function(part) for name, part in known if part is not None})

    def __getitem__(self, index: Tensor | slice) -> Rows:
        """Take some of the rows; of rows that are an anchor's own, those of some anchors."""
        return self.map(lambda part: part[index])

    def with_coordinate(self, numbers: Tensor) -> Rows:
        """Give embeddings one more coordinate: a number of each row, or one for all."""
        # In half precision a logarithm would have three digits.
        rows = self.embeddings
        dtype = torch.promote_types(rows.dtype, torch.float32)
        numbers = numbers.to(dtype).expand(rows.shape[:-1])[..., None]
        return replace(self, embeddings=torch.cat([rows, numbers], dim=-1))


@dataclass(frozen=True)
class Batch:
    """Anchors, their positives and their candidates, and which candidates count for whom.

    Attributes:
        layout: the call that it comes from.
        anchors: rows to be trained.
        positives: one row a pair.
        columns: one or more blocks of candidates, side by side; a block is shared by all anchors,
            or holds each anchor's own.
        anchor_of: which anchor each positive belongs to; None if each anchor has one, in order.
        own: column of each anchor itself, if anchors are among the first block.
        positive: column of each positive, if that is known to be in the first block.
        valid: True where a column may count for an anchor; None if all may.
        weight: of each pair's loss; None if all weigh 1.
        trust: how far the posterior of pairs is trusted, in [0, 1].
        is_measured: whether audit labels have measured that trust.
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
    trust: float | Float[Tensor, ""] = 1.0
    is_measured: bool = False

    @property
    def num_anchors(self) -> int:
        """Number of anchors."""
        return len(self.anchors)

    @property
    def num_candidates(self) -> int:
        """Number of columns, including those that do not count."""
        return sum(map(len, self.columns))

    @property
    def is_square(self) -> bool:
        """Whether the only columns are the anchors themselves, as with two views."""
        return self.columns[0] is self.anchors and len(self.columns) == 1

    @property
    def pair_anchors(self) -> Rows:
        """The anchor of each pair."""
        return self.anchors if self.anchor_of is None else self.anchors[self.anchor_of]

    # ------------------------------------------------------------------ which columns count

    def excluded(self, rows: slice) -> Excluded:
        """The columns that are not candidates of some anchors, a slice with start and stop."""
        if self._needs_mask:
            return Excluded(mask=self._excluded_mask(rows))
        few = self._columns_alone  # no mask is built
        if few.columns is None or rows.stop - rows.start == len(few.columns):
            return few
        return few.of(rows)

    def mask(self, rows: slice | None = None) -> Bool[Tensor, "rows candidates"] | None:
        """True where a column is a candidate of an anchor; None if all are."""
        rows = slice(0, self.num_anchors) if rows is None else rows
        excluded = self.excluded(rows)
        if excluded.mask is not None:
            return ~excluded.mask
        if excluded.columns is None:
            return None
        shape = rows.stop - rows.start, self.num_candidates
        every = torch.ones(shape, dtype=torch.bool, device=self.anchors.embeddings.device)
        return every.scatter(1, excluded.columns, False)

    def log_counts(self, rows: slice, dtype: torch.dtype) -> Float[Tensor, "#rows"]:
        """Log of the number of candidates of some anchors; -inf for an anchor with none."""
        excluded, device = self.excluded(rows), self.anchors.embeddings.device
        if excluded.mask is not None:
            return excluded.counts(self.num_candidates, device).to(dtype).log()
        left = self.num_candidates - excluded.few
        return torch.full((1,), math.log(left) if left else -math.inf, dtype=dtype, device=device)

    @property
    def _columns_alone(self) -> Excluded:
        """The anchors themselves and their positives, if each has one."""
        own, positive = self.own, None if self.anchor_of is not None else self.positive
        if own is not None and positive is not None:
            both: Excluded = _own_and_positive(own, positive)
            return both
        return Excluded(None if positive is None else positive[:, None])

    @property
    def _needs_mask(self) -> bool:
        known = self.anchors.groups is not None or self.anchors.domains is not None
        several = self.anchor_of is not None and self.positive is not None
        return known or several or self.valid is not None

    def _excluded_mask(self, rows: slice) -> Bool[Tensor, "rows candidates"]:
        """True where a column does not count, in new memory."""
        device = self.anchors.embeddings.device
        if self.valid is not None:
            mask = ~self.valid[rows]
        else:
            shape = rows.stop - rows.start, self.num_candidates
            mask = torch.zeros(shape, dtype=torch.bool, device=device)
        parts = torch.split(mask, [len(block) for block in self.columns], dim=1)
        for block, part in zip(self.columns, parts, strict=True):
            for mine, theirs in _keys(self.anchors.groups, block.groups, rows):
                part |= _equal(mine.masked_fill(mine == UNKNOWN, _UNEQUAL), theirs)
            for mine, theirs in _keys(self.anchors.domains, block.domains, rows):
                part |= ~_equal(mine, theirs) & (mine != UNKNOWN) & (theirs != UNKNOWN)
        alone = self._columns_alone.columns
        if alone is not None:
            mask.scatter_(1, alone[rows], True)
        if self.anchor_of is not None and self.positive is not None:
            held = (self.anchor_of >= rows.start) & (self.anchor_of < rows.stop)
            mask[self.anchor_of[held] - rows.start, self.positive[held]] = True
        return mask

    # ------------------------------------------------------------------ what is known of pairs

    @property
    def knows_pairs(self) -> bool:
        """Whether anything is known of which pairs are of one class."""
        return self.anchors.factors is not None or self.anchors.labels is not None

    def posterior(
        self, rows: slice | None = None
    ) -> tuple[Float[Tensor, "rows candidates"] | None, Bool[Tensor, "rows candidates"] | None]:
        """Posterior that pairs are of one class, and where labels settle it; None if unknown.

        Only of two views, whose classes may form without losing an exact pair, is it said where.
        There, a posterior whose trust is measured counts as settled everywhere.
        """
        rows = slice(0, self.num_anchors) if rows is None else rows
        tile, mine = None, self.anchors[rows]
        if mine.factors is not None:
            tiles = [_products(mine.factors, block.factors, rows) for block in self.columns]
            tile = _joined(tiles).clamp_(0, 1)  # rounding may leave the interval
        merges, settled = self.layout == "two_views", None
        if merges and self.is_measured and tile is not None:
            tile *= self.trust
            settled = torch.ones_like(tile, dtype=torch.bool)
        if mine.labels is None:
            return tile, settled
        of_blocks = []
        for block in self.columns:
            assert block.labels is not None  # as those of anchors are known
            of_blocks.append(block.labels[rows] if block.are_own else block.labels[None])
        theirs = [labels.expand(len(mine), -1) for labels in of_blocks]
        mine_labels, their_labels = mine.labels[:, None], _joined(theirs)
        is_labeled = (mine_labels != UNKNOWN) & (their_labels != UNKNOWN)
        equal = (is_labeled & (mine_labels == their_labels)).to(mine.embeddings.dtype)
        tile = equal if tile is None else torch.where(is_labeled, equal, tile)
        if settled is None and merges:
            settled = is_labeled
        return tile, settled

    @property
    def trust_of_unsettled(self) -> float | Float[Tensor, ""]:
        """How far what :meth:`posterior` does not say to be settled is trusted."""
        return 0.0 if self.is_measured and self.layout == "two_views" else self.trust

    # ------------------------------------------------------------------ changes

    def map_rows(self, function: Callable[[Rows], Rows]) -> Batch:
        """Apply a function to all rows; what was the same rows stays so."""
        made = {id(rows): function(rows) for rows in (self.anchors, self.positives, *self.columns)}
        return replace(
            self,
            anchors=made[id(self.anchors)],
            positives=made[id(self.positives)],
            columns=tuple(made[id(block)] for block in self.columns),
        )

    def with_offsets(self, anchors: Tensor, positives: Tensor, columns: Sequence[Tensor]) -> Batch:
        """Give every row one more coordinate, which adds its products to the similarities."""
        blocks = zip(self.columns, columns, strict=True)
        return replace(
            self,
            anchors=self.anchors.with_coordinate(anchors),
            positives=self.positives.with_coordinate(positives),
            columns=tuple(block.with_coordinate(numbers) for block, numbers in blocks),
        )

    def corrected(self, temperature: float | Tensor) -> Batch:
        """Subtract each row's ``log_q`` from its logits, if there is any."""
        if self.positives.log_q is None:
            return self
        # (a . c + t * -log_q) / t = s - log_q, in every engine, and with the right gradient for t.
        scale = torch.as_tensor(temperature, device=self.anchors.embeddings.device)
        log_q = [block.log_q for block in self.columns if block.log_q is not None]
        corrected = self.with_offsets(scale, -self.positives.log_q, [-part for part in log_q])
        return replace(corrected, positives=replace(corrected.positives, log_q=None))

    def gathered(self, gather: Callable[[Tensor, int], Tensor], starts: Sequence[int]) -> Batch:
        """Replace shared columns by those of all processes.

        Args:
            gather: returns the rows of all processes for this process's part of a block.
            starts: number of rows of lower ranks in each block.
        """

        def of_all(place: int, block: Rows) -> Rows:
            return block if block.are_own else block.map(lambda part: gather(part, place))

        columns = tuple(of_all(place, block) for place, block in enumerate(self.columns))
        own, positive = (
            None if index is None else index + starts[0] for index in (self.own, self.positive)
        )
        return replace(self, columns=columns, own=own, positive=positive)


def write_latest(places: Tensor, rows: Tensor, num_seen: int) -> None:
    """Write rows in place of the oldest, after so many others; of too many, the last."""
    rows, end = rows[-len(places) :], num_seen + len(rows)
    start = (end - len(rows)) % len(places)
    ahead = min(len(rows), len(places) - start)  # the others begin again at the first place
    places[start : start + ahead] = rows[:ahead]
    if ahead < len(rows):
        places[: len(rows) - ahead] = rows[ahead:]


def _keys(
    mine: Tensor | None, theirs: Tensor | None, rows: slice
) -> list[tuple[Int[Tensor, "rows 1"], Int[Tensor, "#rows candidates"]]]:
    """Each key of some anchors, beside that of the columns; nothing if one side has none."""
    if mine is None or theirs is None:
        return []
    theirs = theirs[None] if theirs.ndim == 2 else theirs[rows]
    keys = zip(mine[rows].unbind(-1), theirs.unbind(-1), strict=True)
    return [(of_anchors[:, None], of_columns) for of_anchors, of_columns in keys]


def _equal(keys: Tensor, others: Tensor) -> Bool[Tensor, "rows candidates"]:
    """Where keys are equal; NumPy compares integers in a third of torch's time."""
    if is_eager_cpu(keys) and is_eager_cpu(others):
        return torch.from_numpy(keys.numpy() == others.numpy())
    return keys == others


def _products(factors: Tensor, others: Tensor | None, rows: slice) -> Tensor:
    assert others is not None  # what is known of anchors is known of columns
    if others.ndim == 2:
        return factors @ others.T
    return torch.einsum("ak,ank->an", factors, others[rows])


def _joined(tiles: list[Tensor]) -> Tensor:
    return tiles[0] if len(tiles) == 1 else torch.cat(tiles, dim=1)


# ---------------------------------------------------------------------- the three layouts
#
# Embeddings arrive in one precision, of length 1 if that was asked for (two views excepted), and
# checked but for their shapes.


def two_views(
    view_1: Float[Tensor, "batch dim"],
    view_2: Float[Tensor, "batch dim"],
    *,
    valid: Bool[Tensor, "rows columns"] | None = None,
    gather: bool = False,
    scale: Callable[[Tensor], Tensor] = lambda rows: rows,
    **known: Tensor | None,
) -> Batch:
    """Every row of both views, scaled at once, is an anchor; its other view is the positive."""
    check_shape("view_2", view_2, view_1.shape)
    batch = view_1.shape[0]
    if batch < 2 and not gather:
        raise ValueError("view_1 must hold at least 2 rows, got 1: a single item has no candidates")
    check_valid(valid, (2 * batch, 2 * batch), view_1.device, gather)
    embeddings = scale(torch.cat([view_1, view_2]))
    of_items = vars(rows_of(view_1, **known))
    twice = {name: torch.cat([of_items[name]] * 2) for name in known if of_items[name] is not None}
    rows, positives = Rows(embeddings, **twice), Rows(embeddings.roll(batch, 0), **twice)
    own, positive = _places_of_two_views(batch, embeddings.device)
    return _without_unknown(
        Batch("two_views", rows, positives, (rows,), None, own, positive, valid)
    )


def _without_unknown(batch: Batch) -> Batch:
    """The batch without labels if surely no anchor has one: the loss is then as without them."""
    labels = batch.anchors.labels
    if labels is None or not _all_unknown(labels):
        return batch
    return batch.map_rows(lambda rows: replace(rows, labels=None))


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    """Keep a function's last results, which every step asks for, but not while it is traced."""

    @lru_cache(maxsize=8)
    def cached(*args: Any) -> Any:
        with torch.inference_mode(mode=False):  # else autograd could not use the result
            return function(*args)

    def kept(*args: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args)
        return cached(*args)

    return kept


@_kept
def _own_and_positive(own: Tensor, positive: Tensor) -> Excluded:
    """Columns of the anchors and of their positives; the same for every step of one size."""
    return Excluded(torch.stack([own, positive], dim=1))


@_kept
def _arange(count: int, device: torch.device) -> Tensor:
    return torch.arange(count, device=device)


@_kept
def _places_of_two_views(batch: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Columns of the anchors and of their positives; the same for every step."""
    own = torch.arange(2 * batch, device=device)
    return own, own.roll(batch)


def in_batch(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "pairs dim"],
    *,
    anchor_of: Int[Tensor, " pairs"] | None = None,
    extra: Float[Tensor, "*own extra dim"] | None = None,
    valid: Bool[Tensor, "batch columns"] | None = None,
    log_q: Float[Tensor, " columns"] | None = None,
    gather: bool = False,
    of_extra: dict[str, Tensor | None],
    **known: Tensor | None,
) -> Batch:
    """The candidates are the other pairs' positives and ``extra``.

    What is known is one value a pair.
    """
    anchor_of = _checked_pairs(anchors, positives, anchor_of)
    batch, pairs = len(anchors), len(positives)
    if batch < 2 and extra is None and not gather:
        raise ValueError(
            "anchors must hold at least 2 rows, got 1: a single pair has no candidates"
        )
    of_pairs = rows_of(positives, **known)
    count = 0 if extra is None else extra.shape[-2]
    check_valid(valid, (batch, pairs + count), anchors.device, gather)
    if log_q is not None:
        own_extra = extra is not None and extra.ndim == 3
        check_log_q("log_q", log_q, anchors, (pairs + (0 if own_extra else count),))
        log_q = log_q.detach()
        of_pairs = replace(of_pairs, log_q=log_q[:pairs])
        if count:
            of_extra |= {"log_q": log_q.new_zeros(count) if own_extra else log_q[pairs:]}
    of_anchors = of_pairs if anchor_of is None else _first_of_each(of_pairs, anchor_of, batch)
    of_anchors = replace(of_anchors, embeddings=anchors, log_q=None)
    columns: tuple[Rows, ...] = (of_pairs,)
    if extra is not None:
        columns += (_others("extra", extra, of_anchors, of_extra),)
    place = _arange(pairs, anchors.device)
    return _without_unknown(
        Batch("in_batch", of_anchors, of_pairs, columns, anchor_of, None, place, valid)
    )


def sampled(
    anchors: Float[Tensor, "batch dim"],
    positives: Float[Tensor, "pairs dim"] | Int[Tensor, " pairs"],
    candidates: Float[Tensor, "*own candidates dim"],
    *,
    anchor_of: Int[Tensor, " pairs"] | None = None,
    valid: Bool[Tensor, "batch candidates"] | None = None,
    log_q: Float[Tensor, "*own candidates"] | None = None,
    positive_log_q: Float[Tensor, " pairs"] | None = None,
    gather: bool = False,
    of_candidates: dict[str, Tensor | None],
    **known: Tensor | None,
) -> Batch:
    """The candidates were drawn, for all anchors together or for each its own.

    What is known is one value an anchor. Whole numbers as positives are their places among shared
    candidates.
    """
    batch, place = len(anchors), None
    if not positives.is_floating_point():
        _check_place(positives, candidates, anchor_of, log_q, gather)
        place = positives.long()
        positives = F.embedding(place, candidates)
    anchor_of = _checked_pairs(anchors, positives, anchor_of)
    of_anchors = rows_of(anchors, **known)
    shape = (batch, candidates.shape[-2])
    check_valid(valid, shape, anchors.device, gather and candidates.ndim == 2)
    check_together(log_q, positive_log_q)
    of_pairs = of_anchors if anchor_of is None else of_anchors[anchor_of]
    of_pairs = replace(of_pairs, embeddings=positives)
    if log_q is not None and positive_log_q is not None:
        check_log_q("log_q", log_q, anchors, candidates.shape[:-1])
        check_log_q("positive_log_q", positive_log_q, anchors, positives.shape[:1])
        of_candidates |= {"log_q": log_q.detach()}
        of_pairs = replace(of_pairs, log_q=positive_log_q.detach())
    columns = (_others("candidates", candidates, of_anchors, of_candidates),)
    if (of_anchors.groups is None) != (columns[0].groups is None):
        raise ValueError("groups and candidate_groups must be given together")
    return _without_unknown(
        Batch("sampled", of_anchors, of_pairs, columns, anchor_of, None, place, valid)
    )


def reversed_pairs(
    batch: Batch, valid: Bool[Tensor, "pairs anchors"] | None, log_q: Tensor | None
) -> Batch:
    """The second direction of pairs: each positive is an anchor, against all anchors."""
    anchors, pairs = batch.anchors, batch.positives
    if log_q is not None:
        check_log_q("anchor_log_q", log_q, anchors.embeddings, (len(anchors),))
        anchors = replace(anchors, log_q=log_q.detach())
    place = batch.positive if batch.anchor_of is None else batch.anchor_of
    return replace(
        batch,
        anchors=replace(pairs, log_q=None),
        positives=anchors if batch.anchor_of is None else anchors[batch.anchor_of],
        columns=(anchors,),
        anchor_of=None,
        positive=place,
        valid=valid,
    )


def rows_of(embeddings: Float[Tensor, "*own rows dim"], **known: Tensor | None) -> Rows:
    """Check what is known of rows, and join it with their embeddings.

    Args:
        embeddings: one a row.
        **known: fields of :class:`Rows`, which messages call by these names.
    """
    named: dict[str, tuple[str, Tensor | None]] = {
        name: (name, part) for name, part in known.items() if part is not None
    }
    return _checked_rows(embeddings, named) if named else Rows(embeddings)


def _others(kind: str, embeddings: Tensor, anchors: Rows, known: dict[str, Tensor | None]) -> Rows:
    """Columns that are nobody's positives; what anchors know and they do not is unknown."""
    dim, own = anchors.embeddings.shape[1], embeddings.ndim == 3
    check_shape(kind, embeddings, (*((len(anchors),) if own else ()), kind, dim))
    prefix = kind.removesuffix("s") if kind == "candidates" else kind
    named: dict[str, tuple[str, Tensor | None]] = {}
    for field, part in known.items():
        mine = getattr(anchors, field, None)
        if part is not None and mine is None and field != "log_q":
            raise ValueError(f"{prefix}_{field} needs {field}")
        named[field] = (f"{prefix}_{field}", part)
    rows = _checked_rows(embeddings, named, like=anchors)
    shape = embeddings.shape[:-1]
    unknown: dict[str, Tensor] = {}
    for field in ("groups", "domains", "labels"):
        mine = getattr(anchors, field)
        if mine is None or getattr(rows, field) is not None:
            continue
        if field == "groups" and kind == "candidates":
            continue  # refused by the caller
        unknown[field] = mine.new_full((*shape, *mine.shape[1:]), UNKNOWN)
    return replace(rows, **unknown)


def _checked_rows(
    embeddings: Tensor, known: dict[str, tuple[str, Tensor | None]], like: Rows | None = None
) -> Rows:
    """Check what is known of rows, each under a name for messages."""
    shape, device = embeddings.shape[:-1], embeddings.device
    fields: dict[str, Tensor] = {}
    for field, (name, part) in known.items():
        if part is None:
            continue
        if field == "log_q":
            fields[field] = part
        elif field in ("labels", "audit"):
            check_labels(name, part, shape, device)
            fields[field] = part.long()
        else:
            known_keys = getattr(like, field, None)
            keys = None if known_keys is None else known_keys.shape[-1]
            check_keys(name, part, shape, device, keys=keys)
            fields[field] = part.long().reshape(*shape, -1)
    return Rows(embeddings, **fields)


def _all_unknown(labels: Tensor) -> bool:
    """Whether surely no label is known."""
    return is_eager_cpu(labels) and not bool((labels != UNKNOWN).any())


def _first_of_each(pairs: Rows, anchor_of: Tensor, anchors: int) -> Rows:
    """What is known of each anchor's first pair, and so of the anchor; nothing if it has none."""
    count = len(anchor_of)
    order = torch.arange(count, device=anchor_of.device)
    first = anchor_of.new_full((anchors,), count).scatter_reduce(0, anchor_of, order, "amin")
    has_none = first == count
    known = pairs[first.clamp(max=count - 1)]
    return known.map(
        lambda part: part.masked_fill(has_none.view(-1, *[1] * (part.ndim - 1)), UNKNOWN)
    )


# ---------------------------------------------------------------------- checks


def _checked_pairs(anchors: Tensor, positives: Tensor, anchor_of: Tensor | None) -> Tensor | None:
    """Refuse positives that do not belong to the anchors; return whose each is, as an index."""
    if anchor_of is None:
        check_shape("positives", positives, anchors.shape)
        return None
    check_shape("positives", positives, ("pairs", anchors.shape[1]))
    _check_places("anchor_of", anchor_of, positives.shape[:1], "anchors", anchors)
    return anchor_of.long()


def _check_place(
    place: Tensor, candidates: Tensor, anchor_of: Tensor | None, log_q: Tensor | None, gather: bool
) -> None:
    """Refuse places of positives where candidates are not shared rows of this process."""
    if anchor_of is None or candidates.ndim != 2 or log_q is not None or gather:
        raise ValueError(
            "positives must be embeddings without anchor_of, with log_q, and if candidates are an "
            "anchor's own or gathered; got places among the candidates"
        )
    _check_places("positives", place, anchor_of.shape, "candidates", candidates)


def _check_places(name: str, places: Tensor, shape: Sequence[int], kind: str, rows: Tensor) -> None:
    """Refuse integers that are not places of rows, as many as the shape says."""
    check_keys(name, places, shape, rows.device, keys=0)
    if is_eager_cpu(places) and len(places):
        low, high = (int(end) for end in places.aminmax())
        if low < 0 or high >= len(rows):
            raise ValueError(
                f"{name} must hold places of {kind}, 0 to {len(rows) - 1}, "
                f"got {low if low < 0 else high}"
            )


def check_log_q(name: str, log_q: Tensor, rows: Tensor, shape: Sequence[int]) -> None:
    """Refuse log probabilities that are not floating-point, of this shape and beside the rows."""
    check_floating(name, log_q, rows.device)
    check_shape(name, log_q, shape)


def check_together(log_q: Tensor | None, positive_log_q: Tensor | None) -> None:
    """Refuse one of two corrections without the other."""
    if (log_q is None) != (positive_log_q is None):
        raise ValueError("log_q and positive_log_q must be given together")


def check_valid(
    valid: Tensor | None, shape: tuple[int, int], device: torch.device, gather: bool
) -> None:
    """Refuse a mask of the wrong shape; that of other processes' candidates is unknown here."""
    if valid is not None:
        columns = "candidates of all processes" if gather else shape[1]
        check_mask("valid", valid, (shape[0], columns), device)
        if not gather and is_eager_cpu(valid) and not valid.numpy().any():
            raise ValueError("valid must leave at least one row a candidate, got False everywhere")


def check_keys(
    name: str,
    keys_of_rows: Tensor,
    shape: Sequence[int],
    device: torch.device | None = None,
    *,
    keys: int | None = None,
) -> None:
    """Refuse integers that do not belong to rows: one for each, or ``keys`` (default: any)."""
    check_tensor(name, keys_of_rows, device)
    if keys_of_rows.is_floating_point() or keys_of_rows.is_complex():
        raise ValueError(f"{name} must hold integers, got {keys_of_rows.dtype}")
    wanted: tuple[Any, ...] = tuple(shape)
    if keys_of_rows.ndim == len(wanted) + 1 and keys_of_rows.shape[-1] > 0 and keys != 0:
        wanted = (*wanted, keys_of_rows.shape[-1] if keys is None else keys)
    elif keys is not None and keys > 1:
        wanted = (*wanted, keys)
    check_shape(name, keys_of_rows, wanted)


def check_labels(name: str, labels: Tensor, shape: Sequence[int], device: torch.device) -> None:
    """Refuse labels that are not integers from -1 up, or have another shape."""
    check_keys(name, labels, shape, device, keys=0)
    if is_eager_cpu(labels) and labels.numel() and int(labels.min()) < UNKNOWN:
        raise ValueError(f"{name} must be at least -1, which means unknown, got {labels.min():d}")
