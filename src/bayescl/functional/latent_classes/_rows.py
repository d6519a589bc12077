"""Rows of unit length, and columns that belong to one of several mixtures."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn import functional as F

from bayescl.axes import Bool, Float, Tensor
from bayescl.checks import check_shape
from bayescl.functional.similarity import ordinary_lengths


def unit_rows(
    rows: Float[Tensor, "rows dim"],
) -> tuple[Float[Tensor, "rows dim"], Float[Tensor, " rows"]]:
    """Rows of unit length, and a size of each, which says whether it has a direction.

    Rows that are not finite, or have no direction, become 0.
    """
    rows = rows.detach()
    if rows.dtype not in (torch.float32, torch.float64):
        rows = rows.float()
    lengths = ordinary_lengths(rows)
    if lengths is not None:
        return rows / lengths, lengths.squeeze(1)
    # By the largest entry first: squares of tiny or huge entries would leave the range.
    largest = rows.abs().amax(dim=1)
    clean = torch.where(usable(largest)[:, None], rows / largest[:, None], 0)
    return F.normalize(clean, dim=1), largest


def usable(size: Float[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
    """Which rows are finite and have a direction, by their sizes."""
    return size.isfinite() & (size > 0)


def by_component(
    values: Float[Tensor, " mixtures"], sizes: Sequence[int]
) -> Float[Tensor, " components"]:
    """Each mixture's value for each of its components."""
    return torch.cat([value.expand(size) for value, size in zip(values, sizes, strict=True)])


def sum_by_mixture(
    values: Float[Tensor, " components"], sizes: Sequence[int]
) -> Float[Tensor, " mixtures"]:
    """Sums over the components of each mixture."""
    return torch.stack([part.sum() for part in torch.split(values, list(sizes))])


def unit_by_mixture(
    rows: Float[Tensor, "rows components"],
    sizes: Sequence[int],
    lengths: Float[Tensor, " mixtures"] | None = None,
) -> Float[Tensor, "rows components"]:
    """Rows with length 1, or the given one, in the columns of each mixture."""
    parts: list[Tensor] = []
    wanted = [1.0] * len(sizes) if lengths is None else lengths.unbind()
    for part, length in zip(torch.split_with_sizes(rows, sizes, 1), wanted, strict=True):
        norm = torch.linalg.vector_norm(part, dim=1, keepdim=True).clamp_min_(1e-12)
        parts.append(part * (length / norm))
    return torch.cat(parts, dim=1)


def mean_product(rows: Float[Tensor, "rows components"]) -> Float[Tensor, ""]:
    """Mean inner product of two different rows, without the matrix; 0 where there are no two."""
    pairs = rows.sum(dim=0).square().sum() - rows.square().sum()
    return pairs / max(1, len(rows) * (len(rows) - 1))


def check_shares(first: Tensor, second: Tensor, sizes: Sequence[int]) -> None:
    """Refuse responsibilities of two views that do not belong together."""
    check_shape("first", first, (first.shape[0], sum(sizes)))
    check_shape("second", second, first.shape)
