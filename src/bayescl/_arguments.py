"""Checks of the arguments of a call, and the rows that they become."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from bayescl._checks import (
    check_finite,
    check_indices,
    check_mask,
    check_shape,
    check_tensor,
    is_eager_cpu,
)
from bayescl._ops.kept import kept
from bayescl._types import Float, Tensor
from bayescl.batch import Batch, Layout
from bayescl.rows import UNKNOWN, Rows


def checked_embeddings(given: Mapping[str, Any], *, finite: bool) -> list[Rows]:
    """Check embeddings and bring them to one precision, at least float32."""
    device: torch.device | None = None
    dtype, found = torch.float32, []
    for name, part in given.items():
        if part is None and name == "extra":
            continue
        rows = part if isinstance(part, Rows) else Rows(part)
        embeddings = rows.embeddings
        check_tensor(name, embeddings, device, floating=True)
        device = embeddings.device
        if embeddings.ndim not in ((2, 3) if name in ("candidates", "extra") else (2,)):
            raise ValueError(f"{name} must have shape [rows, dim], got {list(embeddings.shape)}")
        if embeddings.numel() == 0:
            raise ValueError(f"{name} must not be empty, got shape {list(embeddings.shape)}")
        if finite:
            check_finite(name, embeddings)
        if embeddings.dtype != dtype:
            dtype = torch.promote_types(dtype, embeddings.dtype)
        found.append(rows)
    for index, rows in enumerate(found):
        if rows.embeddings.dtype != dtype:
            found[index] = replace(rows, embeddings=rows.embeddings.to(dtype))
    return found


def with_metadata(rows: Rows, title: str, given: Mapping[str, Tensor | None]) -> Rows:
    """Add the metadata of a call to its rows, and check all metadata of the rows.

    Rows without metadata of their own have an empty title.
    """
    known = {}
    for name, part in given.items():
        if part is not None:
            known[name] = part
    if not known:
        return rows.checked(title) if title else rows
    return replace(rows, **known).checked(title)


def checked_candidates(name: str, rows: Rows, anchors: Rows) -> Rows:
    """Check candidates, and their metadata against the metadata of the anchors."""
    dim, own = anchors.embeddings.shape[1], rows.are_own
    check_shape(name, rows.embeddings, (*((len(anchors),) if own else ()), name, dim))
    for field in rows.metadata:
        if field != "log_q" and getattr(anchors, field, rows) is None:
            raise ValueError(f"{name}.{field} needs {field} of the anchors")
    return rows.checked(name, like=anchors)


def checked_anchor_of(anchors: Rows, positives: Rows, anchor_of: Tensor | None) -> Tensor | None:
    """Check that positives belong to the anchors; return ``anchor_of`` as an index."""
    rows = anchors.embeddings
    if anchor_of is None:
        check_shape("positives", positives.embeddings, rows.shape)
        return None
    check_shape("positives", positives.embeddings, ("pairs", rows.shape[1]))
    shape = positives.embeddings.shape[:1]
    check_indices("anchor_of", anchor_of, shape, len(anchors), "anchors", rows.device)
    return anchor_of.long()


def checked_positive_indices(
    indices: Tensor, candidates: Rows, anchor_of: Tensor | None, gathers: bool
) -> Tensor:
    """Check positives that are given as indices of shared candidates."""
    if anchor_of is None or candidates.are_own or candidates.log_q is not None or gathers:
        raise ValueError(
            "positives can be indices only if anchor_of is given, candidates are shared, gather is "
            "False and log_q is None"
        )
    rows = candidates.embeddings
    shape = check_tensor("anchor_of", anchor_of).shape
    check_indices("positives", indices, shape, len(candidates), "candidates", rows.device)
    return indices.long()


def batch_of_views(anchors: Rows, views: int, *, are_units: bool) -> Batch:
    """Build the batch of all views: every other view of an item is a positive."""
    count, device = len(anchors.embeddings), anchors.embeddings.device

    def make() -> tuple[Tensor, ...]:
        own = torch.arange(count, device=device)
        return own, torch.cat([own.roll(-view * count // views) for view in range(1, views)])

    own, positive = kept(("views", views, count, device), make)
    anchor_of = None if views == 2 else own.repeat(views - 1)
    layout: Layout = "two_views" if views == 2 else "views"
    return Batch(layout, anchors, None, (anchors,), anchor_of, own, positive, are_units=are_units)


def first_of_each(pairs: Rows, anchor_of: Tensor, anchors: int) -> Rows:
    """Return the metadata of each anchor's first pair; unknown for an anchor without pairs."""
    count = len(anchor_of)
    order = torch.arange(count, device=anchor_of.device)
    first = anchor_of.new_full((anchors,), count).scatter_reduce(0, anchor_of, order, "amin")
    has_none = first == count
    known = pairs[first.clamp(max=count - 1)]
    unknown = {"groups": UNKNOWN, "domains": UNKNOWN, "labels": UNKNOWN}
    fields = {
        name: part.masked_fill(has_none.view(-1, *[1] * (part.ndim - 1)), unknown.get(name, 0))
        for name, part in known.metadata.items()
    }
    return replace(known, **fields)


def checked_weight(weight: Tensor | None, positives: Rows) -> Tensor | None:
    """Check the weights of pairs and bring them to the precision of the embeddings."""
    if weight is None:
        return None
    rows = positives.embeddings
    check_tensor("positive_weight", weight, rows.device, floating=True)
    check_shape("positive_weight", weight, rows.shape[:1])
    if is_eager_cpu(weight) and not (bool((weight >= 0).all()) and bool(weight.any())):
        raise ValueError("positive_weight must be non-negative, with at least one positive value")
    return weight.detach().to(rows.dtype)


def check_valid(
    valid: Tensor, shape: tuple[int, int | None], device: torch.device, *, gathers: bool
) -> None:
    """Check a mask. The number of columns is ``None`` if it depends on other processes.

    With ``gathers``, this process's part of the mask may be False everywhere.
    """
    columns = "candidates of all processes" if shape[1] is None else shape[1]
    check_mask("valid", valid, (shape[0], columns), device)
    # NumPy's ``any`` stops at the first True; torch's reads the whole mask.
    if not gathers and is_eager_cpu(valid) and not valid.numpy().any():
        raise ValueError("valid must be True for at least one candidate")


def checked_target(
    target: Tensor, anchors: Rows | Tensor, columns: int, *, gathers: bool, finite: bool
) -> Tensor:
    """Check target probabilities and bring them to the precision of the anchors.

    Args:
        target: ``[anchors, columns]``, dense or sparse COO.
        anchors: Rows of the anchors, or their logits.
        columns: Number of columns of this process.
        gathers: Whether the target may have the columns of all processes.
        finite: Whether to check for NaN and infinity.
    """
    rows = anchors.embeddings if isinstance(anchors, Rows) else anchors
    for name in ("teacher", "labels"):
        if getattr(anchors, name, None) is not None:
            raise ValueError(f"target cannot be combined with {name}: pass one of them")
    check_tensor("target", target, rows.device, sparse=True, floating=True)
    is_known = target.ndim == 2 and (not gathers or target.shape[1] == columns)
    wanted = columns if is_known or not gathers else "columns of this or of all processes"
    check_shape("target", target, (len(rows), wanted))
    target = target.detach().to(rows.dtype)
    if target.is_sparse:
        target = target.coalesce()
    if finite:
        check_finite("target", target.values() if target.is_sparse else target)
    check_probabilities("target", target)
    return target


def check_probabilities(name: str, target: Float[Tensor, "anchors columns"]) -> None:
    """Check that the entries of a target are not negative and sum to at most 1 per anchor."""
    values = target.values() if target.is_sparse else target
    if not is_eager_cpu(values) or values.numel() == 0:
        return
    lowest, largest = float(values.min()), float(target.sum(dim=1).to_dense().max())
    # Half precision rounds probabilities to three digits. NaN gives a loss of NaN.
    if lowest < 0 or largest > 1.01:
        raise ValueError(
            f"{name} must contain probabilities: at least 0, with a sum of at most 1 per anchor, "
            f"got a smallest entry of {lowest:.3g} and a largest sum of {largest:.3g}"
        )


def check_logits(
    positive: Float[Tensor, " anchors"], unlabeled: Float[Tensor, "anchors candidates"]
) -> tuple[Float[Tensor, " anchors"], Float[Tensor, "anchors candidates"]]:
    """Check logits and bring them to one precision, at least float32."""
    check_tensor("positive", positive, floating=True)
    check_tensor("unlabeled", unlabeled, positive.device, floating=True)
    check_shape("positive", positive, ("anchors",))
    check_shape("unlabeled", unlabeled, (positive.shape[0], "candidates"))
    if unlabeled.numel() == 0:
        raise ValueError(f"unlabeled must not be empty, got shape {list(unlabeled.shape)}")
    dtype = torch.promote_types(positive.dtype, unlabeled.dtype)
    dtype = torch.promote_types(dtype, torch.float32)
    return positive.to(dtype), unlabeled.to(dtype)
