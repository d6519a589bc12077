"""From embeddings to logits."""

from __future__ import annotations

from typing import Any

import torch

from bayescl.axes import Float, Tensor
from bayescl.checks import is_eager_cpu

_ORDINARY = (1e-10, 1e10)
"""Lengths whose squares are far from the ends of float32."""


def unit_vectors(embeddings: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows dim"]:
    """Scale every embedding to length 1, so that inner products are cosine similarities.

    Tiny and huge ones neither underflow nor overflow. An all-zero embedding stays zero, has
    similarity 0 to everything and receives a finite gradient, as does one whose coordinates are all
    below the smallest normal number. A row with NaN or infinity becomes NaN, with gradient 0.

    Args:
        embeddings: rows of any finite length. Differentiated.

    Returns:
        Rows of length 1 (0 if the row was all zero), same dtype.

    Example:
        >>> unit_vectors(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
        tensor([[0.6000, 0.8000],
                [0.0000, 0.0000]])
    """
    lengths = ordinary_lengths(embeddings)
    if lengths is not None:
        unit: Tensor = _ScaledToUnit.apply(embeddings, lengths.reciprocal())
        return unit
    largest = embeddings.detach().abs().amax(dim=-1, keepdim=True)
    # A row that is not finite becomes NaN and gets no gradient, which a product with NaN would
    # turn into NaN even where the row is masked.
    finite = largest.isfinite()
    embeddings = torch.where(finite, embeddings, 0.0)
    # Below the smallest normal number a quotient has infinite gradient, so such rows count as zero.
    small = ~finite | (largest < torch.finfo(embeddings.dtype).tiny)
    # The result does not change with the scale, so the scale may be a constant for the gradient.
    scaled = embeddings / torch.where(small, 1.0, largest)
    length = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    # A product has a cheaper gradient than a quotient.
    unit = scaled * torch.where(small, 1.0, length).reciprocal()
    return torch.where(finite, unit, torch.nan)


def ordinary_lengths(rows: Float[Tensor, "*rows dim"]) -> Float[Tensor, "*rows 1"] | None:
    """Lengths of rows, if they can be computed without scaling the rows first.

    None if squares of a length would leave the range of float32, if one is not finite, or if
    branching on values would synchronize or is not allowed here.
    """
    if rows.dtype not in (torch.float32, torch.float64) or not is_eager_cpu(rows):
        return None
    lengths: Tensor = torch.linalg.vector_norm(rows.detach(), dim=-1, keepdim=True)
    if lengths.numel() == 0:
        return lengths
    shortest, longest = lengths.aminmax()
    ordinary = shortest.item() > _ORDINARY[0] and longest.item() < _ORDINARY[1]  # never with NaN
    return lengths if ordinary else None


class _ScaledToUnit(torch.autograd.Function):
    """Rows times the reciprocals of their lengths, with the gradient in closed form."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, reciprocal: Tensor) -> Tensor:
        unit = rows * reciprocal
        ctx.save_for_backward(rows, unit, reciprocal)
        ctx.save_for_forward(rows, unit, reciprocal)
        return unit

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        rows, unit, reciprocal = ctx.saved_tensors
        if torch.is_grad_enabled():  # to be differentiated once more, lengths included
            reciprocal = torch.linalg.vector_norm(rows, dim=-1, keepdim=True).reciprocal()
            unit = rows * reciprocal
        return _across(upstream, unit) * reciprocal, None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _of_reciprocal: None) -> Tensor:
        _, unit, reciprocal = ctx.saved_tensors
        change: Tensor = _across(tangent, unit) * reciprocal
        return change


def _across(vectors: Tensor, unit: Tensor) -> Tensor:
    """What is left of vectors without their parts along unit vectors."""
    along = (vectors * unit).sum(dim=-1, keepdim=True)
    return torch.addcmul(vectors, unit, along, value=-1)


def pair_logits(
    anchors: Float[Tensor, "anchors dim"],
    positives: Float[Tensor, "anchors dim"],
    temperature: float | Float[Tensor, ""],
) -> Float[Tensor, " anchors"]:
    """Logit of each anchor with its own row of ``positives``.

    Args:
        anchors: unit vectors for cosine similarities, or any vectors for inner products.
        positives: as ``anchors``.
        temperature: softmax scale, positive. Differentiated if it is a tensor.

    Returns:
        Inner products divided by the temperature.

    Example:
        >>> pair_logits(torch.eye(2), torch.eye(2), temperature=0.5)
        tensor([2., 2.])
    """
    return torch.einsum("ad,ad->a", anchors, positives) / temperature


def candidate_logits(
    anchors: Float[Tensor, "anchors dim"],
    candidates: Float[Tensor, "*own candidates dim"],
    temperature: float | Float[Tensor, ""],
) -> Float[Tensor, "anchors candidates"]:
    """Logit of each anchor with each of its candidates.

    As :func:`pair_logits`; candidates are ``[candidates, dim]`` if all anchors share them, or
    ``[anchors, candidates, dim]`` if each has its own.

    Example:
        >>> candidate_logits(torch.eye(2), torch.tensor([[0.0, 1.0]]), temperature=0.5)
        tensor([[0.],
                [2.]])
    """
    # Dividing the smaller operand by the temperature saves a pass over the logits.
    scaled = anchors / temperature
    if candidates.ndim == 2:
        return scaled @ candidates.T
    return torch.einsum("ad,and->an", scaled, candidates)
