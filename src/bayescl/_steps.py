"""Steps between a call and the engine: a second direction, gathering, masks and ``log_q``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import chain
from typing import Any

import torch

from bayescl import distributed
from bayescl._arguments import check_probabilities
from bayescl._checks import check_finite, is_eager_cpu
from bayescl._types import Bool, Float, Int, Tensor
from bayescl.batch import Batch
from bayescl.rows import Rows

_TEMPERATURE = (
    "the temperature (a learnable temperature must be in the module that "
    "DistributedDataParallel wraps)"
)


def reversed_pairs(batch: Batch) -> Batch:
    """Return the batch in the second direction: positives are anchors, anchors candidates."""
    anchors, pairs = batch.anchors, batch.pair_positives
    valid, target = batch.valid, batch.target
    if isinstance(target, Tensor):
        target = target.narrow_copy(1, 0, len(pairs)).t()
        target = target.coalesce() if target.is_sparse else target
        check_probabilities("target (transposed for both_directions)", target)
    return replace(
        batch,
        anchors=pairs,
        positives=batch.pair_anchors,
        columns=(anchors,),
        anchor_of=None,
        positive=batch.positive if batch.anchor_of is None else batch.anchor_of,
        valid=None if valid is None else valid[:, : len(pairs)].T,
        target=target,
    )


def gathered(
    batches: Sequence[Batch], temperature: float | Tensor, settings: Sequence[tuple[str, Any]]
) -> tuple[list[Batch], float]:
    """Replace shared columns by the columns of all processes, ordered by rank.

    An anchor's own columns stay as they are, and so do replicated ones.

    Args:
        batches: This process's batches, one per direction.
        temperature: Temperature of the softmax.
        settings: Names and values of further settings that must agree.

    Returns:
        The batches, and the factor by which each process multiplies its mean, so that the average
        over processes is the mean over all pairs.

    Raises:
        ValueError: on all processes, if their calls do not fit together.
    """
    weight = float(sum(map(total_weight, batches)))
    first = batches[0]
    shared = [not block.are_own for block in first.columns]
    if first.is_replicated or not any(shared):
        call = f"{first.layout} with {'the same' if any(shared) else 'own'} candidates"
        return list(batches), mean_factor(call, weight, settings)
    scale = torch.as_tensor(temperature, device="cpu").detach().item()
    same = [
        ("the layout", first.layout),
        *settings,
        (_TEMPERATURE, f"{scale:.4g}"),
        ("the number of directions", len(batches)),
        *chain.from_iterable(map(_kind, batches)),
    ]
    # Everything that must agree is compared before the first rows are sent.
    notes = distributed.exchange({"weight": weight, "parts": list(map(_note, batches))}, same)
    whole = []
    for direction, batch in enumerate(batches):
        parts = [note["parts"][direction] for note in notes]
        sizes = [list(block) for block in zip(*(part["rows"] for part in parts), strict=True)]
        total = sum(map(sum, sizes))
        for rank, part in enumerate(parts):
            for name, own in (("valid", None), ("target", sum(part["rows"]))):
                if part[name] not in (None, total, own):
                    raise ValueError(
                        f"{name} must have {total} shared columns on rank {rank} (the candidates "
                        f"of all processes, ordered by rank), got {part[name]}"
                    )
        whole.append(_with_columns_of_all(batch, sizes))
    return whole, _factor(notes)


def mean_factor(call: str, weight: float, settings: Sequence[tuple[str, Any]]) -> float:
    """Return the factor of :func:`gathered` if only the weight of the pairs is exchanged."""
    same = [("the layout", call), *settings]
    return _factor(distributed.exchange({"weight": weight}, same))


def total_weight(batch: Batch) -> float | Tensor:
    """Return the total weight of a batch's pairs."""
    return batch.num_pairs if batch.weight is None else batch.weight.sum()


def _factor(notes: Sequence[dict[str, Any]]) -> float:
    weights = [float(note["weight"]) for note in notes]
    return len(weights) * weights[distributed.rank()] / sum(weights)


def _kind(batch: Batch) -> list[tuple[str, Any]]:
    """Return names and values that must be identical on all processes."""
    widths = {name: list(part.shape[1:]) for name, part in batch.anchors.metadata.items()}
    kinds = (distributed.kind_of(block.embeddings.flatten(0, -2)) for block in batch.columns)
    return [
        ("whether extra is given", len(batch.columns) > 1),
        ("whether anchors have their own candidates", [block.are_own for block in batch.columns]),
        *(
            (f"the shape of {field.name} per row", widths.get(field.name))
            for field in fields(Rows)
            if field.name not in ("embeddings", "log_q")
        ),
        *(
            (
                f"whether candidate block {number} has {field.name}",
                getattr(block, field.name) is not None,
            )
            for number, block in enumerate(batch.columns)
            for field in fields(Rows)
        ),
        *chain.from_iterable(kinds),
    ]


def _note(batch: Batch) -> dict[str, Any]:
    """Return the sizes of this process's rows, to send to the other processes."""
    own = sum(block.embeddings.shape[1] for block in batch.columns if block.are_own)
    target = batch.target if isinstance(batch.target, Tensor) else None
    return {
        "rows": [0 if block.are_own else len(block.embeddings) for block in batch.columns],
        "valid": None if batch.valid is None else batch.valid.shape[1] - own,
        "target": None if target is None else target.shape[1] - own,
    }


def _with_columns_of_all(batch: Batch, sizes: list[list[int]]) -> Batch:
    """Gather the shared columns, given the number of rows of each process in each block."""

    def gather(block: Rows, counts: list[int]) -> Rows:
        if block.are_own:
            return block
        return block.map(lambda part: distributed.gather_rows(part, counts))

    def moved(index: Int[Tensor, " rows"] | None) -> Int[Tensor, " rows"] | None:
        return None if index is None else index + sum(sizes[0][: distributed.rank()])

    columns = tuple(gather(*pair) for pair in zip(batch.columns, sizes, strict=True))
    whole = replace(batch, columns=columns, own=moved(batch.own), positive=moved(batch.positive))
    if isinstance(batch.target, Tensor) and batch.target.shape[1] < whole.num_candidates:
        whole = replace(whole, target=_with_zeros(batch, whole, sizes))
    return whole


def _with_zeros(batch: Batch, whole: Batch, sizes: list[list[int]]) -> Tensor:
    """Return the target with zeros for the columns of other processes."""
    rank, start, target = distributed.rank(), 0, batch.target
    assert isinstance(target, Tensor)
    columns_of_blocks = []
    for block, everyone, counts in zip(batch.columns, whole.columns, sizes, strict=True):
        before = start if block.are_own else start + sum(counts[:rank])
        own = torch.arange(before, before + len(block), device=target.device)
        columns_of_blocks.append(own)
        start += len(everyone)
    index = torch.cat(columns_of_blocks)
    if not target.is_sparse:
        return target.new_zeros(len(target), start).index_copy_(1, index, target)
    rows, columns = target.indices()
    indices = torch.stack([rows, index[columns]])
    return torch.sparse_coo_tensor(indices, target.values(), (len(target), start)).coalesce()


def with_zeroed_rows(batch: Batch) -> Batch:
    """Replace rows that contain NaN or infinite values by zeros.

    A pair gets the weight NaN if its anchor, its positive or one of its candidates was replaced,
    and the weight 0 if its anchor has no candidates. Rows that ``valid`` excludes therefore do not
    affect the loss or the gradients. The batch must have ``valid``.
    """
    parts = (batch.anchors, batch.pair_positives, *batch.columns)
    if is_eager_cpu(batch.anchors.embeddings) and all(
        bool(rows.embeddings.detach().sum().isfinite()) for rows in parts
    ):
        return batch

    def is_bad(rows: Rows) -> Bool[Tensor, "*own rows"]:
        return ~rows.embeddings.detach().isfinite().all(dim=-1)

    excluded = batch.excluded(slice(0, batch.num_anchors)).mask
    assert excluded is not None  # because ``valid`` is given
    columns = [is_bad(block).expand(batch.num_anchors, -1) for block in batch.columns]
    bad = is_bad(batch.anchors) | (torch.cat(columns, dim=1) & ~excluded).any(dim=1)
    absent = excluded.all(dim=1)
    if batch.anchor_of is not None:
        bad, absent = bad[batch.anchor_of], absent[batch.anchor_of]
    bad = bad | is_bad(batch.pair_positives)
    dtype = batch.anchors.embeddings.dtype
    weight = bad.new_ones((), dtype=dtype) if batch.weight is None else batch.weight
    weight = torch.where(bad, torch.where(absent, 0.0, torch.nan).to(dtype), weight)
    zeroed = batch.map_rows(
        lambda rows: replace(
            rows, embeddings=rows.embeddings.masked_fill(is_bad(rows)[..., None], 0.0)
        )
    )
    return replace(zeroed, weight=weight)


def corrected(batch: Batch, log_q: Float[Tensor, " pairs"], temperature: float | Tensor) -> Batch:
    """Subtract ``log_q`` from the logits of the candidates and of the positives."""
    # (a . c + t * -log_q) / t = s - log_q, in every engine, and with the right gradient for t.
    embeddings = batch.anchors.embeddings
    dtype = torch.promote_types(embeddings.dtype, torch.float32)
    scale = torch.as_tensor(temperature, dtype=dtype, device=embeddings.device)
    zero = embeddings.new_zeros(())
    return replace(
        batch,
        anchors=batch.anchors.with_coordinate(scale),
        positives=batch.pair_positives.with_coordinate(-log_q),
        are_units=False,
        columns=tuple(
            block.with_coordinate(zero if block.log_q is None else -block.log_q)
            for block in batch.columns
        ),
    )


def refuse_not_finite(
    losses: Float[Tensor, " pairs"], batches: Sequence[Batch], temperature: float | Tensor
) -> None:
    """Raise ``ValueError`` if losses are not finite, and name the likely cause."""
    bad = int((~losses.detach().isfinite()).sum())
    if bad == 0:
        return
    rows = [part for batch in batches for part in (batch.pair_positives, *batch.columns)]
    for part in rows:
        for name in ("log_q", "teacher"):
            values = getattr(part, name)
            if values is not None:
                check_finite(name, values)
    scale = torch.as_tensor(temperature, device="cpu").detach().item()
    largest = max(float(part.embeddings.detach().abs().max()) for part in rows)
    raise ValueError(
        f"logits must be finite, got NaN or infinity for {bad} of {len(losses)} pairs: "
        f"the largest embedding coordinate is {largest:.3g} and the temperature {scale:.3g}"
    )
